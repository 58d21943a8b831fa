"""Files of a journal in the folder of a lake table: linked, copied, rewritten."""

import errno
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal as Exact
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from actors.lake.files import file_placement
from actors.lake.files.file_placement import LakeFiles
from actors.lake.filesystem import lake_filesystem
from actors.runtime.filesystem import list_folder
from pipeline.errors import Definite, InvariantBroken, Transient
from pipeline.journal.entry import Entry, FileKind
from pipeline.lake.batch import Piece
from pipeline.lake.files.parquet_files import Stored
from pipeline.lake.files.value_conversion import ValueRefused
from pipeline.lake.tables.columns import columns
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import Date, Integer, Text
from pipeline.types.lake_forms import LakeForm
from tests.integration.history import FILLING, History
from tests.servers.s3 import S3Lake

ORDERS = TableSchema(
    TableId("shop", "orders"),
    (Column("id", Integer(4, unsigned=False), False), Column("note", Text("utf8mb4"), True)),
    (0,),
)
OLD = 1_600_000_000


class Placing:
    """A journal with one segment, of three changes and a chunk of two rows, and an empty folder of a lake table."""

    def __init__(self, journal: Path, table: Path) -> None:
        self.history = History(journal)
        orders = self.history.table(ORDERS, FILLING)
        orders.source = {(8,): (8, "old"), (9,): (9, None)}
        self.history.transaction((orders, "c", (3, "a")), (orders, "c", (1, "b")))
        self.history.transaction((orders, "d", (3, "a")))
        self.history.chunk(orders, [(8,), (9,)])
        self.history.seal()
        self.entry: Entry = self.history.store.entry(1)
        self.table = table
        table.mkdir()

    def source(self, tier: Tier) -> Path:
        kind = FileKind.CHANGES if tier is Tier.CHANGELOG else FileKind.ROWS
        (file,) = (file for file in self.entry.files if file.kind is kind)
        return self.history.store.path(self.entry, file)

    def place(
        self, tier: Tier, as_table: dict[str, Stored] | None = None, folder: str | None = None
    ) -> dict[str, Any]:
        """Returns the resulting action; `folder`: another one than the table's."""
        source = self.source(tier)
        (place,) = (i for i, file in enumerate(self.entry.files) if file.path == source.name)
        file = self.entry.files[place]
        piece = Piece(1, place, source.name, ORDERS, file.rows, file.bytes, absent=False)
        there = as_table or {c.name: Stored(c.name, c.type) for c in columns(ORDERS, tier)}
        at = folder or str(self.table)
        (line,) = LakeFiles(self.history.store).place(at, tier, [piece], there)
        action: dict[str, Any] = json.loads(line)["add"]
        return action

    def placed(self) -> Path:
        (file,) = self.table.iterdir()
        return file


@pytest.fixture
def placing(tmp_path: Path) -> Iterator[Placing]:
    made = Placing(tmp_path / "journal", tmp_path / "table")
    with closing(made.history.store):
        yield made


def test_a_file_that_fits_is_linked_and_told_of(placing: Placing) -> None:
    source = placing.source(Tier.CHANGELOG)
    os.utime(source, (OLD, OLD))
    action = placing.place(Tier.CHANGELOG)
    placed = placing.placed()
    assert placed.samefile(source)
    journal = placing.history.store.identity.id
    assert action["path"] == placed.name
    assert placed.name.startswith("000000000001-000")
    assert placed.name.endswith(f"-{journal[:8]}.parquet")
    assert action["size"] == source.stat().st_size
    # VACUUM would take it for a leftover of long ago.
    assert action["modificationTime"] == placed.stat().st_mtime_ns // 1_000_000 > OLD * 1000
    assert json.loads(action["stats"]) == {
        "numRecords": 3,
        "minValues": {"__segment": 1, "__scn": 1, "id": 1},
        "maxValues": {"__segment": 1, "__scn": 2, "id": 3},
        "nullCount": {"__segment": 0, "__scn": 0, "id": 0},
    }


