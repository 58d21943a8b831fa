"""The language of the golden traces: messages to the coordinator in, its orders out.

A trace is a text file. Its author writes three kinds of lines, and the coordinator writes the fourth:

    # text                              a comment
    start orders items windows=2        a new coordinator, which captures these tables
    given MESSAGE; MESSAGE              messages whose orders the trace doesn't show
    > MESSAGE                           a message; the indented lines after it are what follows from it

`tests/pipeline/coordinator/traces/README.md` describes the messages and the orders. `rewritten` returns a trace as the
code at hand would write it. Builders of `tests.pipeline.builders` make the messages: servers are letters, places are
offsets in the log, rows are their keys.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pipeline.config.settings import SnapshotMode
from pipeline.coordinator import step as coordinator
from pipeline.coordinator.state import BetweenTransactions, Order, Overlapping, Pausing, State
from pipeline.errors import InvariantBroken
from pipeline.gtid.coordinates import Coordinates
from pipeline.messages import chunks
from pipeline.messages.binlog import LogAdvanced, ReadingPaused
from pipeline.messages.changes import MirrorInvalidated, SchemasVerified, TableStopped
from pipeline.messages.inboxes import ToWatermarkCoordinator
from pipeline.messages.journal import Append, ChunksFlushed, JournalFull, JournalHasSpace, MirrorDataExpired
from pipeline.messages.signals import SignalReceived
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import Column, TableSchema
from pipeline.signals import signal as signals
from pipeline.snapshot.checkpoint import Checkpoint, Filling, Mirror, Ready
from pipeline.snapshot.chunk_index import ChunkIndex
from pipeline.snapshot.watermark import CLOSE_MARKER, OPEN_MARKER, High, MarkerRow
from pipeline.types.column_types import Integer
from tests.pipeline import builders
from tests.pipeline.builders import LIMITS, ROW, altered, gtids, place, table
from tests.pipeline.trace_orders import short, state_lines, told

_TABLES = {name: table(name) for name in ("orders", "items", "users")}
_TABLES["logs"] = table("logs", "line", key=())

_INDENT = "    "

# What follows from a message that can't be taken: shown after `given`, too.
_UNEXPECTED = ("invariant broken", "not so")


def schema(name: str) -> TableSchema:
    """The table that a trace names: `orders`, or `orders+column`, `orders+key`, `orders+renamed` after a statement."""
    name, _, change = name.partition("+")
    known = _TABLES[name]
    match change:
        case "":
            return known
        case "column":
            return altered(known)
        case "key":
            return replace(known, key=(1,))
        case "renamed":
            number = Column("number", Integer(8, unsigned=False), nullable=False)
            return replace(known, columns=(number, *known.columns[1:]))
        case _:
            raise ValueError(f"a table isn't changed by {change!r}")


class NotOrdered(LookupError):
    """The trace answers an order that the coordinator didn't give."""


