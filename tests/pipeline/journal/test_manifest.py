"""The text of a manifest entry: it comes back equal, and nothing else is taken for one."""

import json
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.config.settings import SnapshotMode
from pipeline.errors import Definite
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal import manifest
from pipeline.journal.entry import CommitTimes, Entry, File, FileKind, SealedChunk
from pipeline.messages.binlog import LogAdvanced
from pipeline.messages.journal import StatementPart
from pipeline.schema.ddl.alter_table import Alteration, Altered, ColumnChanges
from pipeline.schema.ddl.column_definitions import ConstantColumn
from pipeline.schema.ddl.schema_statements import SchemaObject, SchemaStatement
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.snapshot import checkpoint as checkpoints
from pipeline.snapshot import snapshot, watermark
from pipeline.types.column_types import Decimal, Enum, Integer, Text
from pipeline.verifier.schema_fence import ServerAnswer
from tests.pipeline.builders import Capture
from tests.pipeline.verifier.answers import step as verify
from tests.pipeline.verifier.small_log import end, fresh, statement, upto

# Of an entry, for a table that's gone: docs/operations.md says so.
DROPPED_TABLE_BYTES = 150

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
JOURNAL = "5b1f1d3c-0c0e-4c55-9f0e-2f5f1f0d7a11"

texts = st.text(alphabet=["a", "B", "ä", '"', "\\", "\n", "\0", "\u2028", "😀"], max_size=5)
counts = st.integers(0, 2**62)
tables = st.builds(TableId, texts, texts)
positions = counts.map(lambda n: GtidSet.parse(f"{UUID}:1-{n + 1}:tag:3"))
column_types = st.sampled_from([Integer(8, unsigned=True), Decimal(38, 5), Enum(("ä", '"')), Text("latin1")])
columns = st.lists(
    st.builds(Column, texts, column_types, st.booleans()),
    min_size=1,
    max_size=3,
    unique_by=lambda c: c.name,
)
table_schemas = st.builds(TableSchema, tables, columns.map(tuple), st.sampled_from([(), (0,)]))
keys = st.lists(st.integers() | texts | st.binary(), min_size=1, max_size=3).map(tuple)
progresses = st.builds(snapshot.Progress, counts, counts, counts, counts, counts, counts)
ranges = st.lists(st.builds(snapshot.Range, counts, st.none() | keys, keys), max_size=2).map(tuple)
mirrors = st.builds(checkpoints.Filling, counts) | st.builds(checkpoints.Ready, counts)
states = (
    st.builds(snapshot.SnapshotWaiting)
    | st.builds(snapshot.Chunking, ranges, texts, st.booleans(), progresses)
    | st.builds(snapshot.SnapshotFailed, texts, progresses)
)
snapshots = st.builds(snapshot.Snapshot, texts, st.dictionaries(tables, states, max_size=2))


statements = st.builds(
    StatementPart,
    counts,
    st.none() | texts,
    counts,
    st.none() | st.builds(Coordinates, texts, counts),
    counts,
    st.builds(
        SchemaStatement,
        st.sampled_from(SchemaObject),
        texts,
        st.lists(tables, max_size=2).map(tuple),
        st.lists(texts, max_size=2).map(tuple),
        texts,
    ),
)


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    named = draw(st.lists(table_schemas, max_size=3))
    checkpoint = checkpoints.Checkpoint(
        position=draw(positions),
        scn=draw(counts),
        schemas={schema.table: schema for schema in named},
        mirrors=draw(st.dictionaries(tables, mirrors, max_size=2)),
        snapshots=tuple(draw(st.lists(snapshots, max_size=2))),
        signals=tuple(draw(st.lists(texts, max_size=2))),
        paused=draw(st.booleans()),
        stopped=draw(st.dictionaries(tables, texts, max_size=2)),
    )
    more = draw(st.lists(table_schemas, max_size=2))
    files = st.builds(
        File, texts, tables, texts, st.sampled_from(FileKind), counts, counts, texts, st.booleans()
    )
    highs = st.builds(Coordinates, texts, counts) | positions | st.builds(watermark.MarkerRow, texts)
    chunk_ids = st.builds(snapshot.ChunkId, texts, tables, counts)
    places = st.none() | st.builds(Coordinates, texts, counts)
    versions = st.none() | texts
    chunks = st.builds(SealedChunk, chunk_ids, positions, highs, counts, st.none() | counts, places, versions)
    return Entry(
        segment=draw(counts),
        files=tuple(draw(st.lists(files, max_size=3))),
        first_scn=draw(counts),
        last_scn=draw(counts),
        transactions=draw(counts),
        commit_times=draw(
            st.none() | st.builds(CommitTimes, counts, counts, st.lists(counts, max_size=3).map(tuple))
        ),
        chunks=tuple(draw(st.lists(chunks, max_size=3))),
        checkpoint=checkpoint,
        schemas={schema.version: schema for schema in [*named, *more]},
        sealed_at=draw(counts),
        alterations=tuple(draw(st.lists(altered(named), max_size=2))) if named else (),
        statements=tuple(draw(st.lists(statements, max_size=2))),
        resumed=tuple(draw(st.lists(tables, max_size=2))),
        position_stays=draw(st.booleans()),
    )


