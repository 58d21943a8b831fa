"""What came of a run, and of several."""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Final

from pipeline.messages.topology import GROUPS
from tests.chaos.orders import Event, Order, Strike, What
from tests.chaos.plan import Deed

# What may come and go while nothing happens: a connection that's being made, a thread of the pool for what blocks.
_COMES_AND_GOES: Final = 3
_POOLED: Final = frozenset({"thread asyncio"})
_GROUPS: Final = frozenset(group.name for group in GROUPS)

# The logger of what the event loop says.
_ASYNCIO: Final = '"logger": "asyncio"'

# From when until when the process had been stopped, by the clock of the events.
Standstill = tuple[float, float]


@dataclass
class Report:
    """`struck`: how often what happened. Times in seconds: of each actor how long it took until it was running again,
    and until it was found that it hangs; until the lag was small again after the last fault; of the whole run.
    `verified`: how often a table had which verdict.
    """

    seed: int
    struck: dict[str, int] = field(default_factory=dict)
    restarts_s: dict[str, list[float]] = field(default_factory=dict)
    hangs_found_s: list[float] = field(default_factory=list)
    recovered_s: float = 0.0
    lake_caught_up_s: float = 0.0
    took_s: float = 0.0
    changes: int = 0
    snapshots: dict[str, int] = field(default_factory=dict)
    verified: dict[str, int] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)

    def text(self) -> str:
        """As one line of JSON."""
        return json.dumps(asdict(self))


def percentile(values: Sequence[float], part: float) -> float:
    """The smallest value that so large a part isn't above; 0 if there are none."""
    ranked = sorted(values)
    return ranked[max(0, math.ceil(part * len(ranked)) - 1)] if ranked else 0.0


def hanging(events: Iterable[Event], given: Iterable[Order]) -> set[str]:
    """The actors that were made to hang, which nobody has noticed yet."""
    return set(_followed(events, given)[2])


def restarts(
    events: Iterable[Event], given: Iterable[Order], stood_still: Sequence[Standstill] = ()
) -> tuple[dict[str, list[float]], list[float]]:
    """Of each actor how long it took from a failure until it ran again, and how long until hangs were found.

    What a kill of the process came between isn't counted, nor where the group couldn't be built at first: then the
    source was away. While the process stood still it had no time.
    """
    its_own = (replace(event, at=event.at - _stood_still_before(event.at, stood_still)) for event in events)
    took, found, _ = _followed(its_own, given)
    return took, found


def _stood_still_before(at: float, stood_still: Sequence[Standstill]) -> float:
    """For how many seconds."""
    return sum(min(at, end) - begin for begin, end in stood_still if begin < at)


def _followed(
    events: Iterable[Event], given: Iterable[Order]
) -> tuple[dict[str, list[float]], list[float], dict[str, float]]:
    """How long restarts took and hangs lasted, and since when those last that do so still."""
    strikes = {order.number: order for order in given if isinstance(order, Strike)}
    since: dict[str, float] = {}
    hanging: dict[str, float] = {}
    took: defaultdict[str, list[float]] = defaultdict(list)
    found: list[float] = []
    for event in events:
        match event.what:
            case What.BEGAN:
                since, hanging = {}, {}
            case What.DONE if (strike := strikes.get(event.told["order"])) is not None:
                if strike.deed is Deed.HANG:
                    hanging[strike.actor] = event.at
                elif strike.deed in (Deed.RAISE, Deed.CANCEL):
                    since[strike.actor] = event.at
            case What.FAILED if (who := event.told["who"]) in hanging:
                found.append(event.at - hanging.pop(who))
                since[who] = event.at
            case What.FAILED if event.told["who"] in _GROUPS:
                since = {}
            case What.RUNNING:
                who = event.told["actor"]
                hanging.pop(who, None)  # unless it was found, it went with another one of its group
                if who in since:
                    took[who].append(event.at - since.pop(who))
            case _:
                pass
    return dict(took), found, hanging


def left_behind(before: dict[str, int], after: dict[str, int]) -> list[str]:
    """Of what there's more than before, and not just what comes and goes."""
    return [
        f"there were {before.get(what, 0)} of {what}, and now there are {number}"
        for what, number in after.items()
        if what not in _POOLED and number > before.get(what, 0) + _COMES_AND_GOES
    ]


def unhandled(log: str) -> list[str]:
    """What the event loop was told of, by the service's log: errors that nobody has handled."""
    return [f"nobody handled this: {line[:1000]}" for line in log.splitlines() if _ASYNCIO in line]


def together(reports: Sequence[Report]) -> Report:
    """All in one."""
    struck: Counter[str] = Counter()
    snapshots: Counter[str] = Counter()
    verified: Counter[str] = Counter()
    took: defaultdict[str, list[float]] = defaultdict(list)
    for report in reports:
        struck.update(report.struck)
        snapshots.update(report.snapshots)
        verified.update(report.verified)
        for actor, times in report.restarts_s.items():
            took[actor] += times
    return Report(
        seed=reports[0].seed,
        struck=dict(struck),
        restarts_s=dict(took),
        hangs_found_s=[found for report in reports for found in report.hangs_found_s],
        recovered_s=max(report.recovered_s for report in reports),
        lake_caught_up_s=max(report.lake_caught_up_s for report in reports),
        took_s=sum(report.took_s for report in reports),
        changes=sum(report.changes for report in reports),
        snapshots=dict(snapshots),
        verified=dict(verified),
        findings=[f"seed {report.seed}: {text}" for report in reports for text in report.findings],
    )