@dataclass
class Trace:
    """One coordinator of a trace, and the chunks that it has ordered."""

    state: State
    settings: dict[str, str]
    ordered: dict[int, chunks.ReadChunk | chunks.ReadByKeys] = field(default_factory=dict)
    shown: Checkpoint | None = None
    scanned: list[chunks.ReadScan] = field(default_factory=list)

    @classmethod
    def started(cls, line: str) -> tuple["Trace", tuple[str, ...]]:
        """Returns the coordinator that a `start` line describes, and the lines of its first orders."""
        names = [word for word in shlex.split(line) if "=" not in word]
        settings = dict(word.split("=", 1) for word in shlex.split(line) if "=" in word)
        scn = int(settings.get("scn", 0))
        known = {schema(name).table: schema(name) for name in names}
        mirrors: dict[Any, Mirror] = {
            schema(name).table: kind(int(since))
            for kind, option in ((Filling, "filling"), (Ready, "ready"))
            for name, _, since in (
                each.partition("@") for each in settings.get(option, "").split(",") if each
            )
        }
        return cls.over(Checkpoint(gtids("a:1-5"), scn, schemas=known, mirrors=mirrors), settings)

    @classmethod
    def over(cls, checkpoint: Checkpoint, settings: dict[str, str]) -> tuple["Trace", tuple[str, ...]]:
        """A coordinator that starts from this checkpoint."""
        limits = replace(
            LIMITS,
            chunk_rows=int(settings.get("chunk", LIMITS.chunk_rows)),
            connections=int(settings.get("connections", LIMITS.connections)),
        )
        if "memory" in settings:
            limits = replace(limits, chunk_bytes=2 * ROW, memory=round(float(settings["memory"]) * ROW))
        if "chunk_bytes" in settings:
            limits = replace(limits, chunk_bytes=int(settings["chunk_bytes"]))
        if "unwritten" in settings:
            limits = replace(limits, unwritten=int(settings["unwritten"]))
        windows = settings.get("windows", "4")
        mode = Pausing() if windows == "pausing" else Overlapping(int(windows))
        state, orders = coordinator.start(
            checkpoint, limits, mode, SnapshotMode(settings.get("snapshot", "no_data"))
        )
        trace = cls(state, settings)
        lines = trace._told(state, orders, shown=None)
        if settings.get("log") != "nowhere":
            trace.give(LogAdvanced(place(10)))
        return trace, lines

    def follow(self, text: str) -> tuple[str, ...]:
        """Returns the lines of what follows from the message that a line describes."""
        try:
            return self.give(self.message(text))
        except NotOrdered as missing:
            return (f"{_UNEXPECTED[1]}: {missing}",)

    def give(self, message: ToWatermarkCoordinator) -> tuple[str, ...]:
        """Returns the lines of what follows from a message."""
        before = self.state
        try:
            self.state, orders = coordinator.step(self.state, message)
        except InvariantBroken as broken:
            return (f"{_UNEXPECTED[0]}: {short(str(broken))}",)
        return self._told(before, orders, self.shown)

    def _told(self, before: State, orders: tuple[Order, ...], shown: Checkpoint | None) -> tuple[str, ...]:
        lines: list[str] = []
        for order in orders:
            lines += told(order, shown)
            if isinstance(order, Append):
                shown = self.shown = order.checkpoint
            elif isinstance(order, chunks.ReadChunk | chunks.ReadByKeys):
                self.ordered[order.chunk.number] = order
            elif isinstance(order, chunks.ReadScan):
                self.scanned.append(order)
        if isinstance(self.state.phase, BetweenTransactions):
            assert self.state.checkpoint is self.shown, (
                "a change of the checkpoint didn't go out with an Append"
            )
        return (*lines, *state_lines(before, self.state))

    def chunk(self, number: str) -> chunks.ReadChunk | chunks.ReadByKeys:
        """The order of the chunk with this number."""
        if int(number) not in self.ordered:
            raise NotOrdered(f"chunk {number} was not ordered")
        return self.ordered[int(number)]

    def message(self, text: str) -> ToWatermarkCoordinator:
        """The message that a line of a trace describes."""
        for pattern, made in _MESSAGES.items():
            if found := re.fullmatch(pattern, text):
                made_of: dict[str, Any] = found.groupdict()
                result: ToWatermarkCoordinator = made(self, **made_of)
                return result
        raise ValueError(f"no message of the coordinator reads {text!r}")


def rewritten(text: str) -> str:
    """The trace as the code at hand would write it: its comments and messages, and what follows from each."""
    return "".join(f"{line}\n" for line in _lines(text))


