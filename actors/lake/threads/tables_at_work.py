"""The lake tables to which work beside the batches may commit at this moment.

A commit that this process makes itself must not meet one of Delta's at the same table (`OwnLog`). A lock of Delta's
keeps them apart. To have it, Delta reads the table's log first. The lock isn't needed while no work beside the batches
is at the table:

1. Spark commits to a table of the service's lake for the service alone, while a batch is delivered, when the sink looks
   what the lake has, and in work beside the batches.
2. A batch is delivered to a table by one thread, and the sink looks at no table meanwhile (`pipeline.lake.step`). That
   thread makes one commit after the other, Spark's and its own.
3. So if no work is at the table, the thread that delivers knows that Spark commits nothing to it. Work that wants to
   begin waits until the commit has its name.
4. Who shows readers a first mirror that no change has touched makes one commit, and keeps batches from the mirror
   meanwhile (`Generations.complete`). So the same holds for that thread, and it doesn't count as work.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import Lock


@dataclass(slots=True)
class _Place:
    """A lake table: how many works are at it. `changing`: held while one begins or ends."""

    changing: Lock = field(default_factory=Lock)
    works: int = 0


class TablesAtWork:
    """Counts the works at each lake table, by its path."""

    def __init__(self) -> None:
        self._making = Lock()
        self._places: dict[str, _Place] = {}

    @contextmanager
    def work(self, paths: Iterable[str]) -> Iterator[None]:
        """Counts a work that may commit to these lake tables, until the block ends."""
        with ExitStack() as ends:
            for path in paths:
                place = self._place(path)
                with place.changing:
                    place.works += 1
                ends.callback(_end, place)
            yield

    @contextmanager
    def without(self, path: str) -> Iterator[bool]:
        """Yields whether no work is at a lake table. None begins or ends until the block does."""
        place = self._place(path)
        with place.changing:
            yield place.works == 0

    def _place(self, path: str) -> _Place:
        with self._making:
            return self._places.setdefault(path, _Place())


def _end(place: _Place) -> None:
    with place.changing:
        place.works -= 1
