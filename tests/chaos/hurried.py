"""The service with maintenance in a hurry.

    python -m tests.chaos.hurried run CONFIG

is `tidemark run CONFIG` whose changelogs are trimmed each few seconds, and whose tables are vacuumed each half minute,
of what no version has had for a minute. It divides small tables as well.
"""

import sys
from typing import Final

from actors import chunk_selector, cli
from pipeline import maintenance
from tests.servers.service import LEAST_ROWS_OF_RANGE

TRIM_EVERY_S: Final = 5.0
VACUUM_EVERY_S: Final = 30.0
VERSIONS_H: Final = 1 / 60


def main() -> None:
    """Be in a hurry, then be the service."""
    chunk_selector.LEAST_ROWS_OF_RANGE = LEAST_ROWS_OF_RANGE  # type: ignore[misc]
    maintenance.TRIM_EVERY_S = TRIM_EVERY_S  # type: ignore[misc]
    maintenance.VACUUM_EVERY_S = maintenance.VACUUM_FIRST_S = VACUUM_EVERY_S  # type: ignore[misc]
    maintenance.versions_h = lambda *_: VERSIONS_H
    cli.main(sys.argv[1:])


if __name__ == "__main__":
    main()
