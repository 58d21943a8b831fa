"""The shortest history that still fails: steps are taken out, in halves and ever smaller pieces, while it does."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from tests.histories.statements import History, Sql, Step

# Of each of these histories, whether it fails; they may be played side by side.
Fails = Callable[[Sequence[History]], Sequence[bool]]
Steps = tuple[Step, ...]

MOST = 40


def shrunk(history: History, fails: Fails) -> History:
    """A history that fails and of which no step can be left out, unless that took more than MOST rounds of tries.

    The last rest stays, since nothing is judged without it.
    """
    rounds = 0

    def failing(candidates: Sequence[Steps]) -> list[Steps]:
        nonlocal rounds
        rounds += 1
        if rounds > MOST or not candidates:
            return []
        outcomes = fails([replace(history, steps=steps) for steps in candidates])
        return [steps for steps, failed in zip(candidates, outcomes, strict=True) if failed]

    steps, size = history.steps, max(1, len(history.steps) // 2)
    while True:
        shorter = _shorter(steps, size, failing)
        if shorter is not None:
            steps = shorter
        elif size > 1:
            size //= 2
        else:
            break
    return replace(history, steps=_fewer_rows(steps, failing))


def _shorter(steps: Steps, size: int, failing: Callable[[Sequence[Steps]], list[Steps]]) -> Steps | None:
    """The steps without the pieces of this size that don't matter; None if all of them do."""
    last = len(steps) - 1
    pieces = [range(at, min(at + size, last)) for at in range(0, last, size)]
    without = {tuple(_less(steps, piece)): piece for piece in pieces}
    found = failing(list(without))
    if len(found) > 1:
        gone = [place for each in found for place in without[each]]
        found = failing([tuple(_less(steps, gone))]) or found
    return found[0] if found else None


def _less(steps: Steps, gone: Sequence[int] | range) -> list[Step]:
    taken = set(gone)
    return [step for place, step in enumerate(steps) if place not in taken]


def _fewer_rows(steps: Steps, failing: Callable[[Sequence[Steps]], list[Steps]]) -> Steps:
    """The same with one row in each of its INSERTs, where it still fails."""
    for place, step in enumerate(steps):
        if not isinstance(step, Sql) or ") VALUES (" not in step.text or "), (" not in step.text:
            continue
        head, rows = step.text.split(") VALUES (", 1)
        parts = rows.split("), (")
        ways = [(f"{head}) VALUES ({part.removesuffix(')')})",) for part in parts]
        candidates = [
            (*steps[:place], *(replace(step, text=t) for t in way), *steps[place + 1 :]) for way in ways
        ]
        steps = next(iter(failing(candidates)), steps)
    return steps
