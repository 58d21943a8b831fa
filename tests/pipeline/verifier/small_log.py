"""A small log of one table, `shop.orders`, and what the verifier says of it: for tests of its machine."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from pipeline.config.column_protection import Protection, ProtectionRule, Treatment
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import Gtid, GtidSet, Tsid
from pipeline.gtid.transactions import Transactions
from pipeline.messages.binlog import (
    CreateTableSelectRead,
    DdlRead,
    LogAdvanced,
    TransactionPartRead,
    TransactionsRead,
)
from pipeline.messages.changes import (
    ChangesVerified,
    MirrorInvalidated,
    SchemaChanged,
    SchemasVerified,
    TableStopped,
)
from pipeline.messages.row_images import IMAGE_FIELDS, TableImages, TableUnreadable
from pipeline.schema.known_schemas import KnownSchemas
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_map import FullMetadata, MinimalMetadata, TableMap
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.snapshot.checkpoint import Checkpoint
from pipeline.types.column_types import ColumnType, Enum, Integer, Set
from pipeline.types.field_types import Storage
from pipeline.verifier import step as machine
from pipeline.verifier.schema_fence import ServerAnswer
from pipeline.verifier.state import FromVerifier, State
from pipeline.verifier.step import Fact, Order
from tests.pipeline.verifier.answers import start, step

SERVER = Tsid("3e11fa47-71ca-11e1-9e33-c80aa9429562")
SHOP = TableFilter((r"shop\..*",))
ORDERS = TableId("shop", "orders")
LOG = "binlog.000001"


def end(number: int) -> Coordinates:
    """Where the transaction with this number ends in the log."""
    return Coordinates(LOG, 100 * number)


END = end(4)
TYPES: tuple[ColumnType, ...] = (Integer(4, unsigned=False), Enum(("new", "paid")), Set(("x", "y")))
NAMES = ("id", "state", "tags")
FULL = TableMap(
    ORDERS,
    TYPES,
    (Storage(3, 0), Storage(254, 0x01F7), Storage(254, 0x01F8)),
    (False, True, True),
    FullMetadata(NAMES, (0,)),
)
MINIMAL = replace(FULL, types=(TYPES[0], Enum(()), Set(())), metadata=MinimalMetadata())
SCHEMA = TableSchema(
    ORDERS, tuple(Column(n, t, null) for n, t, null in zip(NAMES, TYPES, FULL.nullable, strict=True)), (0,)
)
RENAMED = replace(SCHEMA, columns=(*SCHEMA.columns[:2], replace(SCHEMA.columns[2], name="labels")))
NOTHING_KNOWN = KnownSchemas({}, GtidSet())


def upto(number: int) -> GtidSet:
    return GtidSet.parse(f"{SERVER}:1-{number}") if number else GtidSet()


def slice_(*numbers: int, maps: tuple[TableMap, ...] = (FULL,)) -> TransactionsRead:
    """A slice with these transactions; each table has one inserted row, of the first."""
    transactions = Transactions.of((Gtid(SERVER, n), n) for n in numbers)
    return TransactionsRead(transactions, tuple(images(m) for m in maps), end(numbers[-1]))


def images(table_map: TableMap, state: int | None = 2, tags: int | None = 3) -> TableImages:
    rows = pa.record_batch(
        [pa.array([7], pa.int32()), pa.array([state], pa.int32()), pa.array([tags], pa.int64())],
        names=["0", "1", "2"],
    )
    fields = pa.record_batch([[0], [0], [0], [None], [None]], schema=IMAGE_FIELDS)
    return TableImages(table_map, fields, rows, fields.nbytes + rows.nbytes)


def statement(number: int, text: str, database: str = "shop") -> DdlRead:
    return DdlRead(Gtid(SERVER, number), 0, database, text, end(number))


def answer(number: int, schema: TableSchema | None, at: int | None = None) -> ServerAnswer:
    """Returns the server's answer once it has executed `at` transactions, with its log ending after the `number`th."""
    schemas = {schema.table: schema} if schema else {}
    return ServerAnswer(frozenset({ORDERS}), schemas, upto(number if at is None else at), end(number))


def fresh(known: KnownSchemas = NOTHING_KNOWN, position: int = 0, **schemas: TableSchema) -> State:
    """At a checkpoint with these schemas; an `old` one may have been altered since it was proven."""
    unproven = frozenset(schema.table for name, schema in schemas.items() if name == "old")
    return start(
        SHOP,
        known,
        Checkpoint(upto(position), schemas={s.table: s for s in schemas.values()}, unproven=unproven),
    )[0]


Message = (
    TransactionsRead | TransactionPartRead | DdlRead | CreateTableSelectRead | LogAdvanced | ServerAnswer
)


def run(state: State, *log: Message) -> list[FromVerifier]:
    said: list[FromVerifier] = []
    for message in log:
        state, messages = step(state, message)
        said += messages
    return said


def kinds(said: Sequence[Order]) -> list[str]:
    return [type(message).__name__ for message in said]


def schemas(said: list[FromVerifier]) -> list[TableSchema]:
    return [
        change.schema for message in said if isinstance(message, ChangesVerified) for change in message.tables
    ]


TAGS_GONE = "column 'tags' of shop.orders was dropped or renamed"


def verified(said: list[FromVerifier]) -> list[TableSchema]:
    return [each for message in said if isinstance(message, SchemasVerified) for each in message.schemas]


def restarts(said: Sequence[Order]) -> list[MirrorInvalidated]:
    """All of them, by themselves or with what else is said."""
    with_others = ChangesVerified | SchemaChanged | SchemasVerified
    each = [m.restarted if isinstance(m, with_others) else (m,) for m in said]
    return [m for some in each for m in some if isinstance(m, MirrorInvalidated)]


def part(number: int, *tables: TableImages | TableUnreadable) -> TransactionPartRead:
    return TransactionPartRead(Gtid(SERVER, number), number, tables)


def ran(state: State, *facts: Fact) -> tuple[State, list[Order]]:
    said: list[Order] = []
    for fact in facts:
        state, orders = machine.step(state, fact)
        said += orders
    return state, said


def protecting(*columns: str, tables: str = r"shop\.orders") -> Protection:
    return Protection(rules=(ProtectionRule(TableFilter((tables,)), columns, Treatment.EXCLUDE),))


def stops(said: Iterable[Order]) -> dict[TableId, str]:
    return {each.table: each.reason for each in said if isinstance(each, TableStopped)}