def _lines(text: str) -> Iterator[str]:
    trace: Trace | None = None
    for line in text.splitlines():
        told_lines: tuple[str, ...] = ()
        word, _, rest = line.partition(" ")
        if line.startswith(_INDENT):
            continue
        if word == "start":
            trace, first = Trace.started(rest)
            told_lines = first if "shown" in trace.settings else ()
        elif word == "given" and trace is not None:
            for each in rest.split("; "):
                told_lines += tuple(line for line in trace.follow(each) if line.startswith(_UNEXPECTED))
        elif word == ">" and trace is not None:
            if rest == "restart":
                assert trace.shown is not None
                trace, told_lines = Trace.over(trace.shown, trace.settings)
            else:
                told_lines = trace.follow(rest)
        elif line and not line.startswith("#"):
            raise ValueError(f"a trace has no line like {line!r}")
        yield line
        yield from (f"{_INDENT}{each}" for each in told_lines)


# The parts of messages


def _names(names: str) -> list[TableSchema]:
    return [schema(name) for name in names.split()]


def _tables(names: str) -> TableFilter:
    return TableFilter(tuple(re.escape(str(each.table)) for each in _names(names)))


def _place(text: str) -> Coordinates:
    file, _, offset = text.rpartition("/")
    return place(int(offset), int(file or 1))


def _high(text: str | None) -> High:
    if text is None:
        return place(10)
    if text.startswith("marker "):
        return MarkerRow(text.removeprefix("marker "))
    return gtids(text) if ":" in text else _place(text)


def _changes(text: str) -> list[list[builders.Image]]:
    return [_change(each) for each in text.split(", ") if each]


def _change(text: str) -> list[builders.Image]:
    found = re.fullmatch(r"(\w+) (\d+)(?: to (\d+))?(?: of (\S+))?", text)
    if found is None:
        raise ValueError(f"no change reads {text!r}")
    kind, key, to, name = found.groups()
    changed = schema(name or "orders")
    match kind:
        case "insert":
            return builders.insert(int(key), changed)
        case "delete":
            return builders.delete(int(key), changed)
        case "update":
            return builders.update(int(key), int(to) if to else None, changed)
        case _:
            raise ValueError(f"a row isn't changed by {kind!r}")


def _invalidated(text: str | None) -> tuple[MirrorInvalidated, ...]:
    """`emptying orders` or `invalidating orders`."""
    if not text:
        return ()
    kind, name = text.split()
    return (MirrorInvalidated(schema(name).table, "a statement changed it", emptied=kind == "emptying"),)


_MARKERS = {"open": OPEN_MARKER, "close": CLOSE_MARKER}


def _rows(text: str | None) -> tuple[signals.SourceSignal, ...]:
    """Rows of the signal table: `close m1, s1 execute-snapshot {...}`."""
    rows = []
    for each in (text or "").split(" and "):
        first, _, rest = each.partition(" ")
        kind, _, data = rest.partition(" ")
        if first in _MARKERS:
            rows.append(signals.SourceSignal(rest, _MARKERS[first], ""))
        elif each:
            rows.append(signals.SourceSignal(first, kind, data))
    return tuple(rows)


# Messages


def _passed(_: Trace, run: str, end: str, mirror: str | None, rows: str | None) -> ToWatermarkCoordinator:
    transactions = [
        builders.wrote(name, *_changes(changes))
        for name, _, changes in (each.partition(" ") for each in run.split(" + "))
    ]
    made = builders.passed(0, *transactions)
    return replace(made, end=_place(end), signals=_rows(rows), restarted=_invalidated(mirror))


def _part(_: Trace, name: str, changes: str | None) -> ToWatermarkCoordinator:
    return builders.part(name, *_changes(changes or ""))


def _statement(
    _: Trace, name: str, names: str | None, end: str, mirror: str | None
) -> ToWatermarkCoordinator:
    changed = builders.statement(name, 0, *_names(names or ""))
    return replace(changed, end=_place(end), restarted=_invalidated(mirror))


