"""Which alerts a webhook gets, and when: something of capture or delivery has stopped.

A *trouble* is seen in the service's status as long as it lasts, and is one alert. A part of the service that isn't
ready is a trouble once that has lasted for `DOWN_S`. What a retry mends in the meantime is none.

**At least once.** An alert waits until the webhook has taken it, and its id is the same each time. `state.to_json` has
what waits and what was posted, so a restart continues with both. A trouble that was posted is not posted again, until
it was gone for `GONE_S`. Statuses are incomplete while the service starts, so it isn't forgotten sooner.

**In order, unless one is refused.** Then the next one has its turn: the webhook may refuse only that one, for what it
says. The refused one comes again after one that was taken, or after all.

**Bounded.** The oldest is given up if `MOST` wait. So is one that has waited for `KEEP_S`, unless its trouble lasts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, assert_never

from pipeline.errors import Backoff
from pipeline.signals.alerts.state import Alert, AlertKind, State, Trouble

# In s, but for the number of alerts.
DOWN_S: Final = 120.0
GONE_S: Final = 300.0
KEEP_S: Final = 86_400.0
MOST: Final = 100
POST_BACKOFF: Final = Backoff(1.0, 60.0)


@dataclass(frozen=True, slots=True)
class StatusSeen:
    """A look at the service: its troubles, and of each actor that isn't ready the reason."""

    troubles: tuple[Trouble, ...]
    down: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ServiceEnded:
    """The service has ended for this reason, and not because it was told to."""

    reason: str


@dataclass(frozen=True, slots=True)
class AlertTaken:
    """The webhook has taken the alert that was posted."""


@dataclass(frozen=True, slots=True)
class AlertRefused:
    """It hasn't."""


Fact = StatusSeen | ServiceEnded | AlertTaken | AlertRefused


@dataclass(frozen=True, slots=True)
class PostAlert:
    """Post this alert."""

    alert: Alert


@dataclass(frozen=True, slots=True)
class KeepAlerts:
    """Store the state, so that a restart has it."""


@dataclass(frozen=True, slots=True)
class ReportLost:
    """Log that this alert is given up."""

    alert: Alert


Order = PostAlert | KeepAlerts | ReportLost


def step(state: State, fact: Fact, now: float) -> tuple[State, tuple[Order, ...]]:
    """Returns the state after a fact, and the orders that follow; `now` in s since the epoch."""
    match fact:
        case StatusSeen(troubles, down):
            after = _see(state, troubles, down, now)
        case ServiceEnded(reason):
            ended = Trouble(AlertKind.SERVICE_ENDED, "service", "service", reason)
            after = replace(state, waiting=(*state.waiting, Alert(ended, now)), tries=0, next_at=now)
        case AlertTaken():
            waiting = tuple(each for each in state.waiting if each != state.posting)
            after = replace(state, waiting=waiting, tries=0, next_at=now, posting=None)
        case AlertRefused():
            tries = state.tries + 1
            after = replace(state, tries=tries, next_at=now + POST_BACKOFF.pause_s(tries), posting=None)
        case _:
            assert_never(fact)
    after, lost = _bounded(after, now)
    orders: tuple[Order, ...] = tuple(map(ReportLost, lost))
    if (after.waiting, after.seen.keys()) != (state.waiting, state.seen.keys()):
        orders = (*orders, KeepAlerts())
    # No pause is longer, unless the clock was set back.
    due = after.next_at <= now or after.next_at > now + POST_BACKOFF.longest_s
    if after.waiting and after.posting is None and due:
        next_ = after.waiting[after.tries % len(after.waiting)]
        return replace(after, posting=next_), (*orders, PostAlert(next_))
    return after, orders


def _see(state: State, troubles: tuple[Trouble, ...], down: Mapping[str, str], now: float) -> State:
    # No look was later than this one, unless the clock was set back.
    spells = {
        name: (min(since, now), min(last, now))
        for name, (since, last) in state.down.items()
        if now - last < DOWN_S
    }
    spells |= {name: (spells.get(name, (now, now))[0], now) for name in down}
    lasting = (
        Trouble(AlertKind.PART_DOWN, name, name, reason)
        for name, reason in down.items()
        if now - spells[name][0] >= DOWN_S
    )
    found = (*troubles, *lasting)
    new = {each.key: Alert(each, now) for each in found if each.key not in state.seen}
    seen = {key: min(at, now) for key, at in state.seen.items() if now - at < GONE_S} | {
        each.key: now for each in found
    }
    return replace(state, seen=seen, waiting=(*state.waiting, *new.values()), down=spells)


def _bounded(state: State, now: float) -> tuple[State, tuple[Alert, ...]]:
    """Returns the state without the alerts that are given up, and these. One that is being posted stays."""
    rest = [alert for alert in state.waiting if alert != state.posting]
    lasting = {key for key, at in state.seen.items() if now - at < GONE_S}
    kept = [alert for alert in rest if now - alert.at < KEEP_S or alert.trouble.key in lasting][-MOST:]
    lost = tuple(alert for alert in rest if alert not in kept)
    return replace(state, waiting=tuple(each for each in state.waiting if each not in lost)), lost
