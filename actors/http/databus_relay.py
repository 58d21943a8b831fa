"""The paths of Databus' relay, over the journal.

A request is answered with what the journal has, and is not kept open. Its cursor is in its checkpoint. Every answer has
`x-dbus-req-id` and `x-dbus-req-latency` (ms). A refused one has `x-dbus-error`, with the name of Databus' exception.
`x-dbus-pending-event-size` says how large the next event is, if `size` has no room for it.

Source: Databus 2.0, `DatabusRequest` (headers), `BufferInfoResponse`, `DbusEventsTotalStatsEvent`.
"""

import asyncio
import base64
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import count
from threading import Lock
from typing import Any, Final

from aiohttp import web

from actors.http.answer_memory import MADE_AT_ONCE, AnswerMemory
from actors.http.changes.readers import ChangesReaders
from actors.http.changes.segment_changes import ChangesRead, ChooseKeys, SegmentChanges
from actors.http.changes.stream_point import SEGMENTS_AT_ONCE
from actors.http.connections import while_client_waits
from actors.http.error_answers import Handler, changes_refusal
from actors.journal.store import JournalReader
from actors.runtime.metrics import Metrics
from pipeline import metrics as catalogue
from pipeline.errors import Definite, Transient
from pipeline.journal.changes.commit_order import of_one_version
from pipeline.journal.changes.key_filter import check_key_filter, matching_keys
from pipeline.journal.changes.place import PlaceGone, ReadPlace, find_place
from pipeline.journal.changes.query import NamedPlace
from pipeline.journal.changes.retained_range import Entries, RetainedRange, first_segment_where
from pipeline.journal.entry import Entry
from pipeline.journal.request_parameters import check_names
from pipeline.kafka.databus.event_page import EventPage
from pipeline.kafka.databus.events import AvroEvents, JsonEvents
from pipeline.kafka.databus.row_records import key_schema_text, row_schema_digest, row_schema_text
from pipeline.kafka.databus.source_filters import check_source_filters, wanted_events
from pipeline.kafka.databus.sources import UnknownSource, find_sources, source_id
from pipeline.kafka.databus.stream_query import (
    IGNORED,
    EventEncoding,
    StreamQuery,
    parse_stream_query,
)
from pipeline.kafka.databus.window_scn import first_window, own_place
from pipeline.schema.table_names import split_names
from pipeline.schema.table_schema import TableId, TableSchema

# A request reads no more segments, so that one whose sources rarely change holds up no other. One that chooses events
# by their keys reads no more bytes of files either, if it reads more than one segment.
MOST_READ_SEGMENTS: Final = 256
MOST_READ_BYTES: Final = 64 << 20

_FORMS: Final[Mapping[EventEncoding, type[JsonEvents] | type[AvroEvents]]] = {
    EventEncoding.JSON: JsonEvents,
    EventEncoding.BINARY: AvroEvents,
}

_NOT_FOUND: Final = "com.linkedin.databus.core.ScnNotFoundException"
_WRONG: Final = "com.linkedin.databus2.core.container.request.InvalidRequestParamValueException"


