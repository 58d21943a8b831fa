"""The text of a verification's queries. The tests on a real Spark say what they find."""

from dataclasses import replace

from pipeline.lake.live_view import MirrorPosition, Versions
from pipeline.lake.verification.queries import (
    ComparedTable,
    doubt_sql,
    findings_sql,
    found_keys_sql,
    judgement_sql,
    no_keys_sql,
    of_runs,
    stated_sql,
)
from pipeline.lake.verification.runs import FindingKind, Judgement, LakeVerdict, VerificationRun
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import Double, Integer, Text

TABLE = TableSchema(
    TableId("shop", "it's"),
    (
        Column("id", Integer(8, unsigned=False), False),
        Column("name", Text("utf8mb4"), False),
        Column("price", Double(), True),
        Column("note", Text("utf8mb4"), True),
    ),
    (0, 1),
)
COMPARED = ComparedTable("lake", TABLE, MirrorPosition(3, 5), Versions(7, 9))
RUN = VerificationRun("v'1", TABLE.table, 7, narrowed=False, ended=True, reason="", rows=3)


def test_both_tables_are_read_at_versions_that_belong_together() -> None:
    text = COMPARED.findings("rows", 11, (1, 5))
    assert text.count("VERSION AS OF 7") == 1
    assert text.count("VERSION AS OF 9") == 2
    assert "`__scn` > 11" in text
    assert "WHERE `id` BETWEEN 1 AND 5" in text, "files outside of the keys aren't read"
    assert "BETWEEN" not in COMPARED.findings("rows", 11, (None, None))


def test_floats_are_compared_by_their_text() -> None:
    text = COMPARED.findings("rows", 11, (1, 5))
    assert "CAST(CAST(l.`price` AS DOUBLE) AS STRING) <=> CAST(CAST(v.`price` AS DOUBLE) AS STRING)" in text
    assert "(l.`note` <=> v.`note`)" in text


def test_a_hash_has_what_a_hash_of_sparks_leaves_out() -> None:
    text = COMPARED.compared_parts("rows", 11)
    sign = "CASE WHEN `price` = 0 THEN CAST(`price` AS STRING) END"
    bits = ((1, "id"), (2, "name"), (4, "price"), (8, "note"))
    nulls = " | ".join(f"CASE WHEN `{name}` IS NULL THEN {bit}L ELSE 0L END" for bit, name in bits)
    assert text.count(f"xxhash64({nulls}, `id`, `name`, `price`, {sign}, `note`)") == 3
    assert text.count(f"xxhash64(`note`, `price`, {sign}, `name`, `id`, {nulls})") == 3
    assert "max(CASE WHEN `__scn` > 11 THEN `__scn` END)" in text
    assert "xxhash64(1L, s.`id` IS NULL, s.`name` IS NULL, s.`id`, s.`name`)" in text


def test_changes_count_as_they_do_where_they_are_gathered() -> None:
    counted = (
        "`__op` NOT IN ('b', 't') AND (`__scn` > 11 OR `__segment` > 5 AND `__scn` > 3 AND `__op` NOT IN"
    )
    text = COMPARED.compared_parts("rows", 11)
    assert f"WHERE {counted}" in text and "VERSION AS OF 9" in text
    text = replace(COMPARED, gathered="changes").compared_parts("rows", 11)
    assert f"FROM changes\n  WHERE {counted}" in text and "VERSION AS OF 9" not in text


def test_only_some_rows_of_the_mirror_are_compared() -> None:
    text = COMPARED.compared_parts("rows", 11, "mirrored")
    assert "FROM mirrored" in text and "VERSION AS OF 7" not in text
    assert "VERSION AS OF 7" in COMPARED.compared_parts("rows", 11)


