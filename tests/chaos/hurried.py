"""The service with maintenance in a hurry.

    python -m tests.chaos.hurried run CONFIG

is `tidemark run CONFIG` whose changelogs are trimmed each few seconds, and whose tables are vacuumed each half minute,
of what the newest version hasn't. It divides small tables as well.
"""

import sys
import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from actors import chunk_selector
from actors.lake.delta_table import DeltaTable
from actors.lake.maintenance import Upkeep
from actors.service import cli
from pipeline.lake import maintenance
from tests.servers.service import LEAST_ROWS_OF_RANGE

TRIM_EVERY_S: Final = 5.0
VACUUM_EVERY_S: Final = 30.0


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


def main() -> None:
    """Be in a hurry, then be the service."""
    chunk_selector.LEAST_ROWS_OF_RANGE = LEAST_ROWS_OF_RANGE  # type: ignore[misc]
    hurry(TRIM_EVERY_S, VACUUM_EVERY_S)
    cli.main(sys.argv[1:])


if __name__ == "__main__":
    main()
