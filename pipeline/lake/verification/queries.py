"""The queries of a verification, in Spark's SQL (`pipeline.lake.verification.runs` says what they have to find).

They compare values exactly. Texts, bytes, numbers, dates and labels are equal if all of their bytes are. A FLOAT or a
DOUBLE is compared as its text, because Spark's own comparison takes -0.0 for 0.0. A verified value is cast to the type
of the lake's column, which is as wide or wider.

Almost always no row differs. That is shown first, by sums, without a sort of all rows. Where it can, this process reads
the files of both sides (`actors.lake.files.compared_files`), and sums the rows whose keys haven't changed
(`pipeline.lake.verification.row_sums`). `compared_parts` compares the rest, or all rows of a table that only Spark can
read. Its only join looks up the keys that have changed.

**Symbols.** L, V: the rows of the live view, and the verified ones. h(r): two hashes of 64 bits of all values of a row
r, its key among them. T: the keys that changed after the verification began. C: the keys in T, and those with a change
that isn't merged (`pipeline.lake.mirrors.counted_changes`).

1. Rows of L and V whose key isn't in T are divided into parts by their keys. In each part the sum of h over L's rows,
   less that over V's rows, is zero if both have the same rows. Otherwise it is zero with a probability of 2^-128,
   because rows that differ have other hashes. The hashes are no secret. So this holds for accidents, and not for
   somebody who makes rows for the sake of their sums.
2. A key of T has its own sum. A change after its verified row excuses it. If no row of it was verified, any change
   does. Keys of T are told apart by two hashes, too. One of them says which parts of a key are NULL: without it two
   keys with the same values in other places would be one.
3. A verification reads each key once. So if all sums are zero, the live view has each key once, too.
4. Rows whose key isn't in C are the same in L and in the mirror. So the sums of V's and of the mirror's rows outside of
   C say of them what 1 says. The rest of both sides, with all rows of keys in C, is compared as a whole is. It doesn't
   matter if it has rows of other keys too, as long as a key decides alone where its rows go, on either side.

L is the mirror without the keys that have changes which aren't merged, and their last changes (`live_view`). These keys
are looked up together with T, by a hash of 64 bits first. Rows of the mirror are counted or left out as they come.

The upper and the lower half of a hash have sums of their own, which stay below 2^63 for 2^31 rows in a part.
"""

# ruff: noqa: S608 - all names are quoted, and what else goes into the text are numbers and literals of ours
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pipeline.lake.live_view import OP, MirrorPosition, Versions, last_changes, live_view_sql
from pipeline.lake.reading.sql_dialects import Dialect
from pipeline.lake.tables.columns import columns, ordered_key
from pipeline.lake.tables.spark_sql import literal, quoted
from pipeline.lake.tables.tier import Tier
from pipeline.lake.verification.runs import FindingKind, Judgement, VerificationRun
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import Double, Float, Vector

# Names that no column has, because they end with a space.
_THERE, _SCN, _UNKNOWN, _NUMBER = map(quoted, ("there ", "scn ", "unknown ", "number "))
_ONE, _OTHER, _SIGN, _PART = map(quoted, ("one ", "other ", "sign ", "part "))
_KEY, _TWIN, _MIRRORED, _PENDING = map(quoted, ("key ", "twin ", "mirrored ", "pending "))

# Sums of hashes are of so many parts of a table.
_PARTS: Final = 1024

# So many columns have their NULLs in one number, which has no sign then.
_NULLS_IN_ONE: Final = 63

# The kind of what is no finding, but a reason why not all can be told.
DOUBT: Final = "unjudged"

# A key as text, which says all of it.
_FORMATS: Final = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_KEY_OPTIONS: Final = f"map({', '.join(literal(part) for option in _FORMATS.items() for part in option)})"