def altered(named: list[TableSchema]) -> st.SearchStrategy[Altered]:
    pairs = st.lists(st.tuples(texts, texts), max_size=2).map(tuple)
    names = st.lists(texts, max_size=2).map(tuple)

    def of(schema: TableSchema) -> st.SearchStrategy[Alteration]:
        added = st.lists(st.builds(ConstantColumn, st.sampled_from(schema.columns), texts), max_size=2).map(
            tuple
        )
        return st.builds(
            Alteration, st.just(schema), texts, st.builds(ColumnChanges, pairs, names, added), st.booleans()
        )

    return st.builds(Altered, counts, st.sampled_from(named).flatmap(of))


@given(entries())
def test_an_entry_comes_back_from_its_text(entry: Entry) -> None:
    text = manifest.to_json(entry, JOURNAL)
    assert manifest.from_json(text, JOURNAL, entry.schemas.__getitem__) == entry


def damaged(text: str, rng: random.Random) -> list[str]:
    """Returns the text with a bit flipped, with zeros at its end, cut short, and with more before or after it."""
    content = text.encode()
    at = rng.randrange(len(content))
    flipped = content[:at] + bytes([content[at] ^ 1 << rng.randrange(7)]) + content[at + 1 :]
    zeroed = content[:at] + bytes(len(content) - at)
    return [
        wrong.decode()
        for wrong in (flipped, zeroed, content[:at], content + b" ", b" " + content, 2 * content)
    ]


@given(entries(), st.randoms(use_true_random=False))
def test_no_byte_of_an_entry_may_differ(entry: Entry, rng: random.Random) -> None:
    for wrong in damaged(manifest.to_json(entry, JOURNAL), rng):
        with pytest.raises(manifest.DamagedManifest):
            manifest.from_json(wrong, JOURNAL, entry.schemas.__getitem__)


@given(entries())
def test_an_entry_of_another_journal_is_refused(entry: Entry) -> None:
    text = manifest.to_json(entry, "another")
    with pytest.raises(manifest.DamagedManifest, match="of the journal another"):
        manifest.from_json(text, JOURNAL, unknown)


@given(table_schemas)
def test_a_schema_comes_back_from_its_text(schema: TableSchema) -> None:
    assert manifest.schema_from_json(manifest.schema_to_json(schema), schema.version) == schema


@given(table_schemas, st.randoms(use_true_random=False))
def test_no_byte_of_a_schema_may_differ(schema: TableSchema, rng: random.Random) -> None:
    for wrong in damaged(manifest.schema_to_json(schema), rng):
        with pytest.raises(manifest.DamagedManifest):
            manifest.schema_from_json(wrong, schema.version)


def unknown(version: str) -> TableSchema:
    raise AssertionError(f"version {version} was asked for")


def test_another_format_is_refused_by_its_number() -> None:
    with pytest.raises(manifest.DamagedManifest, match="format 6") as refusal:
        manifest.from_json(json.dumps({"format": 6, "whatever": "it holds"}), JOURNAL, unknown)
    assert isinstance(refusal.value, Definite)


@pytest.mark.parametrize(
    "text", ["", "7", "null", "[]", "{}", '{"format": 4}', '{"format":4,"sha256":"","entry":{}}']
)
def test_a_text_that_is_no_entry_is_refused(text: str) -> None:
    with pytest.raises(manifest.DamagedManifest):
        manifest.from_json(text, JOURNAL, unknown)


def bytes_after_drops(count: int) -> int:
    """The size of an entry once so many tables have been created and dropped, each read by its first snapshot."""
    capture, verifier = Capture(checkpoint=checkpoints.Checkpoint(upto(0))), fresh()
    capture.state = replace(capture.state, snapshot_mode=SnapshotMode.INITIAL)
    for made in range(count):
        table = TableId("shop", f"imported_{made:08}")
        schema = TableSchema(table, (Column("id", Integer(8, unsigned=False), False),), (0,))
        lives = [
            (f"CREATE TABLE {table.name} (id BIGINT PRIMARY KEY)", {table: schema}),
            (f"DROP TABLE {table.name}", {}),
        ]
        for number, (text, there) in enumerate(lives, 2 * made + 1):
            answer = ServerAnswer(frozenset({table}), there, upto(number), end(number))
            for fact in (statement(number, text), answer, LogAdvanced(end(number))):
                verifier, said = verify(verifier, fact)
                capture.give(*said)
    checkpoint = capture.appends[-1].checkpoint
    assert len(checkpoint.mirrors) == count
    assert verifier.tables == {}
    named = {schema.version: schema for schema in checkpoint.schemas.values()}
    entry = Entry(1, (), 1, checkpoint.scn, 0, None, (), checkpoint, named, 0)
    return len(manifest.to_json(entry, JOURNAL).encode())


def test_a_dropped_table_costs_an_entry_few_bytes() -> None:
    """Its name stays, with what a table of that name has to continue. Nothing else of it does."""
    few, many = bytes_after_drops(20), bytes_after_drops(60)
    assert 0 < many - few <= 40 * DROPPED_TABLE_BYTES, (many - few) / 40
