"""The schema fence: messages of the log that wait until a table's schema is verified, and the messages after them.

Images whose log doesn't name their columns can't pass while their table's schema is in doubt, and nothing may overtake
them. So they're held, with everything after them, as long as that isn't too much. The verifier examines the later
messages meanwhile, because they decide whether the server's answer proves anything (`pipeline.verifier.step`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.binlog import (
    CreateTableSelectRead,
    DdlRead,
    LogAdvanced,
    TransactionPartRead,
    TransactionsRead,
)
from pipeline.messages.row_images import TableImages, TableUnreadable
from pipeline.schema.foreign_key import ForeignKey
from pipeline.schema.table_map import FullMetadata
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.schema.table_traits import Traits
from pipeline.verifier.columns import NAMES_REMEDY, images_table
from pipeline.verifier.table_state import (
    InDoubt,
    NoSuchTable,
    SchemaFetched,
    SchemaKnown,
    TableState,
    Unproven,
)

# How many bytes of rows are held, at most, until a schema is proven.
MOST_HELD = 64 << 20


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """The server's report on `tables`: their schemas, read after the executed set `at` and before the log's `end`.

    It also has their traits, which the log never has, and all foreign keys whose effects aren't in the log, read then,
    too. `refused`: the tables that can't be captured as the server describes them, and why.
    """

    tables: frozenset[TableId]
    schemas: Mapping[TableId, TableSchema]
    at: GtidSet
    end: Coordinates
    foreign_keys: tuple[ForeignKey, ...] = ()
    refused: Mapping[TableId, str] = field(default_factory=dict)
    traits: Mapping[TableId, Traits] = field(default_factory=dict)


HeldMessage = TransactionsRead | TransactionPartRead | DdlRead | CreateTableSelectRead | LogAdvanced

_BETWEEN = (
    "one statement after another altered it, and the log doesn't name the columns of its changes in between, which are "
    f"missing from its changelog; {NAMES_REMEDY}"
)
_BEHIND = (
    "the log doesn't name its columns, and lags too far for a proof of its schema: changes are missing from its "
    f"changelog; {NAMES_REMEDY}"
)
_GONE = (
    "the server has no such table any more, and what its columns were isn't known: changes are missing from its "
    f"changelog; {NAMES_REMEDY}"
)
_HIDDEN = (
    "the log has its rows without the names of its columns, and the server doesn't show it: the user of the source may "
    "not SELECT from it, or it was dropped with sql_log_bin = 0; grant SELECT, or leave it out with `tables`"
)


@dataclass(frozen=True, slots=True)
class NeverProven:
    """No schema ever will be for the images at the front, and why.

    `state`: see NotYetProven. The images after them may have a proof, or lack one for the same reason.
    """

    reason: str
    state: TableState


@dataclass(frozen=True, slots=True)
class NotShown:
    """The table is there, since the log has its rows, and the server doesn't show it; why, and what to do."""

    reason: str


@dataclass(frozen=True, slots=True)
class NotYetProven:
    """The server's answer, or its place in the log, is still to come.

    `state` has what was examined for it. Each held message is examined once, else a log that lags would be read again
    with each further message, or each one that passes.
    """

    state: TableState


# Which captured tables a statement may alter.
Alters = Callable[[DdlRead | CreateTableSelectRead], frozenset[TableId]]


def waiting_tables(tables: Mapping[TableId, TableState], message: HeldMessage) -> frozenset[TableId]:
    """The tables whose images in this message have to wait."""
    if not isinstance(message, TransactionsRead | TransactionPartRead):
        return frozenset()
    read = ((images_table(images), images) for images in message.tables)
    return frozenset(table for table, images in read if _must_wait(tables.get(table, Unproven()), images))


def _must_wait(state: TableState, images: TableImages | TableUnreadable) -> bool:
    """Whether these images have to wait for the proof of their table's schema."""
    if isinstance(images, TableUnreadable) or isinstance(images.map.metadata, FullMetadata):
        return False
    return isinstance(state, InDoubt)


def prove_schema(
    table: TableId,
    state: TableState,
    held: Sequence[HeldMessage],
    passed: int,
    size: int,
    alters: Alters,
) -> SchemaKnown | NeverProven | NotShown | NotYetProven:
    """Whether a schema is proven for a table whose images wait at the front.

    `held` has `size` bytes of rows, and comes after `passed` messages. An answer speaks for the images at the front if
    no statement comes between them and its place in the log. What holds there has held since.

    So the table was there for an answer that has none. The server doesn't show it to us. Or it dropped a MyISAM table,
    which is gone a moment before the log has that. So it is asked once more.
    """
    if isinstance(state, SchemaFetched):
        for number in range(max(passed, state.examined), passed + len(held)):
            decides = _decides(table, state, held[number - passed], alters)
            if decides is not None:
                state = replace(state, examined=number)
                return _proven(state) if decides else NeverProven(_why_unproven(state), state)
        state = replace(state, examined=passed + len(held))
    if size > MOST_HELD:
        return NeverProven(_BEHIND, state)
    return NotYetProven(state)


def _decides(table: TableId, answer: SchemaFetched, message: HeldMessage, alters: Alters) -> bool | None:
    """Returns whether a message proves an answer, or disproves it; None if it does neither."""
    match message:
        case CreateTableSelectRead() if table in alters(message):
            return False
        case DdlRead(end=end) if table in alters(message):
            return end != answer.end and end.reaches(answer.end)
        case TransactionsRead(end=end) | DdlRead(end=end) | LogAdvanced(end=end) if end.reaches(answer.end):
            return True
        case _:
            return None


def _proven(answer: SchemaFetched) -> SchemaKnown | NotShown | NotYetProven:
    match answer:
        case SchemaFetched(TableSchema() as schema):
            return SchemaKnown(schema)
        case SchemaFetched(missed=True):
            return NotShown(_HIDDEN)
        case _:
            return NotYetProven(Unproven(missed=True))


def _why_unproven(answer: SchemaFetched) -> str:
    return _GONE if isinstance(answer.schema, NoSuchTable) else _BETWEEN