class DatabusRelay:
    """Databus' relay for those who read changes."""

    def __init__(self, readers: ChangesReaders, metrics: Metrics, memory: AnswerMemory) -> None:
        self._readers = readers
        self._memory = memory
        self._few = asyncio.Semaphore(MADE_AT_ONCE)
        self._tap = readers.tap
        self._metrics = metrics
        self._requests = count(1)
        self._row_versions = RowVersions()

    def handlers(self) -> dict[str, Handler]:
        """Returns what answers each route."""
        answers: dict[str, Callable[[], Any]] = {
            "databus_sources": self._sources,
            "databus_inbound": self._inbound,
            "databus_inbound_sources": self._sources_counted,
            "databus_outbound": self._outbound,
            "databus_outbound_sources": self._sources_counted,
            "databus_buffer": self._buffer,
        }
        of_one: dict[str, Callable[[TableId], int | None]] = {
            "databus_inbound_source": self._sealed_of,
            "databus_outbound_source": lambda table: self._readers.sent[table],
        }
        handlers: dict[str, Handler] = {
            **{name: self._in_json(answer) for name, answer in answers.items()},
            **{name: self._counted(count) for name, count in of_one.items()},
            "databus_register": self._register,
            "databus_stream": self._stream,
        }
        return {name: self._said(handler) for name, handler in handlers.items()}

    def _said(self, handler: Handler) -> Handler:
        """Answers with Databus' headers."""

        async def handle(request: web.Request) -> web.StreamResponse:
            began = time.monotonic()
            try:
                answer = await handler(request)
            except (Definite, Transient) as error:
                answer = changes_refusal(error)
                answer.headers.update(_error_headers(answer.status, error))
            answer.headers["x-dbus-req-id"] = str(next(self._requests))
            answer.headers["x-dbus-req-latency"] = f"{1000 * (time.monotonic() - began):.0f}"
            return answer

        return handle

    def _in_json(self, answer: Callable[[], Any]) -> Handler:
        """Answers a request without parameters."""

        async def handle(request: web.Request) -> web.Response:
            check_names(request.query.keys() - IGNORED)
            return web.json_response(await self._tap.work(answer))

        return handle

    def _counted(self, count_of: Callable[[TableId], int | None]) -> Handler:
        """Answers with a count of one source's events."""

        async def handle(request: web.Request) -> web.Response:
            check_names(request.query.keys() - IGNORED)
            known = await self._tap.work(self._captured)
            [table] = find_sources([request.match_info["source"]], known)
            return web.json_response({"dimension": str(source_id(table)), "numDataEvents": count_of(table)})

        return handle

    async def _stream(self, request: web.Request) -> web.Response:
        query = parse_stream_query(request.query)
        with self._readers.admit():
            page, body = await while_client_waits(request, self._made(query))
        headers = {} if page.pending is None else {"x-dbus-pending-event-size": str(page.pending)}
        answer = web.Response(body=body, content_type=_FORMS[query.output].content_type, headers=headers)
        self._memory.check_room(answer)
        name = "json" if query.output is EventEncoding.JSON else "avro"
        self._readers.measure(name, page.rows, len(body))
        return answer

    async def _made(self, query: StreamQuery) -> tuple[EventPage, bytes]:
        """Returns the events of an answer, and its body."""
        async with self._memory.making(self._few):
            page = await self._page(query)
            return page, await self._tap.work(page.whole)

    async def _page(self, query: StreamQuery) -> EventPage:
        """Returns the events of an answer. Others who read have their turn after each piece."""
        pages = self._pages(query)
        page = await self._tap.work(lambda: next(pages))
        while (more := await self._tap.work(lambda: next(pages, None))) is not None:
            page = more
        return page

    def _pages(self, query: StreamQuery) -> Iterator[EventPage]:
        """Returns the page after each piece that it takes, at last with all."""
        journal, there = self._tap.sealed()
        known = self._tap.tables(journal.entry(there.last))
        tables = find_sources(query.sources, known) if query.sources else sorted(known)
        keys = _keys_of(query, tables, known)
        window = own_place(query.place, there.id)
        place = _at_next_scn(find_place(window.since, there, journal.entry), there, journal.entry)
        form = _FORMS[query.output](first_window(there.id))
        page = EventPage(form, query.size, window.first, window.skipped)
        changes = SegmentChanges(journal, place, frozenset(tables), keys=keys, shared=self._tap.shared)
        last = min(there.last, place.segment + MOST_READ_SEGMENTS - 1)
        if keys is not None:
            last = _looked_through(journal, place.segment, last, frozenset(tables))
        while changes.place.segment <= last:
            for read in changes.read(min(last, changes.place.segment + SEGMENTS_AT_ONCE - 1)):
                _add(page, read)
                yield page
                if page.full:
                    return
            yield page
        if place.segment <= last or query.place.since is NamedPlace.NOW:
            # A client without a checkpoint gets one, also where nothing comes yet.
            page.end(journal.entry(last).last_scn)
        yield page

    def _sources(self) -> list[dict[str, Any]]:
        return [{"name": str(table), "id": source_id(table)} for table in sorted(self._captured())]

    async def _register(self, request: web.Request) -> web.Response:
        check_names(request.query.keys() - IGNORED, "sources", "version")
        named, version = request.query.get("sources"), request.query.get("version")
        return web.json_response(await self._tap.work(lambda: self._schemas(named, version)))

    def _schemas(self, named: str | None, version: str | None) -> list[dict[str, Any]]:
        """Returns the columns of these sources' rows, of all sources without any; of one version if it is named."""
        journal, there = self._tap.sealed()
        last = journal.entry(there.last)
        known = self._tap.tables(last)
        tables = find_sources(split_names(named), known) if named else sorted(known)
        found = [each for each in journal.schemas() if each.table in tables]
        if concealed := last.protected.keys() & set(tables):
            # The journal also has the columns as the source has them, which the rules exclude.
            shown = self._row_versions.since(there.first, journal, there.last)
            shown |= {known[table].version for table in concealed}
            found = [each for each in found if each.table not in concealed or each.version in shown]
        if version is not None and not (found := [each for each in found if each.version == version]):
            raise UnknownSource(
                f"version: the journal has no columns of version {version} of these sources; it has gone with its "
                "segments, or never was. Without `version` the answer has all there are"
            )
        # The present columns of a table come last.
        found.sort(key=lambda each: (each.table, each == known[each.table]))
        return [_registered(schema) for schema in found]

    def _inbound(self) -> dict[str, Any]:
        journal, there = self._tap.sealed()
        first, last, begin = journal.entry(there.first), journal.entry(there.last), first_window(there.id)
        return {
            "dimension": "total",
            "numDataEvents": int(self._metrics.total(catalogue.JOURNAL_ROWS)),
            "minWinScn": begin + there.scn,
            "maxWinScn": begin + last.last_scn,
            "sinceWinScn": begin + there.scn - 1,
            "timestampMinScnEvent": _first_ms(first),
            "timestampMaxScnEvent": _last_ms(last),
        }

    def _sources_counted(self) -> list[int]:
        return [source_id(table) for table in sorted(self._captured())]

    def _sealed_of(self, table: TableId) -> int | None:
        """Returns how many rows of a table were sealed; None for one of very many tables, which aren't told apart."""
        if not self._metrics.has_series(str(table)):
            return None
        return int(self._metrics.total(catalogue.JOURNAL_ROWS, table=str(table)))

    def _outbound(self) -> dict[str, Any]:
        return {
            "dimension": "total",
            "numDataEvents": int(self._metrics.total(catalogue.CHANGES_ROWS)),
            "sizeDataEvents": int(self._metrics.total(catalogue.CHANGES_BYTES)),
            "numPeers": self._readers.count,
        }

    def _captured(self) -> dict[TableId, TableSchema]:
        journal, there = self._tap.sealed()
        return self._tap.tables(journal.entry(there.last))

    def _buffer(self) -> dict[str, Any]:
        journal, there = self._tap.sealed()
        first, last, begin = journal.entry(there.first), journal.entry(there.last), first_window(there.id)
        return {
            "minScn": begin + there.scn,
            "maxScn": begin + last.last_scn,
            "timestampFirstEvent": _first_ms(first),
            "timestampLatestEvent": _last_ms(last),
        }