@dataclass(frozen=True, slots=True)
class ComparedTable:
    """A live view at two versions that belong together.

    `unread`: the SCN up to which the view hides no row because the log had only a part of it; None if it hides none.
    `gathered`: a name for the changes that count, if they are gathered from the changelog.
    """

    lake: str
    schema: TableSchema
    reached: MirrorPosition
    at: Versions
    unread: int | None = None
    gathered: str | None = None

    @property
    def ordered(self) -> tuple[str, ...]:
        """Returns the parts of the key by whose extent rows are selected."""
        return ordered_key(self.schema)

    def extent(self, rows: str) -> str:
        """Returns the query for the number of verified rows, their least SCN, and what `findings` takes as bounds."""
        ends = (f"min({name}), max({name})" for name in map(quoted, self.ordered))
        return f"SELECT {', '.join(('count(*)', 'min(`__scn`)', *ends))} FROM {rows}"

    def findings(self, rows: str, least_scn: int, bounds: Sequence[object], *, repaired: bool = False) -> str:
        """Returns the query for rows that are missing or different: run, kind, key, columns and scn.

        `rows`: the name of the verified rows, with a live view's columns, `__op`, `__chunk` and `__scn`. `bounds` of
        their keys: the least and the greatest value of each part in `ordered`. `repaired`: whether rows of a repair are
        among them. Of those, keys that the source has no row of are found too, and rows that come twice.
        """
        differing = ", ".join(
            f"CASE WHEN NOT {self._equal(column.name)} THEN {literal(column.name)} END"
            for column in self.schema.columns
            if column.name not in self.schema.key_names
        )
        listed = f"filter(array({differing}), name -> name IS NOT NULL)" if differing else "array()"
        there, gone = f"l.{_THERE}", "v.`__op` = 'd'"
        columns = f"CASE WHEN {there} AND NOT {gone} THEN CAST({listed} AS ARRAY<STRING>) END"
        kind = f"""CASE WHEN {gone} THEN CASE WHEN {there} THEN {literal(FindingKind.EXTRA)} END
    WHEN {there} THEN {literal(FindingKind.DIFFERENT)} ELSE {literal(FindingKind.MISSING)} END"""
        key = ", ".join(f"v.{quoted(name)}" for name in self.schema.key_names)
        number = f"count(*) OVER (PARTITION BY v.`__chunk`, {key})" if repaired else "1"
        since = least_scn if self.unread is None else min(least_scn, self.unread)
        twice, extra = literal(FindingKind.DUPLICATE), literal(FindingKind.EXTRA)
        return f"""SELECT run, CASE WHEN kind <> {extra} AND {_NUMBER} > 1 THEN {twice} ELSE kind END AS kind,
  key, columns, scn FROM (
SELECT v.`__chunk` AS run, {kind} AS kind, {self._key_text("v")} AS key, {columns} AS columns, v.`__scn` AS scn,
  coalesce(x.{_UNKNOWN}, 0) AS hidden, {number} AS {_NUMBER}
FROM {rows} AS v
LEFT JOIN (SELECT *, true AS {_THERE} FROM (
{self._live}
){self._within(bounds)}) AS l ON {self._same("v", "l")}
LEFT JOIN (
{self._changed(since)}
) AS x ON {self._same("v", "x")}
WHERE coalesce(x.{_SCN}, 0) <= v.`__scn`
) WHERE kind = {literal(FindingKind.MISSING)} AND hidden = 0 OR kind = {extra} OR size(columns) > 0
  OR kind <> {extra} AND {_NUMBER} > 1"""

    def compared_parts(self, rows: str, since: int, mirror: str | None = None) -> str:
        """Returns the query for the parts.

        It has `part`, the number of its verified `rows`, and whether it `differs`. That means that the two sides don't
        have the same rows.

        `rows`: the name of all rows that a verification has read, which began at the SCN `since`. Keys that have
        changed after their row, or after the beginning if there is no row, are left out. If no part differs, nothing is
        missing, extra, different or twice, and `findings` and `left_over` find nothing either. `mirror`: the name of
        those of the mirror's rows that are compared, if `rows` aren't all either. Rows with any key of C are among
        both.
        """
        lower, upper = "{} * ({} & 4294967295)", "{} * shiftrightunsigned({}, 32)"
        summed = (half.format(_SIGN, each) for each in (_ONE, _OTHER) for half in (lower, upper))
        equal = " AND ".join(f"sum({each}) = 0" for each in (_SIGN, *summed))
        # Groups of numbers that are never NULL are the fastest: all unchanged rows of a part, and each key of T.
        part = f"CASE WHEN x.{_SCN} IS NULL THEN pmod(s.{_KEY}, {_PARTS}) ELSE s.{_KEY} END"
        twin = f"CASE WHEN x.{_SCN} IS NULL THEN 0L ELSE {self._key_twin} END"
        return f"""SELECT pmod({_PART}, {_PARTS}) AS part, sum({_NUMBER}) AS rows,
  max(NOT {_ONE} AND ({_SCN} IS NULL OR {_SCN} <= {_THERE})) AS differs FROM (
SELECT {_PART}, max({_SCN}) AS {_SCN}, max({_THERE}) AS {_THERE}, {equal} AS {_ONE},
  count({_THERE}) AS {_NUMBER} FROM (
SELECT s.{_ONE}, s.{_OTHER}, s.{_SIGN}, s.{_THERE}, x.{_SCN}, {part} AS {_PART}, {twin} AS {_TWIN} FROM (
{self._both_sides(rows, mirror)}
) AS s
LEFT JOIN (
{self._changed_or_pending(since)}
) AS x ON s.{_KEY} = x.{_KEY} AND {self._same_by_order}
WHERE NOT (s.{_MIRRORED} AND coalesce(x.{_PENDING}, false))
) GROUP BY {_PART}, {_TWIN}
) GROUP BY pmod({_PART}, {_PARTS})"""

    def _both_sides(self, rows: str, mirror: str | None) -> str:
        """Returns the query for all rows of the live view, those of the mirror unless they are pending, and V."""
        values = f"{self._hash(1)} AS {_ONE}, {self._hash(-1)} AS {_OTHER}"
        listed = f"{self._key_names}, {self._key_hash} AS {_KEY}, {values}"
        sides = [f"SELECT {listed}, -1L AS {_SIGN}, `__scn` AS {_THERE}, false AS {_MIRRORED} FROM {rows}"]
        live = f"SELECT {listed}, 1L, CAST(NULL AS BIGINT), {{}} FROM {{}}"
        if self.reached.partial:
            return " UNION ALL\n".join((*sides, live.format("false", f"(\n{self._live}\n)")))
        whole = Dialect.SPARK.table(self.lake, self.schema.table, Tier.MIRROR, self.at.mirror)
        sides.append(live.format("true", mirror or whole))
        if not self.reached.frozen:
            last = last_changes(self.schema, self._changelog, self.reached, self.reached.condition())
            sides.append(live.format("false", f"(\n{last}\n) WHERE `{OP}` <> 'd'"))
        return " UNION ALL\n".join(sides)

    def _changed_or_pending(self, since: int) -> str:
        """Returns the query for keys, with where each has changed last after an SCN, or whether it isn't merged."""
        return f"""  SELECT {self._key_names}, {self._key_hash} AS {_KEY}, max({self._pending}) AS {_PENDING},
    max(CASE WHEN `__scn` > {since} THEN `__scn` END) AS {_SCN} FROM {self._changelog}
  WHERE `__op` NOT IN ('b', 't') AND (`__scn` > {since} OR {self._pending}) GROUP BY {self._key_names}"""

    @property
    def _pending(self) -> str:
        return "false" if self.reached.partial or self.reached.frozen else self.reached.condition()

    @property
    def _key_names(self) -> str:
        return ", ".join(map(quoted, self.schema.key_names))

    @property
    def _key_hash(self) -> str:
        return f"xxhash64({self._key_names})"

    @property
    def _key_twin(self) -> str:
        """Returns another hash of a key of `s`, which depends on the parts that are NULL as well. A hash leaves NULL
        out.
        """
        names = [f"s.{quoted(name)}" for name in self.schema.key_names]
        return f"xxhash64(1L, {', '.join([*(f'{name} IS NULL' for name in names), *names])})"

    def _hash(self, order: int) -> str:
        """Returns a hash of all values of a row, with the columns in their order (1) or from the end (-1)."""
        values = [*_nulls(self.schema.columns), *(_hashed(column) for column in self.schema.columns)]
        return f"xxhash64({', '.join(part for value in values[::order] for part in value)})"

    @property
    def _same_by_order(self) -> str:
        """Returns the condition that keys of `s` and `x` are the same, in a form that Spark doesn't look up rows by."""
        pairs = [(f"s.{quoted(name)}", f"x.{quoted(name)}") for name in self.schema.key_names]
        return " AND ".join(
            f"coalesce({ours} >= {theirs} AND {ours} <= {theirs}, {ours} IS NULL AND {theirs} IS NULL)"
            for ours, theirs in pairs
        )

    def left_over(self, run: VerificationRun, keys: str) -> str:
        """Returns the query for keys that are extra, or that the live view has more than once: kind and key.

        `keys`: the name of the keys that the verification has read, as `key_items` has them.
        """
        known = "k.known IS NULL OR " if not run.narrowed else "k.known AND "
        kind = (
            f"CASE WHEN k.known THEN {literal(FindingKind.DUPLICATE)} ELSE {literal(FindingKind.EXTRA)} END"
        )
        read = ", ".join(f"{_place(at)} AS {quoted(name)}" for at, name in enumerate(self.schema.key_names))
        return f"""SELECT {kind} AS kind, {self._key_text("l")} AS key FROM (
SELECT {self._key_names}, count(*) AS {_NUMBER} FROM (
{self._live}
) GROUP BY {self._key_names}
) AS l
LEFT JOIN (SELECT DISTINCT {read}, true AS known FROM {keys}) AS k ON {self._same("l", "k")}
LEFT ANTI JOIN (
{self._changed(run.since)}
) AS x ON {self._same("l", "x")}
WHERE {known}l.{_NUMBER} > 1"""

    def key_items(self) -> str:
        """Returns what to select of verified rows, so that `left_over` finds their keys."""
        return ", ".join(f"{quoted(name)} AS {_place(at)}" for at, name in enumerate(self.schema.key_names))

    @property
    def _live(self) -> str:
        return live_view_sql(self.lake, self.schema, self.reached, self.at)

    @property
    def _changelog(self) -> str:
        whole = Dialect.SPARK.table(self.lake, self.schema.table, Tier.CHANGELOG, self.at.changelog)
        return self.gathered or whole

    def _changed(self, since: int) -> str:
        """Returns the query for where each key has changed last, after an SCN."""
        unknown = "0"
        if self.unread is not None:
            partly = f"`__absent` IS NOT NULL AND `__op` <> 'd' AND `__scn` > {self.unread}"
            unknown = f"max(CASE WHEN {partly} THEN 1 ELSE 0 END)"
        return f"""  SELECT {self._key_names}, max(`__scn`) AS {_SCN}, {unknown} AS {_UNKNOWN} FROM {self._changelog}
  WHERE `__scn` > {since} AND `__op` NOT IN ('b', 't') GROUP BY {self._key_names}"""

    def _within(self, bounds: Sequence[object]) -> str:
        if any(end is None for end in bounds):  # `in` looks for a name in a row of Spark's
            return ""
        ends = zip(map(quoted, self.ordered), bounds[::2], bounds[1::2], strict=True)
        conditions = [f"{name} BETWEEN {least} AND {most}" for name, least, most in ends]
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""

    def _equal(self, name: str) -> str:
        column = next(each for each in self.schema.columns if each.name == name)
        ours, theirs = f"l.{quoted(name)}", f"v.{quoted(name)}"
        if isinstance(column.type, Float | Double):
            ours, theirs = (f"CAST(CAST({each} AS DOUBLE) AS STRING)" for each in (ours, theirs))
        if isinstance(column.type, Vector):
            ours, theirs = (f"transform({each}, part -> CAST(part AS STRING))" for each in (ours, theirs))
        return f"({ours} <=> {theirs})"

    def _same(self, one: str, other: str) -> str:
        return " AND ".join(
            f"{one}.{quoted(name)} <=> {other}.{quoted(name)}" for name in self.schema.key_names
        )

    def _key_text(self, of: str) -> str:
        names = ", ".join(f"{of}.{quoted(name)} AS {quoted(name)}" for name in self.schema.key_names)
        return f"to_json(struct({names}), {_KEY_OPTIONS})"


