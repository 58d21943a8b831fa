"""The shortest history that still fails: steps are taken out, in halves and ever smaller pieces, while it does."""

from collections.abc import Callable
from dataclasses import replace

from tests.histories.statements import History, Sql, Step

Fails = Callable[[History], bool]


def shrunk(history: History, fails: Fails, most: int = 120) -> History:
    """A history that fails and of which no step can be left out, unless that took more than `most` tries.

    The last rest stays, since nothing is judged without it.
    """
    tries = 0

    def still(steps: tuple[Step, ...]) -> bool:
        nonlocal tries
        tries += 1
        return tries <= most and fails(replace(history, steps=steps))

    steps = history.steps
    size = max(1, len(steps) // 2)
    while True:
        at, before = 0, steps
        while at < len(steps) - 1:
            shorter = steps[:at] + steps[min(at + size, len(steps) - 1) :]
            if still(shorter):
                steps = shorter
            else:
                at += size
        if size > 1:
            size //= 2
        elif steps == before or tries > most:
            break
    steps = _simpler(steps, still)
    return replace(history, steps=steps)


def _simpler(steps: tuple[Step, ...], still: Callable[[tuple[Step, ...]], bool]) -> tuple[Step, ...]:
    """The same with fewer rows in its INSERTs, where it still fails."""
    for place, step in enumerate(steps):
        if not isinstance(step, Sql) or ") VALUES (" not in step.text or "), (" not in step.text:
            continue
        head, rows = step.text.split(") VALUES (", 1)
        parts = rows.split("), (")
        while len(parts) > 1:
            fewer = parts[: len(parts) // 2]
            text = f"{head}) VALUES ({'), ('.join(fewer)}" + ("" if fewer[-1].endswith(")") else ")")
            candidate = (*steps[:place], replace(step, text=text), *steps[place + 1 :])
            if not still(candidate):
                break
            steps, parts = candidate, fewer
    return steps
