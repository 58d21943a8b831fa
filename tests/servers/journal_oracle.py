"""The judge of scenarios without a lake: replays a journal in plain Python and compares it with the source.

It knows the journal's layout (`pipeline.journal.segment`) and nothing of the windows. `deploy.oracle` reads the source
and compares. Each function returns differences as texts, none if all is right.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from actors.journal.store import JournalReader
from deploy.demo.writer import Line
from deploy.oracle.changes import Written, tally_of, untrue_changes
from deploy.oracle.forms import forms_of_rows
from deploy.oracle.source import primary_key, source_table
from deploy.oracle.tables import TOLD, unequal_rows
from deploy.toolchain.mysql_server import MysqlServer
from pipeline.gtid.gtid_set import NO_GTIDS, GtidSet
from pipeline.journal.change_rows import META, SOURCE
from pipeline.journal.entry import Entry, File, FileKind
from pipeline.schema.ddl.alter_table import Alteration
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.types.column_types import DateTime, arrow_type

Key = tuple[Any, ...]
Row = Mapping[str, Any]

_DAY: Final = len("0000-03-01")
_SMALL_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Change:
    """A row of a changes file, and its segment; values in columns that are `absent` mean nothing."""

    op: str
    scn: int
    ordinal: int
    segment: int
    key: Key
    row: Row
    absent: tuple[str, ...] = ()
    gtid: str | None = None


@dataclass(slots=True)
class Story:
    """All that a journal says of a table. `mirror`: of each key the segment and the row that its chunk brought."""

    changes: list[Change] = field(default_factory=list)
    mirror: dict[Key, tuple[int, Row]] = field(default_factory=dict)
    twice: list[Key] = field(default_factory=list)

    def live(self) -> dict[Key, Row]:
        """The live view: the mirror's rows, and over them of each column the last change of its key that has it.

        A row of which not all is known that way isn't shown.
        """
        rows = {key: dict(row) for key, (_, row) in self.mirror.items()}
        names = {name for row in rows.values() for name in row}.union(*(c.row for c in self.changes))
        for change in self.changes:
            given = {name: value for name, value in change.row.items() if name not in change.absent}
            match change.op:
                case "d":
                    rows[change.key] = {}
                case "u":
                    rows[change.key] = {**rows.get(change.key, {}), **given}
                case _:
                    rows[change.key] = given
        return {key: row for key, row in rows.items() if row.keys() == names}


def replay(
    journal: Path, table: TableId, since: int | None = None, chain: Sequence[Entry] | None = None
) -> Story:
    """Replays the table's changes since its mirror last began, or after an SCN, in the order of the stream.

    `chain`: the journal's segments, if they're known already.
    """
    reader = JournalReader(journal)
    story = Story()
    chain = entries(journal) if chain is None else chain
    since = _since(chain[-1], table) if since is None else since
    for entry in chain:
        for altered in entry.alterations:
            if altered.alteration.schema.table == table:
                _alter(story, altered.alteration)
        for file in entry.files:
            if file.table == table and _belongs(file, _since(entry, table) == since):
                _take(story, reader, entry, file, since)
    # Rows of before a column was added have NULL in it.
    rows = [*(row for _, row in story.mirror.values()), *(change.row for change in story.changes)]
    added = dict.fromkeys(name for row in rows for name in row)
    story.mirror = {key: (at, {**added, **row}) for key, (at, row) in story.mirror.items()}
    story.changes = [replace(change, row={**added, **change.row}) for change in story.changes]
    story.changes.sort(key=lambda change: (change.scn, change.ordinal))
    return story


def _belongs(file: File, of_this_mirror: bool) -> bool:
    """Returns whether the file has changes or rows of the mirror. Rows that a verification read are of neither."""
    return file.kind is FileKind.CHANGES or (file.kind is FileKind.ROWS and of_this_mirror)


def entries(journal: Path) -> list[Entry]:
    """All sealed segments."""
    reader = JournalReader(journal)
    return list(reader.entries(0, reader.last_segment()))


def _since(entry: Entry, table: TableId) -> int:
    """Returns the SCN after which the table's mirror begins, as of this segment."""
    mirror = entry.checkpoint.mirrors.get(table)
    return mirror.since if mirror else 0


