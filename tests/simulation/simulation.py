"""Random interleavings of a modelled server, the real rules of capture, and crashes, judged at each step.

One seed is one run, always the same. What's real: the steps of the SchemaVerifier and of the WatermarkCoordinator, and
what the journal makes of appends. What's modelled: the server, the reader of its log, the selector, and the lake. The
judge (`tests.simulation.judge`) says what has to hold.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random

from pipeline.config.settings import SnapshotMode
from pipeline.coordinator import step as coordinator
from pipeline.coordinator.resume import first_checkpoint, resume_checkpoint
from pipeline.coordinator.state import Order, State, WindowMode
from pipeline.gtid.gtid_set import GtidSet
from pipeline.gtid.transactions import Transactions
from pipeline.gtid.witness import Witness
from pipeline.journal import segment as journal
from pipeline.journal.segment import OpenTransactionRows
from pipeline.messages.binlog import PauseReading, ResumeReading
from pipeline.messages.changes import ChangesVerified
from pipeline.messages.chunks import (
    CloseTransactions,
    OpenTransactions,
    PlanTable,
    ReadChunk,
    RepairRows,
    SourceOverloaded,
    SourceRecovered,
)
from pipeline.messages.inboxes import ToWatermarkCoordinator
from pipeline.messages.journal import (
    Append,
    AppendRows,
    ChunkPart,
    ChunksFlushed,
    JournalFull,
    JournalHasSpace,
)
from pipeline.messages.signals import SignalAccepted, SignalReceived
from pipeline.schema.known_schemas import KnownSchemas
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.signals.signal import (
    ExecuteSnapshot,
    PauseSnapshot,
    Recapture,
    ResumeSnapshot,
    Signal,
    SourceSignal,
    StopSnapshot,
    VerifyTables,
)
from pipeline.snapshot.checkpoint import Checkpoint
from pipeline.snapshot.snapshot import Repairing
from pipeline.verifier import step as schema_verifier
from pipeline.verifier.schema_fence import ServerAnswer
from pipeline.verifier.state import State as Verifier
from tests.pipeline.verifier.answers import told
from tests.simulation.coverage import Coverage
from tests.simulation.judge import Judge
from tests.simulation.lake import Violation
from tests.simulation.operator import SHOP, wanted
from tests.simulation.orders import judge_order, judge_pause, judge_resume, judge_room
from tests.simulation.reader import Reader
from tests.simulation.replica import Replica
from tests.simulation.selector import Selector
from tests.simulation.server import Server, gtid_set
from tests.simulation.sink import Segments, Sink
from tests.simulation.story import Story
from tests.simulation.topics import Topics
from tests.simulation.views import Lost
from tests.simulation.waiting import Waiting
from tests.simulation.world import Does, Reads, World, drawn


class Failed(AssertionError):
    """A seed broke a promise, or capture broke; the text is what happened in it."""


def run(seed: int, mode: WindowMode | None = None) -> "Simulation":
    """The run of this seed. Raises Failed with its story."""
    simulation = Simulation(seed, drawn(seed, mode))
    try:
        simulation.run()
    except Exception as error:
        raise Failed(f"seed {seed}, {simulation.world}:\n{simulation.story}\n{error}") from error
    return simulation


class Refused(Exception):
    """Capture stops by name: the server isn't the one whose history has passed."""


