"""Segments of a small journal. The n-th has the SCNs 10 n - 9 to 10 n and the transactions of these numbers."""

from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.changes.retained_range import RetainedRange
from pipeline.journal.entry import Entry, File, FileKind
from pipeline.schema.ddl.alter_table import Alteration, Altered, ColumnChanges
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.snapshot.checkpoint import Checkpoint
from pipeline.types.column_types import Integer, Text

SOURCE = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
ID = Column("id", Integer(4, unsigned=False), False)
NOTE = Column("note", Text("utf8mb4"), True)
ORDERS = TableSchema(TableId("shop", "orders"), (ID, NOTE), (0,))
ITEMS = TableSchema(TableId("shop", "items"), (ID,), (0,))


def entry(
    segment: int,
    *schemas: TableSchema,
    kind: FileKind = FileKind.CHANGES,
    altered: tuple[tuple[TableSchema, ColumnChanges], ...] = (),
    size: int = 10,
) -> Entry:
    """A segment with a file of five rows of each of these versions, after what statements did to columns."""
    files = tuple(
        File(f"{place}.{s.version}", s.table, s.version, kind, 5, size, "", False)
        for place, s in enumerate(schemas)
    )
    holding = {schema.table: schema for schema in (ORDERS, ITEMS, *schemas)}
    checkpoint = Checkpoint(GtidSet.parse(f"{SOURCE}:1-{10 * segment}"), 10 * segment, holding)
    return Entry(
        segment,
        files,
        10 * segment - 9,
        10 * segment,
        10,
        None,
        (),
        checkpoint,
        {schema.version: schema for schema in schemas},
        0,
        tuple(
            Altered(10 * segment - 10, Alteration(schema, "ALTER TABLE", changes))
            for schema, changes in altered
        ),
    )


def retained(first: int, last: int) -> RetainedRange:
    """A journal that has these segments."""
    return RetainedRange("j1", "/journal", first, last, 10 * first - 9)
