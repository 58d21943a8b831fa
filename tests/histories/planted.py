"""Faults that are put into the product, one at least for each root of what histories have found: each has to be found.

A fault comes with the kinds of findings by which it shows, and the moves that it's about, so that few histories do.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final

import pytest

from actors.watermark_coordinator import WatermarkCoordinator
from pipeline.coordinator import handle_log
from pipeline.errors import Definite
from pipeline.messages.changes import ChangesVerified
from pipeline.schema.ddl import effects as ddl
from pipeline.schema.ddl.unlogged_changes import Effect
from pipeline.schema.table_schema import TableId
from pipeline.verifier import column_names
from pipeline.verifier import step as schema_verifier
from tests.histories import moves
from tests.histories.moves import MOVES, Move
from tests.histories.statements import Metadata

Patch = pytest.MonkeyPatch


class Planted(StrEnum):
    """What's wrong."""

    ROWS_STAY = "no statement changes rows"
    GONE_FOR_GOOD = "a table that's gone isn't known any more"
    NEVER_ALTERED = "no statement alters a table"
    STOPS_ALL = "what stops one table stops all"
    MEASURES = "what measures fails an actor"
    NEEDLESS = "each ALTER begins its table anew"


def _rows_stay(patch: Patch) -> None:
    patch.setattr(ddl, "changed_unlogged", lambda *_, **__: {})


def _gone_for_good(patch: Patch) -> None:
    original = ddl.changed_unlogged

    def changed(names: ddl.StatementScope, *more: Any, **named: Any) -> dict[TableId, ddl.Unlogged]:
        return {t: u for t, u in original(names, *more, **named).items() if u.effect is not Effect.CHANGED}

    patch.setattr(ddl, "changed_unlogged", changed)


def _never_altered(patch: Patch) -> None:
    patch.setattr(ddl, "may_alter", lambda *_: frozenset())


def _stops_all(patch: Patch) -> None:
    def stop(_table: TableId, reason: str) -> None:
        raise Definite(reason)

    patch.setattr(schema_verifier, "TableStopped", stop)
    patch.setattr(handle_log, "TableStopped", stop)
    patch.setattr(column_names, "TableStopped", stop)


def _measures(patch: Patch) -> None:
    def measure(_: WatermarkCoordinator, message: object) -> None:
        if isinstance(message, ChangesVerified):
            raise KeyError("a table")

    patch.setattr(WatermarkCoordinator, "_measure_message", measure)


def _needless(patch: Patch) -> None:
    original = ddl.changed_unlogged

    def changed(
        names: ddl.StatementScope, database: str, text: str, *more: Any
    ) -> dict[TableId, ddl.Unlogged]:
        found = original(names, database, text, *more)
        for table in ddl.may_alter(names, database, text) & set(names.known):
            found.setdefault(table, ddl.Unlogged("it", Effect.CHANGED))
        return found

    patch.setattr(ddl, "changed_unlogged", changed)


PLANTS: Final[Mapping[Planted, Callable[[Patch], None]]] = {
    Planted.ROWS_STAY: _rows_stay,
    Planted.GONE_FOR_GOOD: _gone_for_good,
    Planted.NEVER_ALTERED: _never_altered,
    Planted.STOPS_ALL: _stops_all,
    Planted.MEASURES: _measures,
    Planted.NEEDLESS: _needless,
}
# Which moves there are more of, so that it's found soon.
ABOUT: Final[Mapping[Planted, tuple[Move, ...]]] = {
    Planted.ROWS_STAY: (moves.truncate, moves.drop),
    Planted.GONE_FOR_GOOD: (moves.rename, moves.swap),
    Planted.NEVER_ALTERED: (moves.alter,),
}
METADATA: Final[Mapping[Planted, Metadata]] = {Planted.NEVER_ALTERED: Metadata.MINIMAL}


def weights(planted: Planted) -> dict[Move, int]:
    """How often each move comes while that's planted."""
    return {move: weight * (5 if move in ABOUT.get(planted, ()) else 1) for move, weight in MOVES.items()}