class RowVersions:
    """Which versions of columns the journal's rows have. Each segment's entry is read once."""

    def __init__(self) -> None:
        self._last_with: dict[str, int] = {}
        self._read_through = 0
        self._lock = Lock()

    def since(self, first: int, journal: JournalReader, last: int) -> set[str]:
        """Returns those of the rows from segment `first` through `last`."""
        with self._lock:
            for segment in range(max(first, self._read_through + 1), last + 1):
                self._last_with |= {file.version: segment for file in journal.entry(segment).files}
                self._read_through = segment
            self._last_with = {
                version: segment for version, segment in self._last_with.items() if segment >= first
            }
            return set(self._last_with)


def _add(page: EventPage, read: ChangesRead) -> None:
    pieces = [] if read.rows is None else list(of_one_version(read.rows, read.lanes))
    for number, piece in enumerate(pieces, 1):
        is_last = number == len(pieces)
        page.add(piece, read.lanes, complete=is_last and read.checkpoint is not None)


def _keys_of(
    query: StreamQuery, tables: Iterable[TableId], known: Mapping[TableId, TableSchema]
) -> ChooseKeys | None:
    """Returns what chooses the rows that are wanted. Raises WrongKeyFilter or MalformedRequest."""
    if query.filters is not None:
        check_source_filters(query.filters, known, tables)
        return partial(wanted_events, filters=query.filters)
    if query.keys is None:
        return None
    for table in tables:
        check_key_filter(query.keys, known[table])
    return partial(matching_keys, keys=query.keys)


def _at_next_scn(place: ReadPlace, there: RetainedRange, entry: Entries) -> ReadPlace:
    """Returns the place after segments without an SCN. They have no events, and a window of theirs would be the one
    that the client has already."""
    if place.segment > there.last:
        return place
    scn = entry(place.segment).first_scn
    found = first_segment_where(there, lambda each: each >= place.segment and entry(each).last_scn >= scn)
    if found == place.segment:
        return place
    return replace(place, segment=there.last + 1 if found is None else found)


def _looked_through(journal: JournalReader, first: int, last: int, tables: frozenset[TableId]) -> int:
    """Returns the last segment through which one request looks for events."""
    size = 0
    for segment in range(first, last + 1):
        entry = journal.entry(segment)
        size += sum(file.bytes for file in entry.files if file.table in tables)
        if size > MOST_READ_BYTES:
            return max(first, segment - 1)
    return last


def _registered(schema: TableSchema) -> dict[str, Any]:
    return {
        "id": source_id(schema.table),
        "name": str(schema.table),
        "version": schema.version,
        "schemaId": base64.b64encode(row_schema_digest(schema)).decode(),
        "schema": row_schema_text(schema),
        "keySchema": key_schema_text(schema),
    }


def _first_ms(entry: Entry) -> int:
    """Returns when the segment's first transaction committed (ms), or when the segment was sealed without one."""
    return (entry.sealed_at if entry.commit_times is None else entry.commit_times.oldest) // 1000


def _last_ms(entry: Entry) -> int:
    return (entry.sealed_at if entry.commit_times is None else entry.commit_times.newest) // 1000


def _error_headers(status: int, error: Exception) -> dict[str, str]:
    """Returns what says in Databus' words why a request is refused."""
    if isinstance(error, PlaceGone):
        name = _NOT_FOUND
    elif status < 429:
        name = _WRONG
    else:
        return {}
    message = " ".join(str(error).split()).encode("ascii", "backslashreplace").decode()
    return {"x-dbus-error": name, "x-dbus-error-message": message}