def source_rows(server: MysqlServer, table: TableId) -> dict[Key, Row]:
    """All rows of the table as the server has them now."""
    columns = [row[0] for row in server.sql(f"SHOW COLUMNS FROM `{table.database}`.`{table.name}`")]
    names = ", ".join("`" + column.replace("`", "``") + "`" for column in columns)
    told = server.sql(
        "SET SESSION time_zone = '+00:00'", f"SELECT {names} FROM `{table.database}`.`{table.name}`"
    )
    key = primary_key(server, table)
    rows = [dict(zip(columns, row, strict=True)) for row in told]
    return {tuple(row[name] for name in key): row for row in rows}


def unequal(
    server: MysqlServer, journal: Path, *tables: TableId, chain: Sequence[Entry] | None = None
) -> list[str]:
    """Where the live views aren't the source's tables, or what the journal says of them can't be.

    `chain`: the journal's segments, where they're known already.
    """
    chain = entries(journal) if chain is None else chain
    found = list(_broken_chain(chain))
    for table in tables:
        known = chain[-1].checkpoint.schemas.get(table)
        story = _widen(replay(journal, table, chain=chain), known)
        key = (known and known.key_names) or primary_key(server, table)
        found += unequal_rows(
            str(table), forms_of_rows(list(story.live().values())), source_table(server, table), key
        )
        found += [f"{table}: {key} was snapshotted twice" for key in story.twice[:TOLD]]
        found += list(_impossible(str(table), story))[:TOLD]
    return found


def untrue(journal: Path, tally: Sequence[Line], *tables: TableId) -> list[str]:
    """Where the changes of the tables aren't just those that the demo's writer committed, once each and in order."""
    return untrue_stories({table: replay(journal, table, since=0) for table in tables}, tally)


def untrue_stories(stories: Mapping[TableId, Story], tally: Sequence[Line]) -> list[str]:
    """The same, of what the journal says of each table since its beginning."""
    return [text for table, story in stories.items() for text in _history(table, story, tally)]


def ahead(chain: Sequence[Entry], stories: Mapping[TableId, Story]) -> list[str]:
    """Returns changes whose transaction isn't among those by which their segment's position grew.

    If there are none, and none is missing in the end, no position was ever ahead of what was durable with it.
    `stories`: what the journal says of each table since its beginning.
    """
    positions = {entry.segment: entry.checkpoint.position for entry in chain}
    grew = {
        segment: position - positions.get(segment - 1, NO_GTIDS) for segment, position in positions.items()
    }

    @cache  # a transaction has many changes
    def fits(gtid: str, segment: int) -> bool:
        return GtidSet.parse(gtid) <= grew[segment]

    return [
        f"{table}: {change} isn't of {grew[change.segment]}"
        for table, story in stories.items()
        for change in story.changes
        if change.gtid is not None and not fits(change.gtid, change.segment)
    ][:TOLD]


def _history(table: TableId, story: Story, tally: Sequence[Line]) -> list[str]:
    changes = (c for c in story.changes if c.op not in ("r", "t"))
    told = [
        Written(c.op, "|".join(map(str, c.key)), int(c.row["version"]), int(c.row["op_no"])) for c in changes
    ]
    return untrue_changes(str(table), told, tally_of(table, tally))


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """The rows of an Arrow table as Python has them; a day of a year 0, which Python hasn't, is text."""
    columns = {name: _values(column) for name, column in zip(table.column_names, table.columns, strict=True)}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _values(column: pa.ChunkedArray) -> list[Any]:
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        return [_day(value) for value in column]


def _day(value: pa.Scalar) -> object:
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        plain = value.cast(pa.timestamp("us")) if pa.types.is_timestamp(value.type) else value
        return plain.cast(pa.string()).as_py()


def _alter(story: Story, alteration: Alteration) -> None:
    """Rows have the names of columns that their table has by now, no column that has gone, and added constants."""
    names, gone = dict(alteration.changes.renamed), alteration.changes.dropped
    added = {
        each.column.name: pa.scalar(each.value).cast(arrow_type(each.column.type)).as_py()
        for each in alteration.changes.added
    }

    def now(row: Row) -> Row:
        return {names.get(name, name): value for name, value in row.items() if name not in gone}

    story.mirror = {key: (segment, {**now(row), **added}) for key, (segment, row) in story.mirror.items()}
    story.changes = [
        replace(change, row={**now(change.row), **added}, absent=tuple(now(dict.fromkeys(change.absent))))
        for change in story.changes
    ]