class Simulation:
    """One run: the server and the journal, which last, and what runs until the next crash (`_boot`)."""

    state: State
    verifier: Verifier
    reader: Reader
    selector: Selector
    unfinished: OpenTransactionRows
    unwritten: int | None
    strained: bool
    full: bool
    question: frozenset[TableId]
    asking: GtidSet | tuple[frozenset[TableId], GtidSet, Mapping[TableId, TableSchema]] | None

    def __init__(self, seed: int, world: World) -> None:
        self.random, self.timing = Random(seed), Random(f"timing {seed}")
        self.writing = Random(f"writing {seed}")
        self.starting = Random(f"starting {seed}")
        self.world = world
        self.story = Story()
        self.reached: Counter[str] = Counter()
        self.server = Server(self.random, world, self.story)
        self.replica = Replica(self.server, self.random) if world.reads is Reads.REPLICA else None
        self.sent: list[Signal] = []
        known = self._look_at_tables()
        self.judge = Judge(self.server, self._with_initial_witnesses(first_checkpoint(known)))
        self.sealed = self.judge.record.copy()
        self.segments = Segments()
        self.sink = Sink(self.segments, self.random, self.story, self.reached)
        self.topics = Topics(self.segments, Random(f"topics {seed}"), self.story, self.reached)
        self.waiting = Waiting(self.server, self.sink, Random(f"waiting {seed}"), self.reached)
        self._boot(known)

    def run(self) -> None:
        """Let everything happen in random order, then let it come to rest, and judge the end."""
        try:
            self._run()
        except Refused as refused:
            self.story.tell(refused)
            self.reached["the same GTIDs again were refused"] += 1

    def _run(self) -> None:
        actions: dict[Does, Callable[[], None]] = {
            Does.WRITE: self.server.write,
            Does.WRITE_HOT_ROW: self.server.write_hot_row,
            Does.ALTER: self.alter,
            Does.COMMIT: self.server.commit_one,
            Does.EXECUTE: self.server.execute_one,
            Does.READ_LOG: self.read_log,
            Does.SELECT: self.select,
            Does.SEAL: self.seal,
            Does.CRASH: self.crash,
            Does.SIGNAL: self.signal,
            Does.ROTATE: self.server.rotate,
            Does.STRAIN: self.strain,
            Does.FILL: self.fill,
            Does.STRAY: self.server.stray,
            Does.REPLICATE: self._replicate,
            Does.LEAD_ELSEWHERE: self.lead_elsewhere,
            Does.DELIVER: self.deliver,
            Does.SWAP: self.swap,
            Does.RECAPTURE: self.recapture,
        }
        chosen = self.random.choices(
            list(self.world.weights), list(self.world.weights.values()), k=self.world.steps
        )
        for i, does in enumerate(chosen):
            if i == self.world.begins * 10:
                self.send(ExecuteSnapshot("first", SHOP))
            actions[does]()
            self._begin_again()
        self._settle()

    # What can happen

    def alter(self) -> None:
        """A statement about a table."""
        if statement := self.server.alter():
            self.coverage.altered(statement, self.state, self.selector)

    def swap(self) -> None:
        """A table is renamed away, or another one takes its name."""
        if statement := self.server.swap():
            self.coverage.swapped(statement)
            self.coverage.altered(statement, self.state, self.selector)

    def read_log(self) -> None:
        """Give the verifier what comes next of the log, and the coordinator what follows from it."""
        if not self._answered():
            return
        message = self.reader.read()
        if message is None:
            return
        self.verifier, verified = schema_verifier.step(self.verifier, message)
        self._hear(verified)

    def _answered(self) -> bool:
        """Ask the server for what the verifier wants to know: the executed set, then schemas, then the log's end.

        It isn't where the connection for that leads to another server: then capture begins anew.
        """
        tables = self.question
        match self.asking:
            case None if tables and self.selector.elsewhere:
                self.crash()
                return False
            case None if tables:
                self.asking = self.server.executed
            case GtidSet() as at if self.random.random() < 0.5:
                self.asking = tables, at, self.server.schemas
            case (asked, at, schemas) if self.random.random() < 0.5:
                self.asking, self.question = None, frozenset()
                self.story.tell(
                    "the server has the schemas of", *sorted(asked), "behind", at, "up to", self.server.end
                )
                answer = ServerAnswer(asked, schemas, at, self.server.end)
                self.verifier, verified = schema_verifier.step(self.verifier, answer)
                self._hear(verified)
            case _:
                pass
        return True

    def _hear(self, orders: Sequence[schema_verifier.Order]) -> None:
        """Give the coordinator what the verifier said, one after the other; time passes in between as well."""
        for order in orders:
            if isinstance(order, schema_verifier.AskServer):
                self.question = order.tables
        for i, each in enumerate(told(orders)):
            if i and self.timing.random() < 0.2:
                self.seal()
            self.give(each)

    def select(self) -> None:
        """Get on with one of the selector's orders by one step."""
        if self.selector.idle and not self.selector.views:
            self.server.write()
        else:
            self._select()

    def _select(self) -> None:
        if self.unwritten is not None and self.writing.random() < 0.5:
            scn, self.unwritten = self.unwritten, None
            self.give(ChunksFlushed(scn))
        try:
            if answer := self.selector.go_on():
                self.give(answer)
        except Lost as lost:
            self.story.tell("capture begins anew, since", str(lost))
            self.crash()

    def lead_elsewhere(self) -> None:
        """From now on the source's address leads to another server of its history, which is behind."""
        if self.selector.elsewhere is None:
            self.selector.elsewhere = Replica(self.server, self.random)
            for _ in range(self.random.randrange(2 * len(self.server.log) + 1)):
                self.selector.elsewhere.go_on()

    def signal(self) -> None:
        """Ask for a snapshot, a stop, a pause or a resume; or send a signal once more."""
        if self.sent and self.random.random() < 0.25:
            signal = self.random.choice(self.sent)
            self.coverage.repeated(signal, self.state)
            self.give(SignalReceived(signal))
        else:
            self.send(wanted(f"s{len(self.sent)}", self.server.tables[0], self.world, self.random))

    def verify(self, *, repair: bool = True) -> None:
        """Ask for a verification of all tables, unless one is under way."""
        snapshots = self.state.checkpoint.snapshots
        if self.world.verifies and not any(s.verification for s in snapshots if not s.ended):
            rows = self.random.choice((None, 1, 3))
            self.send(VerifyTables(f"v{len(self.sent)}", SHOP, chunk_rows=rows, repair=repair))

    def recapture(self) -> None:
        """Ask that tables be captured again, whether they have stopped or not."""
        stopped = self.state.checkpoint.stopped
        tables = SHOP if self.random.random() < 0.2 else TableFilter(tuple(t.dotted for t in stopped))
        if tables.patterns:
            self.reached["a stopped table was recaptured"] += bool(stopped)
            self.send(Recapture(f"s{len(self.sent)}", tables))

    def _begin_again(self) -> None:
        """The journal has what only a start can do."""
        if self.sealed.checkpoint.to_be_resumed:
            self.crash()

    def strain(self) -> None:
        """The source has enough to do, or has room again."""
        self.strained = not self.strained
        self.give(SourceOverloaded("many threads run") if self.strained else SourceRecovered())

    def fill(self) -> None:
        """The journal has no room, or has it again."""
        self.full = not self.full
        self.give(JournalFull("its quota is reached") if self.full else JournalHasSpace())

    def _replicate(self) -> None:
        for each in (self.replica, self.selector.elsewhere):
            if each:
                each.go_on()

    def send(self, signal: Signal) -> None:
        """A new signal comes."""
        self.sent.append(signal)
        self.give(SignalReceived(signal))

    def seal(self) -> None:
        """Make what was appended durable."""
        self.story.tell("sealed up to", self.judge.record.checkpoint.position)
        self.sealed = self.judge.record.copy()
        self.waiting.ask()
        self.segments.seal(self.sealed.lake)
        self.waiting.sealed()

    def deliver(self) -> None:
        """The journal's two readers go on."""
        self.verify(repair=self.timing.random() < 0.7)
        self.waiting.ask()
        if self.world.tampers and self.timing.random() < 0.3:
            self.sink.tamper()
        self.sink.go_on()
        self.take_report()
        self.topics.go_on()

    def take_report(self) -> None:
        """Give the coordinator what the sink has reported last."""
        if (report := self.sink.report) is not None and self.timing.random() < 0.7:
            self.sink.report = None
            self.give(report)

    def crash(self) -> None:
        """Lose all but what's sealed, and start again from there."""
        self.story.tell("crash; what's sealed is up to", self.sealed.checkpoint.position)
        emitted = self.judge.record.emitted != self.sealed.emitted
        self.coverage.crashed(self.state, self.sealed.checkpoint, emitted)
        self.judge.record = self.sealed.copy()
        self.segments.lose()
        self.sink.report = None
        self.selector.close()
        if self.selector.elsewhere or (self.world.moves and self.random.random() < 0.5):
            self.reached["another server took over"] += 1
            self.server.take_over()
        if self.world.loses_tail and self.random.random() < 0.5:
            self.server.lose_tail()
        if self.world.purges and self.random.random() < 0.5:
            self.server.purge()
        self.server.close_gaps()
        self._look_at_history()
        self._boot(self._look_at_tables())

    def give(self, message: ToWatermarkCoordinator) -> None:
        """One step of the real coordinator."""
        self.story.tell(message)
        if isinstance(message, ChangesVerified):
            message = replace(message, signals=tuple(self._markers_in(message.transactions)))
        before = self.state
        self.state, orders = coordinator.step(before, message)
        self.coverage.stepped(before, message, self.state)
        judge_pause(self.state)
        self._perform(orders)

    def _markers_in(self, run: Transactions) -> Iterator[SourceSignal]:
        """The rows of the signal table; the actor takes them out of the log beside its tables."""
        for i in range(len(run)):
            if marker := self.server.by_gtid[run.gtid(i)].marker:
                yield marker

    # The machinery

    def _boot(self, known: KnownSchemas) -> None:
        sealed, snapshot_mode = self.judge.record.checkpoint, self.world.snapshot_mode
        purged = self.server.purged - gtid_set(self.server.strays)
        checkpoint = resume_checkpoint(sealed, known, purged, SnapshotMode.WHEN_NEEDED)
        self.judge.started(sealed, known)
        if checkpoint is not sealed and not (sealed.recapturing and checkpoint.position == sealed.position):
            self.reached["began anew behind a purged log"] += 1
            checkpoint = checkpoint if checkpoint.witnesses else self._with_initial_witnesses(checkpoint)
            self.judge.moved(checkpoint)
        self.coverage = Coverage(self.reached, self.server)
        self.reader = Reader(self.server, checkpoint.position, self.world, self.random)
        self.selector = Selector(self.server, self.replica, self.world, self.random, self.story, self.reached)
        self.unfinished = OpenTransactionRows()
        self.unwritten = None
        self.asking = None
        self.question = frozenset()
        self.strained = self.full = False
        self.verifier, news = schema_verifier.start(
            SHOP,
            known,
            checkpoint,
            foreign_keys=self.server.foreign_keys,
            keeps=SHOP,
        )
        self.state, orders = coordinator.start(checkpoint, self.world.limits, self.world.mode, snapshot_mode)
        self._perform(orders)
        self._hear(news)

    def _with_initial_witnesses(self, checkpoint: Checkpoint) -> Checkpoint:
        """Nothing of its position has passed. The last transaction of each source is looked up in the log."""
        there = [each for each in self.server.log if each.gtid in checkpoint.position - self.server.purged]
        last = {each.gtid.source: each for each in sorted(there, key=lambda each: each.gtid.number)}
        witnesses = tuple(Witness(each.gtid, each.time, 0) for each in last.values())
        return replace(checkpoint, witnesses=witnesses)

    def _look_at_tables(self) -> KnownSchemas:
        """Look at the tables twice. The server may rename a column in between, and undo that behind its GTIDs."""
        table = self.server.add_column() if self.starting.random() < 0.2 else None
        looked, at = self.server.schemas, self.server.executed
        if table:
            self.server.rename_column(table, f"renamed{len(self.server.log)}")
            self.server.come_to_rest()
            at = self.server.executed
            self.server.write()
            self.server.come_to_rest()
            self.server.rename_column(table, looked[table].columns[-1].name)
        return KnownSchemas(looked, at, end=self.server.end)

    def _look_at_history(self) -> None:
        """Compare the last transactions of each source that have passed with the server's. Raises Refused."""
        if not self.server.lost:
            return
        last = self.judge.record.checkpoint
        lost = {gtid for gtid in self.server.lost if gtid in last.position}
        refused = not last.position <= self.server.executed
        for witness in last.witnesses:
            there = self.server.by_gtid.get(witness.gtid)
            refused |= there is not None and witness.differs(Witness(witness.gtid, there.time, 0), True)
        if refused and not lost:
            raise Violation("the server is refused, and has all that has passed")
        if refused:
            raise Refused("the server has another history")
        if lost:
            raise Violation(f"capture goes on though these are other transactions: {sorted(map(str, lost))}")
        self.server.lost.clear()

    def _perform(self, orders: tuple[Order, ...]) -> None:
        for order in orders:
            match order:
                case PlanTable():
                    self.story.tell("plan asked for:", order.table)
                    self.selector.take(order)
                case ReadChunk() | RepairRows():
                    judge_order(order, self.state, paused=self.judge.record.paused, stands=self.reader.paused)
                    judge_room(order, strained=self.strained, full=self.full)
                    self.story.tell("window opened:", order.chunk, "at", order.ordered_at)
                    self.selector.take(order)
                case OpenTransactions() | CloseTransactions():
                    self.story.tell(order)
                    self.selector.take(order)
                case PauseReading(at):
                    self.reader.pause(at)
                case ResumeReading():
                    judge_resume(self.state, full=self.full)
                    self.reader.resume()
                case AppendRows():
                    self.unfinished = journal.add_rows(self.unfinished, order)
                case Append():
                    whole = journal.end_transaction(self.unfinished, order)
                    self.unfinished = OpenTransactionRows()
                    self._append(whole)

    def _append(self, append: Append) -> None:
        for part in append.parts:
            self.story.tell(part)
            if isinstance(part, ChunkPart):
                self.unwritten = part.scn
        if append.alterations:
            self.seal()  # which begin a segment
        self.judge.take(append)
        self.segments.append(append)
        for answer in append.answers:
            if isinstance(answer, SignalAccepted) and "again" not in answer.detail:
                self._took_effect(answer.id)

    def _took_effect(self, id_: str) -> None:
        if id_ in self.judge.record.effects:
            raise Violation(f"the signal {id_} has taken effect twice")
        self.judge.record.effects.add(id_)
        match next(signal for signal in self.sent if signal.id == id_):
            case PauseSnapshot():
                self.judge.record.paused = True
            case ResumeSnapshot():
                self.judge.record.paused = False
            case StopSnapshot(_, tables):
                self.judge.stopped(tables)
            case _:
                pass

    def _settle(self) -> None:
        """Everything becomes visible and is read; only one writer goes on without end."""
        self.seal()
        if self.selector.elsewhere or self.sealed.checkpoint.to_be_resumed:
            self.crash()
        if self.full:
            self.fill()
        self.send(ResumeSnapshot("last"))
        self.verify()
        # A transaction has to end before, and what it waits for.
        while "last" not in self.judge.record.effects:
            self.selector.calm = True
            self.server.come_to_rest()
            if self.reader.paused:
                self._select()
            self.read_log()
        self.seal()
        if self.strained:
            self.strain()
        # Far more than it takes: with one window at a time and a writer without end, a chunk takes a hundred of these.
        for _ in range(10_000):
            self._let_all_be_seen()
            self._repair()
            if self._writes_without_end():
                self.server.write_hot_row()
            self._select()
            self.read_log()
            if self.reader.done and self._rested():
                break
        else:
            raise Violation(f"snapshots never end: {self.state}")
        if self.world.verifies:
            self._verify_at_rest()
        self.server.come_to_rest()
        while self.reader.at < len(self.server.log) or self.verifier.held:
            self.read_log()
        self.judge.judge_end()
        self.seal()
        self.sink.finish()
        self.topics.finish()
        self.waiting.finish()

    def _let_all_be_seen(self) -> None:
        self.selector.calm = True
        self.server.come_to_rest()
        for replica in (self.replica, self.selector.elsewhere):
            if replica:
                replica.catch_up()

    def _verify_at_rest(self) -> None:
        """A verification of all tables, beside which a few rows change, and the lake is merged."""
        self.seal()
        self.sink.finish()
        for _ in range(5 if self.world.tampers else 0):
            self.sink.tamper()
        self.verify()
        for round_ in range(10_000):  # after a crash the whole log is read again
            if round_ < 30 or (round_ < 100 and self._repairing()):
                self.server.write()
                self.seal()
                self.sink.go_on()
            if round_ < 100 and self._repairing() and self.timing.random() < 0.05:
                self.crash()
            self._let_all_be_seen()
            self._repair()
            self._select()
            self.read_log()
            if self.reader.done and self._rested():
                break
        else:
            raise Violation(f"a verification never ends: {self.state}")
        self.seal()
        self.sink.finish()
        self.sink.judge_repaired()

    def _repairing(self) -> bool:
        return any(
            isinstance(state, Repairing)
            for snapshot in self.state.checkpoint.snapshots
            for state in snapshot.tables.values()
        )

    def _repair(self) -> None:
        """The sink gets on, if a verification waits for it."""
        if self._repairing():
            self.seal()
            self.sink.go_on()
            self.take_report()

    def _writes_without_end(self) -> bool:
        """A row whose key itself rises with each write, within a range, may be met by each of its chunks."""
        table = self.server.tables[0]
        moves = table in self.server.gone or len(self.server.schemas[table].key) > 1
        disturbs = not self.world.locks and any(
            each.consistent and not each.ended for each in self.state.checkpoint.snapshots
        )
        hot = bool(self.world.weights[Does.WRITE_HOT_ROW])
        return hot and not moves and not disturbs and not self._rested()

    def _rested(self) -> bool:
        return all(snapshot.ended for snapshot in self.state.checkpoint.snapshots)