def test_a_file_is_placed_as_often_as_one_likes_and_over_whatever_is_there(placing: Placing) -> None:
    first = placing.place(Tier.MIRROR)
    placed = placing.placed()
    assert placing.place(Tier.MIRROR)["path"] == first["path"]
    placed.unlink()
    placed.write_bytes(b"of an earlier try, as other columns wanted it")
    Path(f"{placed}.tmp").write_bytes(b"half of")
    assert placing.place(Tier.MIRROR)["size"] == first["size"]
    assert placing.placed().samefile(placing.source(Tier.MIRROR))


@pytest.mark.parametrize("rewritten", [False, True])
def test_a_link_that_a_kill_has_left_is_not_written_to(
    placing: Placing, monkeypatch: pytest.MonkeyPatch, rewritten: bool
) -> None:
    """It is the journal's file by another name."""
    source = placing.source(Tier.MIRROR)
    whole = source.read_bytes()
    placed = placing.table / placing.place(Tier.MIRROR)["path"]
    placed.rename(f"{placed}.tmp")

    def refused(*_: object) -> None:
        raise OSError(errno.EMLINK, "Too many links")

    monkeypatch.setattr(os, "link", refused)
    other = {"id": Stored("id", "bigint"), "note": Stored("note", "string")} if rewritten else None
    placing.place(Tier.MIRROR, other)
    assert source.read_bytes() == whole
    assert placing.placed() == placed and not placed.samefile(source)


