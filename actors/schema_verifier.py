"""The SchemaVerifier: gives columns their names, as `pipeline.schema_verifier` proves them."""

from typing import Any

from actors.actor import Actor, Outlet
from actors.mailbox import Mailbox
from actors.metrics import Metrics
from pipeline import metrics as catalogue
from pipeline import schema_verifier, topology
from pipeline.messages import SchemaChanged, TableStopped, ToSchemaVerifier, ToWatermarkCoordinator
from pipeline.schema_verifier import FromVerifier, News, State, Stopped


class SchemaVerifier(Actor[ToSchemaVerifier]):
    """Owns what's known of each table's schema; `state` and `news` are what `schema_verifier.started` gave."""

    name = topology.Actor.SCHEMA_VERIFIER

    def __init__(
        self,
        mailbox: Mailbox[ToSchemaVerifier],
        metrics: Metrics,
        state: State,
        news: tuple[News, ...],
        coordinator: Outlet[ToWatermarkCoordinator],
    ) -> None:
        super().__init__(mailbox, metrics)
        self._state = state
        self._news = news
        self._coordinator = coordinator

    async def run(self) -> None:
        """Tell what's new at the start, then take messages."""
        for table, state in self._state.tables.items():
            if isinstance(state, Stopped):
                self.metrics.set(catalogue.TABLE_STOPPED, 1, table=str(table))
        await self._tell(self._news)
        await super().run()

    async def handle(self, message: ToSchemaVerifier) -> None:
        """Verify, then pass on."""
        self._state, verified = schema_verifier.step(self._state, message)
        await self._tell(verified)

    def status(self) -> dict[str, Any]:
        """What is known of each table's schema."""
        return {
            "tables": {
                str(table): type(state).__name__.lower() for table, state in self._state.tables.items()
            }
        }

    async def _tell(self, verified: tuple[FromVerifier, ...]) -> None:
        for each in verified:
            self._measure(each)
            await self.send(self._coordinator, each)

    def _measure(self, message: FromVerifier) -> None:
        match message:
            case SchemaChanged(_, tables):
                for table in tables & self._state.tables.keys():
                    self.metrics.count(catalogue.SCHEMA_CHANGES, table=str(table))
            case TableStopped(table):
                self.metrics.set(catalogue.TABLE_STOPPED, 1, table=str(table))
            case _:
                pass