def _nulls(columns: Sequence[Column]) -> Iterator[tuple[str]]:
    """Returns numbers that say which columns of a row are NULL. A hash leaves NULL out."""
    for begin in range(0, len(columns), _NULLS_IN_ONE):
        bits = enumerate(columns[begin : begin + _NULLS_IN_ONE])
        yield (
            " | ".join(
                f"CASE WHEN {quoted(column.name)} IS NULL THEN {1 << bit}L ELSE 0L END"
                for bit, column in bits
            ),
        )


def _hashed(column: Column) -> tuple[str, ...]:
    """Returns what a hash takes of a column. A hash takes -0.0 for 0.0."""
    name = quoted(column.name)
    value = f"transform({name}, part -> CAST(part AS STRING))" if isinstance(column.type, Vector) else name
    zero = f"CASE WHEN {name} = 0 THEN CAST({name} AS STRING) END"
    return (value, *((zero,) if isinstance(column.type, Float | Double) else ()))


def found_keys_sql(findings: str, schema: TableSchema, after: int, most: int) -> str:
    """Returns the query for keys that a run has found, after so many, in an order that stays, and `most` of them.

    `findings`: as of `findings_sql`. Each key is a row with the key's columns, in their types in the lake.
    """
    types = {column.name: column.type for column in columns(schema, Tier.MIRROR)}
    parts = ", ".join(f"{quoted(name)} {types[name]}" for name in schema.key_names)
    return f"""SELECT k.* FROM (SELECT from_json(key, {literal(parts)}, {_KEY_OPTIONS}) AS k FROM (
SELECT DISTINCT key FROM ({findings}) WHERE kind <> {literal(DOUBT)} ORDER BY key LIMIT {most} OFFSET {after}))"""


