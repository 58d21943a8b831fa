"""The service in a hurry: what it does each hour, each day or each month comes after seconds.

    python -m tests.chaos.hurried EVERY run CONFIG

is `tidemark run CONFIG` whose changelogs are trimmed every so many seconds (EVERY). Its tables are vacuumed half as
often, of all that the newest version hasn't. It divides small tables as well. It remembers less, so that all that it
remembers is full soon. A second is calm enough for the next restart to come soon.
"""

import sys
import threading
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, Final

from actors import chunk_selector
from actors.lake import maintenance as upkeep
from actors.lake.delta.delta_table import DeltaTable
from actors.lake.maintenance import Upkeep
from actors.runtime import recent_events
from actors.runtime.supervisor import RestartLimits, Supervisor
from actors.service import assembly, cli
from pipeline.coordinator import handle_signals
from pipeline.coordinator.snapshots import ended_snapshots
from pipeline.lake.tables import maintenance
from pipeline.lake.tables import properties as lake_properties
from pipeline.signals import outcomes
from tests.servers.service import LEAST_ROWS_OF_RANGE

# So many signals, states of signals and ended snapshots it remembers.
SIGNALS: Final = 10
SNAPSHOTS: Final = 2
# After so many commits a log has a checkpoint, and with so many files the results of verifications are trimmed.
COMMITS: Final = 5
RESULTS: Final = 2


def _keep_no_file() -> None:
    """Have VACUUM leave nothing that isn't named: less than an hour is none to Delta, which counts whole ones.

    It mustn't meet a file then that's placed and not named yet.
    """
    maintenance.versions_h = lambda *_: 0.0
    one_at_a_time = threading.Lock()

    def alone(original: Callable[..., Any]) -> Any:
        @wraps(original)
        def called(*arguments: Any) -> Any:
            with one_at_a_time:
                return original(*arguments)

        return called

    DeltaTable.append = alone(DeltaTable.append)  # type: ignore[method-assign]
    Upkeep.vacuum = alone(Upkeep.vacuum)  # type: ignore[method-assign]


def hurry(trim_every_s: float, vacuum_every_s: float) -> None:
    """Have changelogs be trimmed and tables vacuumed as often, of all that the newest version hasn't."""
    maintenance.TRIM_EVERY_S = trim_every_s  # type: ignore[misc]
    maintenance.VACUUM_EVERY_S = maintenance.VACUUM_FIRST_S = vacuum_every_s  # type: ignore[misc]
    _keep_no_file()


def remember_less() -> None:
    """Have the service remember fewer signals, states, snapshots and events, and keep no file or result for days."""
    handle_signals.SIGNALS_REMEMBERED = outcomes.STATES_REMEMBERED = SIGNALS  # type: ignore[misc]
    ended_snapshots.SNAPSHOTS_REMEMBERED = SNAPSHOTS
    recent_events.MOST_EVENTS = SIGNALS  # type: ignore[misc]
    maintenance.CHECKPOINT_AFTER = COMMITS  # type: ignore[misc]
    upkeep.MANY_RESULTS = RESULTS  # type: ignore[attr-defined]
    upkeep.DAYS_OF_RESULTS = upkeep.CHANGELOG_VERSIONS_H = 0  # type: ignore[attr-defined]
    for properties in (*lake_properties._SETTINGS.values(), lake_properties.RESULTS):
        properties["delta.deletedFileRetentionDuration"] = "interval 0 hours"


def main() -> None:
    """Be in a hurry, then be the service."""
    every, *arguments = sys.argv[1:]
    chunk_selector.LEAST_ROWS_OF_RANGE = LEAST_ROWS_OF_RANGE  # type: ignore[misc]
    hurry(float(every), 2 * float(every))
    remember_less()
    vars(assembly)["Supervisor"] = partial(Supervisor, limits=RestartLimits(calm_s=1.0))
    cli.main(arguments)


if __name__ == "__main__":
    main()