def test_nulls_of_many_columns_are_in_several_numbers() -> None:
    columns = tuple(Column(f"c{at}", Integer(8, unsigned=False), True) for at in range(65))
    wide = TableSchema(TableId("shop", "wide"), columns, (0,))
    text = ComparedTable("lake", wide, MirrorPosition(3, 5), Versions(7, 9)).compared_parts("rows", 11)
    assert f"`c62` IS NULL THEN {1 << 62}L ELSE 0L END, CASE WHEN `c63` IS NULL THEN 1L ELSE 0L END |" in text


def test_a_view_reads_what_its_mirror_lacks_only_where_it_may() -> None:
    """Of a frozen mirror no change counts, and a partial one's rows have columns of several changes."""
    frozen = ComparedTable("lake", TABLE, MirrorPosition(3, 5, pin="p", frozen=True), Versions(7, 9))
    text = frozen.compared_parts("rows", 11)
    assert "row_number()" not in text and "`__segment` > 5" not in text
    partial = ComparedTable("lake", TABLE, MirrorPosition(3, 5, partial=True), Versions(7, 9))
    text = partial.compared_parts("rows", 11)
    assert partial._live in text and "max(false) AS `pending `" in text


def test_a_row_that_the_view_hides_is_not_missing() -> None:
    hiding = ComparedTable("lake", TABLE, MirrorPosition(3, 5, partial=True), Versions(7, 9), unread=8)
    text = hiding.findings("rows", 11, (1, 5))
    assert "`__absent` IS NOT NULL AND `__op` <> 'd' AND `__scn` > 8" in text
    assert "WHERE `__scn` > 8 AND" in text


def test_rows_of_a_repair_are_counted() -> None:
    counted = "count(*) OVER (PARTITION BY v.`__chunk`, v.`id`, v.`name`)"
    assert counted in COMPARED.findings("rows", 11, (1, 5), repaired=True)
    assert counted not in COMPARED.findings("rows", 11, (1, 5)), "which would sort all rows"


def test_keys_to_repair_have_an_order_that_stays() -> None:
    text = found_keys_sql("findings", TABLE, 2000, 1001)
    assert "from_json(key, '`id` BIGINT, `name` STRING'" in text
    assert "ORDER BY key LIMIT 1001 OFFSET 2000" in text


def test_only_a_verification_of_all_rows_finds_extra_ones() -> None:
    assert "k.known IS NULL OR" in COMPARED.left_over(RUN, "keys")
    some = VerificationRun("v1", TABLE.table, 7, narrowed=True, ended=True, reason="", rows=3)
    assert "k.known IS NULL OR" not in COMPARED.left_over(some, "keys")
    assert COMPARED.key_items() == "`id` AS k0, `name` AS k1"
    assert (
        no_keys_sql(["BIGINT", "STRING"])
        == "SELECT CAST(NULL AS BIGINT) AS k0, CAST(NULL AS STRING) AS k1 WHERE false"
    )


def test_names_are_literals() -> None:
    assert of_runs([RUN]) == r"`__chunk` IN ('v\'1')"
    assert of_runs([]) == "`__chunk` IN (NULL)"
    assert r"'it\'s' AS `table`" in stated_sql(TABLE.table, "a:1-5", 4, doubt_sql(RUN, "so"), None)
    first = findings_sql("there", None, [RUN])
    own = r"`run` = 'v\'1' AND `database` = 'shop' AND `table` = 'it\'s'"
    assert first == f"SELECT * FROM there WHERE {own}"
    there = findings_sql("there", "results", [RUN])
    earlier = f"SELECT max(`at`) FROM results WHERE {own} AND since < 7"
    assert there == f"{first} AND `at` > coalesce(({earlier}), TIMESTAMP '1970-01-01')"
    assert f"LEFT ANTI JOIN ({there}) AS f" in stated_sql(TABLE.table, "a:1-5", 4, "found", there)
    judged = Judgement(RUN.run, RUN.table, LakeVerdict.DIFFERENT, 3, {FindingKind.EXTRA: 2}, "a:1-5", 5.0)
    assert "CAST(2 AS BIGINT) AS extra" in judgement_sql(judged, 7)
    assert "CAST(0 AS BIGINT) AS missing" in judgement_sql(judged, 7)
