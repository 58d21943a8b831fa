"""The three kinds of errors, decided where they arise and acted on by the supervisor.

    TidemarkError
    ├── Transient         about the world (a lost connection, a killed JVM): back off (`Backoff`) and start again
    ├── Definite          about the data or the set-up (purged binlog, missing grant): a retry can't help
    └── InvariantBroken   about Tidemark: a promise of this code doesn't hold, so stop and report all facts

Transient messages say what failed, in the past tense. Definite messages say what is wrong and what to do about it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

_Doing = TypeVar("_Doing")

_DOUBLINGS: Final = 64  # any longest pause is reached long before

# The remedy where a journal can't be continued. The lake refuses another journal, so a new one needs a new lake.
NEW_JOURNAL: Final = 'begin a new journal and a new lake (docs/operations.md, "Reading tables again")'


class TidemarkError(Exception):
    """The root of everything that Tidemark raises on purpose."""


class Transient(TidemarkError):
    """The world failed us for now; the supervisor restarts the part from the last sealed segment."""


class Definite(TidemarkError):
    """No retry can help; the pipeline stops with this text, which names what is wrong and what to do."""


class InvariantBroken(TidemarkError):
    """Something that this code promises doesn't hold; the process ends rather than emit a doubtful row."""


def expect(kind: type[_Doing], doing: object, fact: object) -> _Doing:
    """Returns what a machine does, which is of the kind that the fact answers. Raises InvariantBroken otherwise."""
    if isinstance(doing, kind):
        return doing
    raise InvariantBroken(f"{type(fact).__name__} came while {doing}")


def worst_error(errors: Iterable[BaseException]) -> BaseException:
    """Of errors that came together the one to act on: a broken invariant before all, and what may go by last."""
    return min(errors, key=_urgency)


def _urgency(error: BaseException) -> int:
    match error:
        case InvariantBroken():
            return 0
        case Definite():
            return 1
        case Transient():
            return 3
        case _:
            return 2


class UndecodableError(Definite):
    """Bytes of the log that are not what they have to be, or a kind of them that Tidemark doesn't read."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """The pauses after transient errors (s): `first_s`, each twice the one before, none longer than `longest_s`."""

    first_s: float
    longest_s: float

    def pause_s(self, tries: int) -> float:
        """Returns the pause after so many failed tries in a row, at least one."""
        return min(self.longest_s, self.first_s * 2.0 ** min(tries - 1, _DOUBLINGS))
