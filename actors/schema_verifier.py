"""The SchemaVerifier: names columns, as `pipeline.verifier.step` proves them.

After a statement that may have altered a table, it queries the server for the table again, while messages continue to
come.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from actors.runtime.actor import Actor, Sender
from actors.runtime.mailbox import Mailbox
from actors.runtime.measuring import contain_errors
from actors.runtime.metrics import Metrics
from actors.runtime.tasks import broken_off
from pipeline import metrics as catalogue
from pipeline.messages import topology
from pipeline.messages.changes import ChangesVerified, MirrorInvalidated, SchemaChanged, SchemasVerified
from pipeline.messages.inboxes import ToSchemaVerifier, ToWatermarkCoordinator
from pipeline.schema.table_schema import TableId
from pipeline.verifier import step as schema_verifier
from pipeline.verifier.schema_fence import ServerAnswer
from pipeline.verifier.signal_table import SignalRows, divert_signals
from pipeline.verifier.state import FromVerifier, State
from pipeline.verifier.step import AskServer, Fact, Order

log = structlog.get_logger()


class SchemaVerifier(Actor[ToSchemaVerifier]):
    """Owns the known schema of each table; `state` and `news` are the results of `step.start`.

    `ask` queries the server for tables (`preflight.query_tables`); its errors end the actor. `signals` is the signal
    table, if there is one.
    """

    name = topology.ActorName.SCHEMA_VERIFIER

    def __init__(
        self,
        mailbox: Mailbox[ToSchemaVerifier],
        metrics: Metrics,
        state: State,
        orders: tuple[Order, ...],
        coordinator: Sender[ToWatermarkCoordinator],
        ask: Callable[[frozenset[TableId]], Coroutine[Any, Any, ServerAnswer]],
        signals: SignalRows | None = None,
    ) -> None:
        super().__init__(mailbox, metrics)
        self._ask = ask
        self._asking: asyncio.Task[ServerAnswer] | None = None
        self._signals = signals
        self._state = state
        self._first_orders = orders
        self._coordinator = coordinator

    async def begin(self) -> None:
        """Sends the schemas that are new at the start."""
        await self._perform(self._first_orders)

    def ended(self) -> bool:
        """No sender waits for an answer once no message is left."""
        return self._drained

    async def handle(self, message: ToSchemaVerifier) -> None:
        """Verify, then pass on."""
        await self._take_in(message)

    async def release(self) -> None:
        """Wait for no answer any more; what waits for one will come again."""
        if self._asking is not None:
            self._asking.cancel()
            await broken_off(self._asking)

    def status(self) -> dict[str, Any]:
        """Returns what is known of each table's schema, and the tables for which the server's answer is awaited.

        It also says why signals in the signal table aren't read, null if they are.
        """
        asked = schema_verifier.tables_to_ask(self._state) | self._state.survey.answers.keys()
        tables = {str(table): state.wire for table, state in self._state.tables.items()}
        unread = None if self._signals is None else self._signals.problem
        return {"tables": tables, "asked": sorted(map(str, asked)), "unread_signals": unread}

    async def _take_in(self, fact: Fact) -> None:
        self._state, orders = schema_verifier.step(self._state, fact)
        await self._perform(orders)

    async def _perform(self, orders: tuple[Order, ...]) -> None:
        for order in orders:
            if isinstance(order, AskServer):
                self._asking = self.begin_work(self._ask(order.tables), self._take_in)
            else:
                await self._send(order)

    async def _send(self, verified: FromVerifier) -> None:
        self._measure(verified)
        told: FromVerifier | None = verified
        if self._signals is not None:
            before, (self._signals, told) = self._signals, divert_signals(self._signals, verified)
            if self._signals.problem not in (None, before.problem):
                table, reason = str(self._signals.table), self._signals.problem
                log.error("the signal table can't be read", table=table, reason=reason)
        if told is not None:
            await self.send(self._coordinator, told)

    @contain_errors
    def _measure(self, message: FromVerifier) -> None:
        match message:
            case SchemaChanged(_, tables, restarted=restarted):
                for table in tables & self._state.tables.keys():
                    self.metrics.count(catalogue.SCHEMA_CHANGES, table=str(table))
                for each in restarted:
                    self._measure(each)
            case ChangesVerified(restarted=restarted) | SchemasVerified(restarted=restarted):
                for each in restarted:
                    self._measure(each)
            case MirrorInvalidated(table, reason=reason):
                self.metrics.count(catalogue.TABLE_RESTARTS, table=str(table))
                log.warning("the table's mirror begins a new generation", table=str(table), reason=reason)
            case _:
                pass