def _snapshot(
    _: Trace, signal_id: str, names: str, keys: str | None, condition: str | None, **options: str | None
) -> ToWatermarkCoordinator:
    wanted = _tables(names)
    signal = signals.ExecuteSnapshot(
        signal_id,
        wanted,
        () if condition is None else (signals.Filter(wanted, condition),),
        () if keys is None else (signals.KeyList(wanted, tuple((int(key),) for key in keys.split())),),
        options["along"],
        blocking=options["blocking"] is not None,
        chunk_rows=int(options["rows"]) if options["rows"] else None,
        priority=int(options["priority"] or 0),
    )
    return SignalReceived(signal)


def _planned(
    _: Trace, name: str, end: str | None, splits: str | None, high: str | None, walk: str | None
) -> ToWatermarkCoordinator:
    divided = map(int, splits.split()) if splits else ()
    made = builders.planned(schema(name), None if end is None else int(end), divided, _high(high))
    if walk is not None:
        made = replace(made, walk=ChunkIndex("by_value", (1,), (walk == "descending",), (None,)))
    return made


def _chunk(
    trace: Trace, number: str, keys: str, low: str | None, high: str | None, took: str | None
) -> ToWatermarkCoordinator:
    order = trace.chunk(number)
    found = [] if keys == "none" else [int(key) for key in keys.split()]
    made = builders.read(order, *found, high=_high(high), took=int(took or 1000))
    return replace(made, low=order.ordered_at if low is None else gtids(low))


def _chunk_outdated(
    trace: Trace, number: str, high: str | None, reason: str | None
) -> ToWatermarkCoordinator:
    chunk = trace.chunk(number).chunk
    why: Mapping[str, str] = {"reason": reason} if reason else {}
    return chunks.ChunkSchemaChanged(chunk, high=None if high is None else _high(high), **why)


def _opened(
    _: Trace, number: str, name: str | None, low: str | None, high: str | None
) -> ToWatermarkCoordinator:
    seen = gtids("a:1-5") if low is None else gtids(low)
    found = _high(high)
    assert isinstance(found, Coordinates)
    return chunks.ScanOpened(int(number), schema(name or "logs"), seen, found)


def _scanned(trace: Trace, number: str, keys: str, last: str | None) -> ToWatermarkCoordinator:
    order = next((each for each in trace.scanned if each.number == int(number)), None)
    if order is None:
        raise NotOrdered(f"no rows of scan {number} were ordered")
    found = [] if keys == "none" else [int(key) for key in keys.split()]
    return chunks.ScanRead(order.chunk, order.number, builders.rows(order.schema, found), last is not None)


_T, _PLACE, _NAME = r"[a-f](?:\S*)?:\S+", r"\d+(?:/\d+)?", r"[a-z]+(?:\+[a-z]+)?"
_NAMES = rf"{_NAME}(?: {_NAME})*?"
_MIRROR = r"(?:, (?P<mirror>(?:emptying|invalidating) [a-z]+))?"
_HIGH = r"(?:, high (?P<high>marker \S+|\S+?))?"

