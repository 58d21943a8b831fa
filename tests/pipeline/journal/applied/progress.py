"""How far the journal and a consumer are, in short words, for the tests of those who wait."""

from dataclasses import dataclass, field, replace

from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.applied.progress import JournalProgress, SegmentEnd, TableProgress, Through
from pipeline.journal.applied.query import AppliedQuery
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Checkpoint
from tests.pipeline.builders import ITEMS, ORDERS, gtids

TABLES = {schema.table: schema for schema in (ORDERS, ITEMS)}
LAKE, JOURNAL = Through.LAKE, Through.JOURNAL


def sealed(segment: int, position: str | GtidSet, **more: object) -> JournalProgress:
    """The journal with these transactions through a segment, whose SCN is ten times its number."""
    reached = gtids(position) if isinstance(position, str) else position
    checkpoint = Checkpoint(reached, 10 * segment, schemas=dict(TABLES))
    return JournalProgress(segment, replace(checkpoint, **more))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Delivered:
    """A consumer through a segment with these transactions and this checkpoint; some tables are elsewhere."""

    whole: SegmentEnd
    furthest: SegmentEnd
    tables: dict[TableId, TableProgress] = field(default_factory=dict)
    left_out: TableId | None = None
    trimmed: TableId | None = None
    checkpoint: Checkpoint = field(default_factory=lambda: Checkpoint(GtidSet()))

    def takes(self, table: TableId) -> bool:
        return table != self.left_out

    def never_whole(self, table: TableId) -> str | None:
        return "keeps a day" if table == self.trimmed else None

    def of(self, table: TableId) -> TableProgress:
        return self.tables.get(table, TableProgress(self.whole, read_at={"changelog": self.whole.segment}))


def at(segment: int, position: str) -> SegmentEnd:
    return SegmentEnd(segment, gtids(position), 10 * segment)


def delivered(segment: int, position: str, **tables: TableProgress) -> Delivered:
    reached = at(segment, position)
    named = {table: tables[table.name] for table in TABLES if table.name in tables}
    furthest = max([reached, *(each.reached for each in named.values())], key=lambda each: each.segment)
    return Delivered(reached, furthest, named)


def query(position: str, through: Through = LAKE, *tables: TableId) -> AppliedQuery:
    return AppliedQuery(gtids(position), through, frozenset(tables) or None)