def _widen(story: Story, schema: TableSchema | None) -> Story:
    """The story with the days of a DATE that has become a DATETIME as that type has them: so a lake widens them."""
    times = {c.name for c in schema.columns if isinstance(c.type, DateTime)} if schema else set()

    def now(row: Row) -> Row:
        return {name: _midnight(value) if name in times else value for name, value in row.items()}

    return replace(
        story,
        mirror={key: (segment, now(row)) for key, (segment, row) in story.mirror.items()},
        changes=[replace(change, row=now(change.row)) for change in story.changes],
    )


def _midnight(value: object) -> object:
    match value:
        case datetime() | None:
            return value
        case date():
            return datetime.combine(value, time())
        case str(day) if len(day) == _DAY:
            return f"{day} 00:00:00.000000"
        case _:
            return value


def _take(story: Story, reader: JournalReader, entry: Entry, file: File, since: int) -> None:
    key_names = entry.schemas[file.version].key_names
    for row in rows_of(_read(reader.path(entry, file))):
        meta = {name: row.pop(name) for name in (*META.names, SOURCE.name) if name in row}
        if meta.get("__scn", since + 1) <= since:
            continue
        plain = {name: _plain(value) for name, value in row.items()}
        key = tuple(plain[name] for name in key_names)
        if file.kind is FileKind.CHANGES:
            assert entry.first_scn <= meta["__scn"] <= entry.last_scn
            assert meta["__segment"] == entry.segment
            story.changes.append(
                Change(
                    meta["__op"],
                    meta["__scn"],
                    meta["__ordinal"],
                    entry.segment,
                    key,
                    plain,
                    tuple(meta["__absent"] or ()),
                    meta["__gtid"],
                )
            )
        elif key in story.mirror:
            story.twice.append(key)
        else:
            story.mirror[key] = entry.segment, plain


def _read(path: Path) -> pa.Table:
    """Reads a file. A journal of many segments is mostly small ones, and is judged in two ways: these are kept."""
    found = path.stat()
    if found.st_size < _SMALL_BYTES:
        return _read_once(path, found.st_ino, found.st_mtime_ns)
    return _read_file(path)


@lru_cache(maxsize=2000)
def _read_once(path: Path, _inode: int, _written_ns: int) -> pa.Table:
    return _read_file(path)


def _read_file(path: Path) -> pa.Table:
    # `read_table` would take three times as long, for data sets of many files.
    return pq.ParquetFile(path).read(use_threads=False)


def _plain(value: object) -> object:
    """As the driver gives it: instants without their zone, which is UTC."""
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def _broken_chain(chain: Sequence[Entry]) -> Iterator[str]:
    for before, after in pairwise(chain):
        if after.first_scn != before.last_scn + 1:
            yield f"segment {after.segment} begins with SCN {after.first_scn} behind {before.last_scn}"
        if not before.checkpoint.position <= after.checkpoint.position:
            yield f"segment {after.segment} lacks GTIDs that the one before it had"


def _impossible(what: str, story: Story) -> Iterator[str]:
    """Returns changes that come twice, and rows of chunks that differ from the source at their position in the stream.

    A position is known by its segment, so changes in the chunk's own segment may be before or after it.
    """
    places = Counter((change.scn, change.ordinal) for change in story.changes)
    yield from (f"{what}: a second change at {place}" for place, count in places.items() if count > 1)
    by_key: dict[Key, list[Change]] = defaultdict(list)
    for change in story.changes:
        by_key[change.key].append(change)
    for key, (segment, row) in story.mirror.items():
        changes = by_key[key]
        before = [change for change in changes if change.segment < segment]
        inside = [change for change in changes if change.segment == segment]
        behind = [change for change in changes if change.segment > segment]
        could_be = [*before[-1:], *inside]
        if any(change.absent for change in could_be):
            continue
        known = bool(before) or (bool(inside) and inside[0].op == "c")
        if known and not any(change.op != "d" and change.row == row for change in could_be):
            yield f"{what}: the chunk's {row} isn't what came before it: {could_be}"
        if not inside and behind and behind[0].op == "c":
            yield f"{what}: {key} was inserted behind its chunk, which had it: {behind[0]}"
