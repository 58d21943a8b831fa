"""A lake with one table."""

from pipeline.config.settings import LakeSettings
from pipeline.lake.background.recording import files_delivered
from pipeline.lake.background.state import Background, LakeTables
from pipeline.lake.batch import LakeTableState, Piece, Pieces
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.snapshot.checkpoint import Mirror
from pipeline.types.column_types import Integer

ORDERS = TableSchema(TableId("shop", "orders"), (Column("id", Integer(4, unsigned=False), False),), (0,))
ID = ORDERS.table


def lake_of(
    had: LakeTableState, mirror: Mirror | None = None, settings: LakeSettings | None = None
) -> LakeTables:
    """A lake with one table."""
    return LakeTables(settings or LakeSettings("lake"), {ID: had}, {ID: mirror} if mirror else {})


def delivered(background: Background, had: LakeTableState, rows: int, now: float) -> Background:
    """So many changes have come."""
    changes = Pieces(changes=(Piece(3, 0, "changes", ORDERS, rows, 60, absent=False),))
    return files_delivered(background, ID, had, had, changes, now)