def test_on_another_filesystem_it_is_copied(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        assert Path(memory).stat().st_dev != tmp_path.stat().st_dev
        placing = Placing(Path(memory) / "journal", tmp_path / "table")
        with closing(placing.history.store):
            action = placing.place(Tier.MIRROR)
            source = placing.source(Tier.MIRROR)
            assert placing.placed().read_bytes() == source.read_bytes()
            assert action["size"] == source.stat().st_size


def test_a_file_that_does_not_fit_is_written_anew(placing: Placing) -> None:
    wider = {
        "id": Stored("col-1", "bigint", 7),
        "note": Stored("note", "string", 8),
        "more": Stored("x", "INT"),
    }
    action = placing.place(Tier.MIRROR, wider)
    with pq.ParquetFile(placing.placed()) as file:
        table = file.read()
        assert [file.metadata.schema.column(i).path for i in range(2)] == ["col-1", "note"]
    assert table.schema.types == [pa.int64(), pa.string()]
    assert [field.metadata[b"PARQUET:field_id"] for field in table.schema] == [b"7", b"8"]
    assert [*table.to_pydict().values()] == [[8, 9], ["old", None]]
    assert action["size"] == placing.placed().stat().st_size
    assert json.loads(action["stats"]) == {
        "numRecords": 2,
        "minValues": {"col-1": 8},
        "maxValues": {"col-1": 9},
        "nullCount": {"col-1": 0},
    }


def test_a_value_that_the_lake_cannot_have_is_no_null(placing: Placing) -> None:
    with pytest.raises(InvariantBroken, match="isn't one of its column in the lake"):
        placing.place(Tier.MIRROR, {"id": Stored("id", "int"), "note": Stored("note", "date")})


def test_in_a_store_no_attempt_replaces_what_another_one_has_placed(
    placing: Placing, s3_lake: S3Lake
) -> None:
    """Neither one that fails, of which the store keeps what has come, nor one of a predecessor with other columns."""
    folder = f"{s3_lake.path}/table"
    store, there = lake_filesystem(folder)

    def content(name: str) -> bytes:
        with store.open_input_stream(f"{there}/{name}", compression=None) as file:
            return bytes(file.read())

    first = placing.place(Tier.MIRROR, folder=folder)["path"]
    placed = content(first)
    assert placed == placing.source(Tier.MIRROR).read_bytes()
    with pytest.raises(InvariantBroken):
        placing.place(Tier.MIRROR, {"id": Stored("id", "int"), "note": Stored("note", "date")}, folder)
    wider = {"id": Stored("id", "bigint"), "note": Stored("note", "string")}
    other = placing.place(Tier.MIRROR, wider, folder)["path"]
    assert content(first) == placed
    assert content(other) != placed
    assert len(list_folder(store, there)) == 3


def test_a_file_that_is_gone_from_the_journal_is_named(placing: Placing) -> None:
    source = placing.source(Tier.MIRROR)
    piece = placing.place
    source.unlink()
    with pytest.raises(Definite, match=f"{source.name} is missing"):
        piece(Tier.MIRROR)


def test_a_file_that_is_not_as_long_as_it_was_made_is_named(placing: Placing) -> None:
    with placing.source(Tier.MIRROR).open("ab") as damaged:
        damaged.write(b"x")
    with pytest.raises(Definite, match=r"has \d+ bytes, and had \d+ when it was sealed: restore it"):
        placing.place(Tier.MIRROR)


def test_a_commit_is_durable_with_all_that_come_before_it(
    placing: Placing, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = placing.table / "_delta_log"
    log.mkdir()
    for version in range(2, 6):  # those before have expired
        (log / f"{version:020}.json").touch()
    synced: list[str] = []

    def synced_if_there(path: str) -> None:
        assert Path(path).stat()
        synced.append(Path(path).stem)

    monkeypatch.setattr(file_placement, "sync", synced_if_there)
    files = LakeFiles(placing.history.store)
    files.sync_commit(str(placing.table), 3)
    assert [int(name) for name in synced[:-1]] == [2, 3]
    assert synced[-1] == "_delta_log"
    synced.clear()
    files.sync_commit(str(placing.table), 5)
    assert [int(name) for name in synced[:-1]] == [4, 5]
    synced.clear()
    files.sync_commit(str(placing.table), 6, durable=True)
    assert synced == [], "its writer has synced it"
    (log / f"{7:020}.json").touch()
    files.sync_commit(str(placing.table), 8, durable=True)
    assert synced == [f"{7:020}", "_delta_log"], "another's commit is between"
    synced.clear()
    (log / f"{3:020}.json").touch()
    files.sync_commit(str(placing.table), 3)
    assert [int(name) for name in synced[:-1]] == [2, 3], "another table was made in its place"


def test_a_commit_is_durable_after_the_files_that_spark_has_written_for_it(
    placing: Placing, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = placing.table / "_delta_log"
    for folder in (placing.table / "ab", log):
        folder.mkdir()
    hidden = "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 1, "sizeInBytes": 1}
    for name in ("old", "you ng", "not added", "ab/young", hidden):
        (placing.table / name).touch()
    os.utime(placing.table / "old", (1, 1))
    by_spark: tuple[dict[str, Any], ...] = (
        {"commitInfo": {}},
        {"add": {"path": "old", "deletionVector": vector}},
        {"add": {"path": "you%20ng"}},
        {"add": {"path": "ab/young"}},
        {"add": {"path": "vacuumed"}},
        {"remove": {"path": "not%20added"}},
    )
    for version, lines in ((4, [*map(json.dumps, by_spark)]), (5, ['{"add": {"path": "not']), (6, [])):
        (log / f"{version:020}.json").write_text("\n".join(lines))
    synced: list[str] = []

    def synced_if_there(path: str) -> None:
        assert Path(path).stat()
        synced.append(str(Path(path).relative_to(placing.table)))

    monkeypatch.setattr(file_placement, "sync", synced_if_there)
    files = LakeFiles(placing.history.store)
    own = [hidden, "ab/young", "you ng", "ab", "."]
    commits = {version: f"_delta_log/{version:020}.json" for version in (4, 5, 6)}
    files.sync_commit(str(placing.table), 4)
    assert synced == [*own, commits[4], "_delta_log"]
    synced.clear()
    files.sync_earlier(str(placing.table), 5)
    assert synced == []
    files = LakeFiles(placing.history.store)
    files.sync_earlier(str(placing.table), 7)
    assert synced == [*own, *commits.values(), "_delta_log"], "a part of a commit adds nothing"
    synced.clear()
    files.sync_earlier(str(placing.table), 7)
    assert synced == []


def test_a_batch_gets_on_as_long_as_files_of_an_earlier_commit_become_durable(placing: Placing) -> None:
    """A slow disk takes minutes for what a compaction has written, and there is no task meanwhile."""
    log = placing.table / "_delta_log"
    log.mkdir()
    names = [f"{number}.parquet" for number in range(3)]
    for name in names:
        (placing.table / name).touch()
    (log / f"{0:020}.json").write_text("\n".join(json.dumps({"add": {"path": name}}) for name in names))
    signs: list[str] = []
    files = LakeFiles(placing.history.store, lambda: signs.append("advanced"))
    files.sync_earlier(str(placing.table), 1)
    assert len(signs) >= len(names)


def test_what_is_found_is_made_durable_unless_it_is_old(
    placing: Placing, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = placing.table / "_delta_log"
    log.mkdir()
    commit = log / f"{0:020}.json"
    commit.touch()
    synced: list[str] = []
    monkeypatch.setattr(file_placement, "sync", lambda path: synced.append(Path(path).name))
    files = LakeFiles(placing.history.store)
    files.sync_found(str(placing.table), 0)
    assert synced == [commit.name, log.name]
    synced.clear()
    os.utime(commit, (1, 1))
    files.sync_found(str(placing.table), 0)
    files.sync_found(str(placing.table), 1)  # whose commit has expired
    assert synced == []


def test_a_long_log_is_not_gone_through_at_a_start(placing: Placing, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []

    def is_young(path: str | Path) -> bool:
        asked.append(Path(path))
        return False

    monkeypatch.setattr(file_placement, "_is_young", is_young)
    monkeypatch.setattr(file_placement, "sync", lambda _: None)
    LakeFiles(placing.history.store).sync_commit(str(placing.table), 10_000_000)
    assert len(asked) == file_placement._BEFORE + 1


def test_a_start_does_not_sync_again_what_the_kernel_has_long_since_written(
    placing: Placing, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = placing.table / "_delta_log"
    log.mkdir()
    for version in range(4):
        (log / f"{version:020}.json").touch()
    for version in (0, 1, 3):
        os.utime(log / f"{version:020}.json", (1, 1))
    synced: list[str] = []
    monkeypatch.setattr(file_placement, "sync", lambda path: synced.append(Path(path).stem))
    LakeFiles(placing.history.store).sync_commit(str(placing.table), 3)
    assert synced[-1] == "_delta_log"
    assert [int(name) for name in synced[:-1]] == [2, 3], "the last one whatever the clock says"


def test_a_lake_that_cannot_be_written_is_a_matter_of_time(placing: Placing) -> None:
    placing.table.rmdir()
    with pytest.raises(Transient, match="files can't be placed"):
        placing.place(Tier.MIRROR)
    with pytest.raises(Transient, match="files can't be placed"):
        LakeFiles(placing.history.store).sync_commit(str(placing.table), 1)


def test_a_lake_of_an_unknown_kind_is_refused(placing: Placing) -> None:
    piece = Piece(1, 0, "0000", ORDERS, 1, 100, absent=False)
    with pytest.raises(Definite, match="dbfs://x can't be reached"):
        LakeFiles(placing.history.store).place("dbfs://x", Tier.MIRROR, [piece], {})


def test_a_date_of_the_year_0_is_placed_and_no_bound(tmp_path: Path) -> None:
    days = TableSchema(TableId("shop", "days"), (Column("d", Date(), nullable=False),), (0,))
    history = History(tmp_path / "journal")
    with closing(history.store):
        table = history.table(days, FILLING)
        for day in (-719_500, 18_000):
            history.transaction((table, "c", (day,)))
        history.seal()
        (file,) = history.store.entry(1).files
        piece = Piece(1, 0, file.path, days, file.rows, file.bytes, absent=False)
        there = {c.name: Stored(c.name, c.type) for c in columns(days, Tier.CHANGELOG)}
        (tmp_path / "table").mkdir()
        (line,) = LakeFiles(history.store).place(str(tmp_path / "table"), Tier.CHANGELOG, [piece], there)
    told = json.loads(json.loads(line)["add"]["stats"])
    assert told["minValues"] == {"__segment": 1, "__scn": 1}
    assert told["maxValues"] == {"__segment": 1, "__scn": 2}
    assert told["nullCount"] == {"__segment": 0, "__scn": 0, "d": 0}


FLAGS = TableSchema(
    TableId("shop", "flags"),
    (
        Column("n", Integer(8, unsigned=True), nullable=False, form=LakeForm.LONG),
        Column("flag", Integer(1, unsigned=False), nullable=False, form=LakeForm.BOOLEAN),
        Column("note", Text("utf8mb4"), nullable=True),
    ),
    (0, 1),
)


def placed_flags(folder: Path, *rows: tuple[int, int, str | None], wider: bool = False) -> dict[str, Any]:
    """Places rows of FLAGS whose columns have forms. Returns the resulting action."""
    history = History(folder / "journal")
    with closing(history.store):
        table = history.table(FLAGS.unformed, FILLING)
        history.transaction(*((table, "c", (Exact(n), flag, note)) for n, flag, note in rows))
        history.seal()
        (file,) = history.store.entry(1).files
        piece = Piece(1, 0, file.path, FLAGS, file.rows, file.bytes, absent=False)
        there = {c.name: Stored(c.name, c.type) for c in columns(FLAGS, Tier.CHANGELOG)}
        if wider:
            there["n"] = Stored("n", "decimal(20,0)")
        (folder / "table").mkdir()
        (line,) = LakeFiles(history.store).place(str(folder / "table"), Tier.CHANGELOG, [piece], there)
        LakeFiles(history.store).hold(str(folder / "held"), [piece])
    action: dict[str, Any] = json.loads(line)["add"]
    return action


@pytest.mark.parametrize("wider", [False, True])
def test_columns_are_placed_in_their_forms(tmp_path: Path, wider: bool) -> None:
    action = placed_flags(tmp_path, (2**63 - 1, 1, "a"), (7, 0, None), wider=wider)
    rows = pq.read_table(tmp_path / "table" / action["path"]).select(FLAGS.arrow.names)
    assert rows.schema.field("n").type == (pa.decimal128(20, 0) if wider else pa.int64())
    assert rows.schema.field("flag").type == pa.bool_()
    wanted = [(2**63 - 1, True, "a"), (7, False, None)]
    assert [tuple(row.values()) for row in rows.to_pylist()] == wanted
    told = json.loads(action["stats"])
    assert (told["minValues"]["n"], told["maxValues"]["n"]) == (7, 2**63 - 1)
    assert "flag" not in told["minValues"], "Delta has no bounds of booleans"
    (held,) = (tmp_path / "held").iterdir()
    assert f"-{FLAGS.version}-" in held.name
    assert pq.read_table(held).select(FLAGS.arrow.names).schema.types == FLAGS.arrow.types


def test_a_value_that_a_form_lacks_places_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueRefused, match=r"column 'n' of shop\.flags is greater than") as refused:
        placed_flags(tmp_path, (1, 0, None), (2**63, 1, None))
    assert refused.value.segment == 1
    assert list((tmp_path / "table").glob("*.parquet")) == []
