"""The tables that a run would capture, and those that one captures: for `tidemark check` and `tidemark tables`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from actors.runtime.logs import escape_controls
from actors.source.connection import Source
from actors.source.preflight import inspect_source
from pipeline.config.lake_types import form_by_rules, refused_types
from pipeline.config.settings import Settings, SnapshotMode
from pipeline.gtid.gtid_set import NO_GTIDS
from pipeline.journal.change_rows import uncapturable
from pipeline.lake.tables.columns import refused_names
from pipeline.schema.known_schemas import KnownSchemas
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.snapshot.checkpoint import Checkpoint, Ready
from pipeline.snapshot.snapshot import Completed

# The state of a table's snapshot by its mirror, if the service doesn't know the snapshot: it keeps the last ten.
_FORGOTTEN: Final[Mapping[str | None, str]] = {Ready.wire: Completed.wire}

_HEAD: Final = ("table", "key", "rows", "MiB", "what it gets")


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """A table of the source that the configuration means. `rows`, `size` (bytes): the server's own estimates.

    `refused`: why it can't be captured, None if it can.
    """

    table: TableId
    key: tuple[str, ...]
    rows: int
    size: int
    gets: str
    refused: str | None

    @property
    def cells(self) -> tuple[str, ...]:
        """Returns what a line shows of it, in the order of the head."""
        key = ", ".join(self.key) or "none"
        return (str(self.table), key, f"{self.rows:,}", f"{self.size / 2**20:,.1f}", self.gets)


async def planned_tables(settings: Settings, begun: Checkpoint | None) -> list[PlannedTable]:
    """Returns the tables that a run would capture, and those that can't be.

    Raises Transient, or Definite also where the source isn't as capture needs it: nobody looks at its tables then.
    `begun`: where the journal ends, None before the first start.
    """
    source = await Source.connect(settings.source)
    try:
        found = await inspect_source(source, settings, NO_GTIDS)
        found.raise_errors()
        return list(plan(found.known, settings, await source.sizes(), begun))
    finally:
        source.close()


def plan(
    known: KnownSchemas,
    settings: Settings,
    sizes: Mapping[TableId, tuple[int, int]],
    begun: Checkpoint | None = None,
) -> Iterator[PlannedTable]:
    """Yields what each table gets, by its schema or by why it's refused."""
    for table in sorted(filter(settings.tables.match, known.schemas.keys() | known.refused.keys())):
        rows, size = sizes.get(table, (0, 0))
        schema = known.schemas.get(table)
        key = () if schema is None else schema.key_names
        refused = known.refused.get(table)
        if schema is not None and refused is None:
            refused = uncapturable(schema, settings.protection)
        gets = _gets(table, schema, refused, settings.snapshot.mode, begun)
        lake = None if schema is None or refused else _in_lake(settings.protection.stored(schema), settings)
        yield PlannedTable(table, key, rows, size, f"{gets}; {lake}" if lake else gets, refused)


def _gets(
    table: TableId,
    schema: TableSchema | None,
    refused: str | None,
    mode: SnapshotMode,
    begun: Checkpoint | None,
) -> str:
    if schema is None or refused is not None:
        return f"nothing, it can't be captured: {refused}"
    if begun is not None and table in begun.stopped:
        return f"nothing, it has stopped: {begun.stopped[table]}"
    if not schema.key:
        return "its changes only, since it has no primary key; a blocking snapshot reads its rows"
    if mode is SnapshotMode.NO_DATA:
        return "its changes, and a snapshot when a signal asks for it"
    if begun is not None and table in begun.mirrors:
        return "its changes, from where the journal ends"
    return "a snapshot of all rows at its first start, and its changes"


def _in_lake(schema: TableSchema, settings: Settings) -> str | None:
    """Returns what is special about a table's columns in the lake, None for nothing."""
    if settings.lake is not None and (why := refused_names(schema)):
        return f"nothing in the lake: {why}; rename it, or leave the table out"
    if why := refused_types(settings.lake_types, schema):
        return f"nothing in the lake: {why}"
    formed = form_by_rules(settings.lake_types, schema)
    types = [f"{column.name} as {column.form}" for column in formed.columns if column.form is not None]
    return f"in the lake {', '.join(types)}" if types else None


def listing(tables: Sequence[PlannedTable]) -> Iterator[str]:
    """Yields the lines of a table of them: names are never cut."""
    yield from _aligned([_HEAD, *(table.cells for table in tables)], numbers=(2, 3))
    total, size_of_all = sum(table.rows for table in tables), sum(table.size for table in tables)
    yield f"{len(tables)} tables, about {total:,} rows and {size_of_all / 2**20:,.1f} MiB by the server's estimate"


def captured_listing(tables: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yields the lines of a running service's tables, from what `/tables` says of each."""
    yield from _aligned([("table", "snapshot", "rows", "state"), *map(_captured, tables)], numbers=(2,))
    yield f"{len(tables)} tables"


def _captured(table: Mapping[str, Any]) -> tuple[str, ...]:
    snapshot, lake = table["snapshot"] or {}, table["lake"]
    rows = f"{snapshot['rows'] + snapshot['given_up']:,}" if snapshot else ""
    state = (
        "its changes are captured, and it has no primary key"
        if table["keyless"]
        else "its changes are captured"
    )
    if stopped := table["stopped"] or lake["stopped"]:
        state = f"stopped: {stopped}"
    return (table["table"], snapshot.get("state", _FORGOTTEN.get(lake["mirror"], "none")), rows, state)


def _aligned(lines: Sequence[tuple[str, ...]], numbers: tuple[int, ...]) -> Iterator[str]:
    lines = [tuple(map(escape_controls, line)) for line in lines]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (
            text.rjust(widths[at]) if at in numbers else text.ljust(widths[at])
            for at, text in enumerate(line)
        )
        yield "  ".join(cells).rstrip()