_MESSAGES: dict[str, Any] = {
    rf"passed (?P<run>.+?) up to (?P<end>{_PLACE}){_MIRROR}(?: with (?P<rows>.+))?": _passed,
    rf"part of (?P<name>{_T})(?: (?P<changes>.+))?": _part,
    rf"log at (?P<end>{_PLACE})": lambda _, end: LogAdvanced(_place(end)),
    rf"statement (?P<name>{_T})(?: on (?P<names>{_NAMES}))? up to (?P<end>{_PLACE}){_MIRROR}": _statement,
    rf"schema of (?P<name>{_NAME}) verified{_MIRROR}": lambda _, name, mirror: SchemasVerified(
        (schema(name),), _invalidated(mirror)
    ),
    rf"mirror of (?P<name>{_NAME}) (?P<how>invalidated|emptied)": lambda _, name, how: MirrorInvalidated(
        schema(name).table, "a statement changed it", emptied=how == "emptied"
    ),
    r"mirror data expired (?P<generations>.+)": lambda _, generations: MirrorDataExpired(
        {schema(n).table: int(s) for n, _, s in (each.partition("@") for each in generations.split())}
    ),
    rf"table (?P<name>{_NAME}) stopped: (?P<why>.+)": lambda _, name, why: TableStopped(
        schema(name).table, why
    ),
    rf"snapshot (?P<signal_id>\S+) of (?P<names>{_NAMES})(?P<blocking>, blocking)?(?:, priority (?P<priority>-?\d+))?"
    r"(?:, (?P<rows>\d+) rows a chunk)?(?:, along (?P<along>\w+))?(?:, keys (?P<keys>[\d ]+))?"
    r"(?:, where (?P<condition>.+))?": _snapshot,
    rf"stop (?P<signal_id>\S+) of (?P<names>{_NAMES})": lambda _, signal_id, names: SignalReceived(
        signals.StopSnapshot(signal_id, _tables(names))
    ),
    r"pause (?P<signal_id>\S+)": lambda _, signal_id: SignalReceived(signals.PauseSnapshot(signal_id)),
    r"resume (?P<signal_id>\S+)": lambda _, signal_id: SignalReceived(signals.ResumeSnapshot(signal_id)),
    r"log (?P<signal_id>\S+) (?P<text>.+)": lambda _, signal_id, text: SignalReceived(
        signals.ReportPosition(signal_id, text)
    ),
    r"move (?P<signal_id>\S+) to (?P<to>\S+)": lambda _, signal_id, to: SignalReceived(
        signals.SetBinlogPosition(signal_id, gtids(to))
    ),
    rf"recapture (?P<signal_id>\S+) of (?P<names>{_NAMES})": lambda _, signal_id, names: SignalReceived(
        signals.Recapture(signal_id, _tables(names))
    ),
    rf"planned (?P<name>{_NAME}) (?:through (?P<end>\d+)|empty)(?:, split at (?P<splits>[\d ]+))?"
    rf"{_HIGH}(?:, walk (?P<walk>ascending|descending))?": _planned,
    rf"plan of (?P<name>{_NAME}) failed: (?P<why>.+)": lambda _, name, why: chunks.PlanFailed(
        schema(name).table, why
    ),
    rf"chunk (?P<number>\d+) rows (?P<keys>none|[\d ]+)(?:, low (?P<low>\S+?))?{_HIGH}"
    r"(?:, took (?P<took>\d+))?": _chunk,
    r"chunk (?P<number>\d+) failed: (?P<why>.+)": lambda trace, number, why: chunks.ChunkFailed(
        trace.chunk(number).chunk, why
    ),
    rf"chunk (?P<number>\d+) outdated{_HIGH}(?:: (?P<reason>.+))?": _chunk_outdated,
    r"reading paused": lambda _: ReadingPaused(),
    r"journal full": lambda _: JournalFull("the disk is full"),
    r"journal has space": lambda _: JournalHasSpace(),
    r"chunks flushed through SCN (?P<scn>\d+)": lambda _, scn: ChunksFlushed(int(scn)),
    r"source overloaded: (?P<why>.+)": lambda _, why: chunks.SourceOverloaded(why),
    r"source recovered": lambda _: chunks.SourceRecovered(),
    rf"scan (?P<number>\d+) opened(?: of (?P<name>{_NAME}))?(?:, low (?P<low>\S+?))?{_HIGH}": _opened,
    r"scan (?P<number>\d+) rows (?P<keys>none|[\d ]+)(?P<last>, the last)?": _scanned,
    r"scan (?P<number>\d+) failed(?P<again>, again)?: (?P<why>.+)": lambda _, number, again, why: (
        chunks.ScanFailed(int(number), why, again is not None)
    ),
    rf"transactions (?P<number>\d+) opened at (?P<at>{_PLACE}) seeing (?P<seen>\S+)": (
        lambda _, number, at, seen: chunks.TransactionsOpened(int(number), _place(at), gtids(seen))
    ),
}
