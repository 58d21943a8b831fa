"""A small world for row images that lack columns: a source with one table, its log, the coordinator, and a reader.

Dice decide everything that can vary: what's written and with which columns in its images, how far the stream lags, what
a SELECT sees and what the watermarks are, crashes. The reader knows only the journal, and follows the rule in
`pipeline.lake.live_view`.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pipeline.coordinator import step as coordinator
from pipeline.coordinator.chunk_size import ChunkLimits
from pipeline.coordinator.state import Order, Overlapping, Pausing, State
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet
from pipeline.gtid.transactions import Transactions
from pipeline.journal.change_rows import META, chunk_table
from pipeline.messages import chunks
from pipeline.messages.binlog import LogAdvanced, PauseReading, ReadingPaused, ResumeReading
from pipeline.messages.changes import ChangesVerified, TransactionPartVerified
from pipeline.messages.inboxes import ToWatermarkCoordinator
from pipeline.messages.journal import Append, AppendRows, ChangePart, ChunkPart
from pipeline.messages.row_images import IMAGE_FIELDS, ImageKind, TableChanges
from pipeline.snapshot import reselect_keys
from pipeline.snapshot.checkpoint import Checkpoint, Filling
from pipeline.snapshot.chunk_index import ChunkIndex
from tests.pipeline.builders import (
    COMMIT_TIME,
    change_table,
    execute,
    gtid,
    gtids,
    lacks,
    place,
    primary_index,
    table,
)

TABLE = table("partial", "id", "a", "b")
NAMES = ("a", "b")
KEYS = range(1, 9)

Row = tuple[int, int]  # a and b
Rows = dict[int, Row]


@dataclass(frozen=True)
class Image:
    """A row image: the values that it has, by name."""

    kind: ImageKind
    given: dict[str, int]


class World:
    """One run. `surrogate`: the snapshot walks along column a. `mode`: how windows and the stream go together."""

    def __init__(self, seed: int, surrogate: bool = False) -> None:
        self.dice = random.Random(seed)
        self.surrogate = surrogate
        self.log: list[list[Image]] = []
        self.states: list[Rows] = [{key: (key * 10, key) for key in KEYS if self.dice.random() < 0.7}]
        self.values = 1000
        self.appends: list[Append] = []
        self.kept: list[ChangePart | ChunkPart] = []
        self.read: dict[int, tuple[ChangePart | ChunkPart, list[dict[str, Any]]]] = {}
        self.sealed = 0
        self.ordered: list[chunks.ReadChunk | chunks.ReadByKeys] = []
        self.mode = Pausing() if self.dice.random() < 0.2 else Overlapping(self.dice.randrange(1, 4))
        self.begin(Checkpoint(gtids("a:1-5"), schemas={TABLE.table: TABLE}))
        self.give(execute("s1", TABLE, surrogate="a" if surrogate else None))
        self.sealed = len(self.appends) - 1

    # The source

    def commit(self) -> None:
        """A transaction of a few changes, with whole images or with as little as may be."""
        rows, images = dict(self.states[-1]), []
        for _ in range(self.dice.randrange(1, 4)):
            images += self.change(rows, full=self.dice.random() < 0.2)
        self.log.append(images)
        self.states.append(rows)

    def change(self, rows: Rows, full: bool) -> list[Image]:
        key = self.dice.choice(KEYS)
        written = {name: self.value() for name in NAMES if self.dice.random() < 0.5}
        if key not in rows:
            rows[key] = (
                written.get("a", self.value()),
                written.get("b", self.value()),
            )  # the rest by default
            return [Image(ImageKind.INSERT, whole(key, rows[key]) if full else {"id": key, **written})]
        before = rows[key]
        if self.dice.random() < 0.25:
            del rows[key]
            return [Image(ImageKind.DELETE, whole(key, before) if full else {"id": key})]
        after = (written.get("a", before[0]), written.get("b", before[1]))
        free = [other for other in KEYS if other not in rows]
        to = self.dice.choice(free) if free and self.dice.random() < 0.2 else key
        if after == before and to == key:
            return []
        del rows[key]
        rows[to] = after
        return [
            Image(ImageKind.UPDATE_BEFORE, whole(key, before) if full else {"id": key}),
            Image(ImageKind.UPDATE_AFTER, whole(to, after) if full else {"id": to, **written}),
        ]

    def value(self) -> int:
        self.values += 1
        return self.values if not self.surrogate else self.dice.randrange(1, 10**6)

    # The coordinator

    def begin(self, checkpoint: Checkpoint) -> None:
        """A start, with the keys that the journal has."""
        limits = ChunkLimits(chunk_rows=2, chunk_us=1000, connections=2)
        self.pending: list[chunks.PlanTable | chunks.ReadChunk | chunks.ReadByKeys] = []
        self.paused = False
        self.within: list[Image] = []
        self.passed = checkpoint.position.count() - 5
        unread = {t: self.unread(scn) for t, scn in checkpoint.unread.items()}
        self.state: State
        self.state, orders = coordinator.start(checkpoint, limits, self.mode, unread=unread)
        self.kept = []
        self.take(orders)
        self.give(LogAdvanced(self.end(self.passed)))

    def unread(self, scn: int) -> pa.RecordBatch:
        """What a start finds in the changes files."""
        batches = [reselect_keys.no_keys(TABLE)]
        for part in self.parts():
            if isinstance(part, ChangePart):
                rows = change_table(1, part).select([*reselect_keys.NEEDED, *TABLE.key_names])
                found = reselect_keys.keys_after(TABLE, rows, scn)
                assert found is not None
                batches.append(found)
        return pa.concat_batches(batches)

    def give(self, message: ToWatermarkCoordinator) -> None:
        self.state, orders = coordinator.step(self.state, message)
        self.take(orders)

    def take(self, orders: Iterable[Order]) -> None:
        for order in orders:
            match order:
                case chunks.PlanTable() | chunks.ReadChunk() | chunks.ReselectRows() | chunks.RepairRows():
                    self.pending.append(order)
                    self.ordered += [] if isinstance(order, chunks.PlanTable) else [order]
                case AppendRows(parts):
                    self.kept += parts
                case Append(parts, checkpoint):
                    self.appends.append(Append((*self.kept, *parts), checkpoint))
                    self.kept = []
                case PauseReading():
                    self.paused = True
                    self.give(ReadingPaused())
                case ResumeReading():
                    self.paused = False
                case _:
                    raise AssertionError(order)

    def act(self, most: int) -> None:
        """Something happens; the log gets no longer than `most`."""
        what = self.dice.random()
        if what < 0.35 and len(self.log) < most:
            self.commit()
        elif what < 0.65:
            self.flow()
        elif what < 0.95 and self.pending:
            self.answer(self.pending.pop(self.dice.randrange(len(self.pending))))
        elif what > 0.965:
            self.crash()

    def flow(self) -> None:
        """The stream advances, perhaps by a part of a transaction."""
        if self.paused or self.passed == len(self.log):
            return
        number = self.passed + 1
        if not self.within and self.dice.random() < 0.2 and len(self.log[self.passed]) > 1:
            self.within = self.log[self.passed][:1]
            if self.within[0].kind is ImageKind.UPDATE_BEFORE:
                self.within = self.log[self.passed][:2]
            changes = (changed([(0, 0, self.within)]),)
            self.give(TransactionPartVerified(gtid(f"a:{number + 5}"), COMMIT_TIME, changes))
            return
        through = min(len(self.log), self.passed + self.dice.randrange(1, 4))
        run = Transactions.of((gtid(f"a:{n + 5}"), COMMIT_TIME) for n in range(number, through + 1))
        begun = len(self.within)
        several = [(0, begun, self.log[self.passed][begun:])]
        several += [(n - number, 0, self.log[n - 1]) for n in range(number + 1, through + 1)]
        self.passed, self.within = through, []
        self.give(ChangesVerified(run, (changed(several),), self.end(through)))

    def answer(self, order: chunks.PlanTable | chunks.ReadChunk | chunks.ReadByKeys) -> None:
        """A SELECT sees all of low, and nothing after high; low is any usable set."""
        asked = order.ordered_at.count() - 5
        seen = self.dice.randrange(asked, len(self.log) + 1)
        low: GtidSet = order.ordered_at
        for number in range(asked + 1, seen + 1):
            if self.dice.random() < 0.5:
                low = low.with_gtid(gtid(f"a:{number + 5}"))
        high = self.end(self.dice.randrange(seen, len(self.log) + 1))
        rows = self.states[seen]
        if isinstance(order, chunks.PlanTable):
            last = (
                max((self.at(key, row) for key, row in rows.items()), default=None) if order.ranges else None
            )
            ranges = chunks.WithoutRows() if last is None else chunks.TableRanges((last,), (), 7)
            self.give(
                chunks.TablePlanned(TABLE, self.walk(), ranges if order.ranges else chunks.NotDivided(), high)
            )
        elif isinstance(order, chunks.ReselectRows) and self.dice.random() < 0.1:
            self.give(chunks.ChunkFailed(order.chunk, "Lock wait timeout exceeded", again=True))
        elif isinstance(order, chunks.ReadByKeys):
            wanted = order.keys.column(0).to_pylist()
            found = {key: row for key, row in rows.items() if key in wanted}
            self.give(chunks.ChunkRead(order.chunk, low, arrow(found), None, high, 1000, 100, len(found)))
        else:
            after, end = (key[0] if key else 0 for key in (order.after, order.end))
            assert isinstance(after, int)
            assert isinstance(end, int)
            ahead = [(self.at(key, row), key) for key, row in rows.items()]
            chosen = sorted(each for each in ahead if after < each[0] <= end)[: order.limit]
            upto = (chosen[-1][0],) if len(chosen) == order.limit else None
            found = {key: rows[key] for _, key in chosen}
            self.give(chunks.ChunkRead(order.chunk, low, arrow(found), upto, high, 1000, 100, len(found)))

    def at(self, key: int, row: Row) -> int:
        """Where the row is in the snapshot's walk."""
        return row[0] if self.surrogate else key

    def walk(self) -> ChunkIndex:
        return ChunkIndex("a", (1,), (False,), (None,)) if self.surrogate else primary_index(TABLE)

    def crash(self) -> None:
        """What isn't sealed is lost, and capture continues from what is."""
        self.sealed = self.dice.randrange(self.sealed, len(self.appends))
        del self.appends[self.sealed + 1 :]
        self.begin(self.appends[-1].checkpoint)

    def end(self, number: int) -> Coordinates:
        return place(10 + 10 * number)

    def settle(self) -> None:
        """Nothing more is written, and all that's under way comes to its end."""
        for _ in range(2000):
            if self.passed < len(self.log) or self.within:
                self.flow()
            if self.pending:
                self.answer(self.pending.pop(0))
            if (
                self.passed == len(self.log)
                and not self.pending
                and not self.paused
                and not self.state.windows
            ):
                return
        raise AssertionError("it doesn't come to an end")

    # The reader

    def parts(self) -> list[ChangePart | ChunkPart]:
        return [part for append in self.appends for part in append.parts]

    def rows(self, part: ChangePart | ChunkPart) -> list[dict[str, Any]]:
        """The part's rows as a file of the journal has them."""
        if id(part) not in self.read:
            rows = change_table(1, part) if isinstance(part, ChangePart) else chunk_table(1, part)
            self.read[id(part)] = part, rows.to_pylist()
        return self.read[id(part)][1]

    def live(self) -> Rows:
        """Returns the rows that a reader sees: each completely known, and hidden otherwise."""
        since = self.state.checkpoint.mirrors[TABLE.table].since
        mirror: dict[int, dict[str, Any]] = {}
        stories: dict[int, list[dict[str, Any]]] = {}
        for append in self.appends:
            filled = append.checkpoint.mirrors.get(TABLE.table, Filling(0)).since == since
            for part in append.parts:
                if isinstance(part, ChunkPart) and part.first:
                    for row in self.rows(part) if filled else []:
                        assert row["id"] not in mirror
                        mirror[row["id"]] = row
                    continue
                for row in self.rows(part):
                    if row["__scn"] > since:
                        stories.setdefault(row["id"], []).append(row)
        known = {key: told(mirror.get(key), stories.get(key, [])) for key in mirror.keys() | stories.keys()}
        return {key: (row["a"], row["b"]) for key, row in known.items() if row is not None}