def doubt_sql(run: VerificationRun, reason: str) -> str:
    """Returns the query for a finding of no row: why a verification can't tell all of a table."""
    return f"""SELECT {literal(run.run)} AS run, {literal(DOUBT)} AS kind, {literal(reason)} AS key,
  CAST(NULL AS ARRAY<STRING>) AS columns, CAST(NULL AS BIGINT) AS scn"""


def no_keys_sql(types: Iterable[str]) -> str:
    """Returns the query for no keys, whose parts have these types, as `key_items` has them."""
    parts = ", ".join(f"CAST(NULL AS {type_}) AS {_place(at)}" for at, type_ in enumerate(types))
    return f"SELECT {parts} WHERE false"


def stated_sql(table: TableId, position: str, segment: int, findings: str, there: str | None) -> str:
    """Returns the query for rows of the table of findings: `findings` has run, kind, key, columns and scn.

    `there`: as of `findings_sql`, those that don't come again; None if there is no such table yet.
    """
    if there is not None:
        same = " AND ".join(f"f.{name} = n.{name}" for name in ("run", "kind", "key"))
        findings = f"SELECT * FROM ({findings}) AS n LEFT ANTI JOIN ({there}) AS f ON {same}"
    return f"""SELECT run, {literal(table.database)} AS `database`, {literal(table.name)} AS `table`, kind, key,
  CAST(columns AS ARRAY<STRING>) AS columns, CAST(scn AS BIGINT) AS scn, {literal(position)} AS position,
  CAST({segment} AS BIGINT) AS segment, current_timestamp() AS `at` FROM ({findings})"""


