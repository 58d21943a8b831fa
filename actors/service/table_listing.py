"""The tables that a run would capture, before it does: for `tidemark check`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from actors.source.connection import Source
from actors.source.preflight import inspect_source
from pipeline.config.settings import Settings, SnapshotMode
from pipeline.gtid.gtid_set import NO_GTIDS
from pipeline.schema.known_schemas import KnownSchemas
from pipeline.schema.table_schema import TableId, TableSchema

_HEAD: Final = ("table", "key", "rows", "MiB", "what it gets")


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """A table of the source that the configuration means. `rows`, `size` (bytes): the server's own estimates."""

    table: TableId
    key: tuple[str, ...]
    rows: int
    size: int
    gets: str

    @property
    def cells(self) -> tuple[str, ...]:
        """Returns what a line shows of it, in the order of the head."""
        key = ", ".join(self.key) or "none"
        return (str(self.table), key, f"{self.rows:,}", f"{self.size / 2**20:,.1f}", self.gets)


async def planned_tables(settings: Settings) -> list[PlannedTable]:
    """Returns the tables that a run would capture, and those that can't be. Raises Transient or Definite."""
    source = await Source.connect(settings.source)
    try:
        known = (await inspect_source(source, settings, NO_GTIDS)).known
        return list(plan(known, settings, await source.sizes()))
    finally:
        source.close()


def plan(
    known: KnownSchemas, settings: Settings, sizes: Mapping[TableId, tuple[int, int]]
) -> Iterator[PlannedTable]:
    """Yields what each table gets, by its schema or by why it's refused."""
    for table in sorted(filter(settings.tables.match, known.schemas.keys() | known.refused.keys())):
        rows, size = sizes.get(table, (0, 0))
        schema = known.schemas.get(table)
        key = () if schema is None else schema.key_names
        yield PlannedTable(
            table, key, rows, size, _gets(schema, known.refused.get(table), settings.snapshot.mode)
        )


def _gets(schema: TableSchema | None, refused: str | None, mode: SnapshotMode) -> str:
    if schema is None or refused is not None:
        return f"nothing, it can't be captured: {refused}"
    if not schema.key:
        return "its changes only, since it has no primary key"
    if mode is SnapshotMode.NO_DATA:
        return "its changes, and a snapshot when a signal asks for it"
    return "a snapshot of all rows at its first start, and its changes"


def listing(tables: Sequence[PlannedTable]) -> Iterator[str]:
    """Yields the lines of a table of them: names are never cut."""
    lines = [_HEAD, *(table.cells for table in tables)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(_HEAD))]
    for line in lines:
        name, key, rows, size, gets = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        yield f"{name}  {key}  {rows.strip():>{widths[2]}}  {size.strip():>{widths[3]}}  {gets}".rstrip()
    total, size_of_all = sum(table.rows for table in tables), sum(table.size for table in tables)
    yield f"{len(tables)} tables, about {total:,} rows and {size_of_all / 2**20:,.1f} MiB by the server's estimate"