def told(base: dict[str, Any] | None, story: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Returns the row from a mirror's row and the changes after it, None if there's none or it isn't known."""
    row = base
    for change in story:
        given = {
            k: v for k, v in change.items() if k not in META.names and k not in (change["__absent"] or ())
        }
        match change["__op"]:
            case "d":
                row = {}
            case "u":
                row = {**(row or {}), **given}
            case _:
                row = given
    return row if row is not None and row.keys() >= {"id", *NAMES} else None


def whole(key: int, row: Row) -> dict[str, int]:
    return {"id": key, "a": row[0], "b": row[1]}


def arrow(rows: Rows) -> pa.RecordBatch:
    """Rows as a chunk has them."""
    return pa.RecordBatch.from_pylist([whole(key, row) for key, row in rows.items()], TABLE.arrow)


def changed(transactions: Iterable[tuple[int, int, list[Image]]]) -> TableChanges:
    """Images by the index of their transaction, from an ordinal on."""
    found = [(t, o, i) for t, begin, images in transactions for o, i in enumerate(images, begin)]
    absent = [lacks(TABLE, {"id", *NAMES} - image.given.keys()) for _, _, image in found]
    images = pa.RecordBatch.from_pylist(
        [
            {"kind": int(i.kind), "transaction": t, "ordinal": o, "absent": bitmap}
            for (t, o, i), bitmap in zip(found, absent, strict=True)
        ],
        IMAGE_FIELDS,
    )
    return TableChanges.unshared(
        TABLE, images, pa.RecordBatch.from_pylist([i.given for _, _, i in found], TABLE.arrow)
    )