def findings_sql(findings: str, results: str | None, runs: Iterable[VerificationRun]) -> str:
    """Returns the query for what verifications have found, in the table of findings.

    `results`: the table of results, None if there is none yet. What was found until an earlier verification with the
    same id got its result isn't a verification's own.
    """
    conditions = []
    for run in runs:
        own = of_table(run.run, run.table)
        if results is not None:
            earlier = f"SELECT max(`at`) FROM {results} WHERE {own} AND since < {run.since}"
            own += f" AND `at` > coalesce(({earlier}), TIMESTAMP '1970-01-01')"
        conditions.append(own)
    return f"SELECT * FROM {findings} WHERE {' OR '.join(conditions)}"


def judgement_sql(judgement: Judgement, since: int) -> str:
    """Returns the query for the row of the table of verdicts."""
    counts = ", ".join(f"CAST({judgement.found.get(kind, 0)} AS BIGINT) AS {kind}" for kind in FindingKind)
    table = judgement.table
    return f"""SELECT {literal(judgement.run)} AS run, {literal(table.database)} AS `database`,
  {literal(table.name)} AS `table`, {literal(judgement.verdict)} AS verdict, CAST({judgement.rows} AS BIGINT) AS `rows`,
  {counts}, {literal(judgement.reason)} AS reason, CAST({since} AS BIGINT) AS since,
  {literal(judgement.position)} AS position, current_timestamp() AS `at`"""


def of_table(run: str, table: TableId) -> str:
    """Returns the condition for what the two tables have of a run's table."""
    named = {"run": run, "database": table.database, "table": table.name}
    return " AND ".join(f"{quoted(name)} = {literal(value)}" for name, value in named.items())


def of_runs(runs: Iterable[VerificationRun]) -> str:
    """Returns the condition for verified rows of these verifications."""
    return f"`__chunk` IN ({', '.join(literal(each.run) for each in runs) or 'NULL'})"


def _place(at: int) -> str:
    return f"k{at}"
