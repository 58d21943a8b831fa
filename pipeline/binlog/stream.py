"""Turns the log as it comes into slices and statements, in its order.

**Two paths, one fold.** `parse` takes the usual events in compiled code. It folds each other one into the same state in
Python (`TransactionAssembler`). A transaction's payload is unpacked here, a small one together with the next ones, and
its events take the same paths.
"""

from collections.abc import Callable, Iterable, Iterator

from pipeline.binlog.event_buffer import Frames
from pipeline.binlog.events import event as events
from pipeline.binlog.events.payload_event import Payload, unpacked
from pipeline.binlog.fast_path.events import parse_events
from pipeline.binlog.fast_path.payload_runs import PayloadRun, find_run, is_payload
from pipeline.binlog.slice import SliceBound
from pipeline.binlog.stream_state import BEGUN, DONE, FULL, NO_ROOM, RARE
from pipeline.binlog.transaction_assembler import Given, TransactionAssembler
from pipeline.binlog.transaction_ids import TransactionNames
from pipeline.errors import Definite, UndecodableError
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import NO_GTIDS, GtidSet
from pipeline.messages.binlog import (
    CreateTableSelectRead,
    DdlRead,
    LogAdvanced,
    TransactionPartRead,
    TransactionsRead,
)
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.prepared_xa import XaPrepared

# What a slice and what else is given become.
LogMessage = TransactionsRead | TransactionPartRead | DdlRead | CreateTableSelectRead | LogAdvanced

_PAYLOADS_END = "the end of a compressed transaction's payload"


class LogStream:
    """Takes the log's events (`parse`) and makes messages of them; `take` returns the complete ones without waiting.

    `captured` says which tables' rows are wanted, `captures_in` whether there can be such a table in a database. The
    log is requested from `position`, which matters if that's one of files and offsets (`pipeline.gtid.file_positions`).
    `prepared`: the XA transactions that were waiting for their second phase there. The first event is one that the
    server makes up for the connection (a ROTATE). It has a checksum if the replica says that it can read one, and ours
    always does. The format description says the format of the following ones.

    After an error the stream is unusable.
    """

    def __init__(
        self,
        captured: Callable[[TableId], bool],
        captures_in: Callable[[str], bool],
        bound: SliceBound | None = None,
        position: GtidSet = NO_GTIDS,
        prepared: Iterable[XaPrepared] = (),
        keeps_statements: bool = False,
    ) -> None:
        self._assembler = TransactionAssembler(
            captured,
            captures_in,
            bound or SliceBound(),
            TransactionNames(position),
            prepared,
            keeps_statements,
        )

    @property
    def prepared(self) -> tuple[XaPrepared, ...]:
        """The XA transactions that wait for their second phase."""
        return self._assembler.prepared

    def take(self) -> list[Given]:
        """Returns everything complete: statements, a slice of what passed since, and without one the log's progress."""
        self._assembler.cut()
        self._assembler.give_progress()
        return self._assembler.given()

    @property
    def between(self) -> Coordinates | None:
        """Where the stream is, if that's between two transactions."""
        return self._assembler.between

    def reached(self, coordinates: Coordinates) -> bool:
        """Returns whether the stream is between two transactions, at or after these coordinates."""
        between = self.between
        return between is not None and between.reaches(coordinates)

    def parse(self, frames: Frames) -> Iterator[Given]:
        """Takes these events, and yields what they fill or end. Exhaust it.

        Raises UndecodableError, with its position in the log, if an event can't be read or followed.
        """
        try:
            yield from self._parse(frames)
        except Definite as error:
            raise UndecodableError(f"{error} ({self._assembler.position_text()})") from error

    def _parse(self, frames: Frames) -> Iterator[Given]:
        at = 0
        while at < len(frames):
            status, at = self._parse_usual(frames, at)
            match status:
                case _ if status == RARE:
                    small = self._run(frames, at)
                    if small is None:
                        yield from self._take_in(frames.event(at))
                        at += 1
                    else:
                        yield from self._take_run(small.frames)
                        at += small.taken
                case _ if status == NO_ROOM:
                    start, end = frames.bounds[at]
                    self._assembler.make_room(int(end - start))
                case _ if status == FULL:
                    self._assembler.relieve()
                    yield from self._assembler.given()
                case _:
                    assert status == DONE

    def _parse_usual(self, frames: Frames, at: int) -> tuple[int, int]:
        assembler = self._assembler
        if not assembler.placed:
            return RARE, at
        return parse_events(
            frames.buffer,
            frames.bounds,
            at,
            assembler.state.record,
            assembler.sources.encoded,
            assembler.maps.known,
            assembler.explained,
            assembler.slice.rows,
        )

    def _take_in(self, event: bytes) -> Iterator[Given]:
        head = events.header(event)
        this = events.parse_event(head, event, checksum=self._assembler.state.checksum_bytes != 0)
        self._assembler.advance(head)
        del event  # a payload is worth having only once while it's unpacked
        if isinstance(this, Payload):
            yield from self._unpack(this)
        else:
            self._assembler.take_in(this)
        yield from self._assembler.given()

    def _run(self, frames: Frames, at: int) -> PayloadRun | None:
        state = self._assembler.state
        if state.phase != BEGUN or state.within or not is_payload(frames, at):
            return None
        return find_run(frames, at, state.checksum_bytes)

    def _take_run(self, frames: Frames) -> Iterator[Given]:
        """Take the events of a run of payloads, the last of which is the rest of its transaction."""
        state = self._assembler.state
        checksum_bytes = state.checksum_bytes
        state.checksum_bytes = 0
        yield from self._parse(frames)
        state.checksum_bytes = checksum_bytes
        self._assembler.require_between(_PAYLOADS_END)

    def _unpack(self, payload: Payload) -> Iterator[Given]:
        """Take the events of a payload, which is the rest of its transaction."""
        state = self._assembler.state
        if state.phase != BEGUN or state.within:
            raise UndecodableError("a compressed transaction came where there can't be one")
        checksum_bytes = state.checksum_bytes
        state.within, state.checksum_bytes = 1, 0
        for frames in unpacked(payload):
            yield from self._parse(frames)
        state.within, state.checksum_bytes = 0, checksum_bytes
        self._assembler.require_between(_PAYLOADS_END)
