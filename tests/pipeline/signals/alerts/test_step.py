"""Alerts: once for each trouble, until the webhook has taken it, and again only when it comes back."""

import json
from collections.abc import Iterable
from dataclasses import replace

from pipeline.signals.alerts import state as alert_state
from pipeline.signals.alerts import step as alerts
from pipeline.signals.alerts.state import Alert, AlertKind, State, Trouble, interrupted
from pipeline.signals.alerts.step import (
    DOWN_S,
    GONE_S,
    KEEP_S,
    MOST,
    POST_BACKOFF,
    AlertRefused,
    AlertTaken,
    KeepAlerts,
    PostAlert,
    ReportLost,
    ServiceEnded,
    StatusSeen,
)

STOPPED = Trouble(AlertKind.TABLE_STOPPED, "shop.orders", "capture", "its engine")


class Story:
    """The state, and what was posted; the webhook takes what it is given, or refuses it."""

    def __init__(self) -> None:
        self.state, self.now, self.takes = State(), 1000.0, True
        self.refuses = ""  # a subject
        self.posted: list[Alert] = []
        self.lost: list[Alert] = []
        self.kept = 0

    def after(self, fact: alerts.Fact, seconds: float = 0.0) -> None:
        self.now += seconds
        facts = [fact]
        while facts:
            self.state, orders = alerts.step(self.state, facts.pop(), self.now)
            for order in orders:
                match order:
                    case PostAlert(alert):
                        self.posted.append(alert)
                        taken = self.takes and alert.trouble.subject != self.refuses
                        facts.append(AlertTaken() if taken else AlertRefused())
                    case ReportLost(alert):
                        self.lost.append(alert)
                    case KeepAlerts():
                        self.kept += 1

    def seen(self, *troubles: Trouble, seconds: float = 1.0, down: Iterable[str] = ()) -> None:
        self.after(StatusSeen(troubles, dict.fromkeys(down, "no answer")), seconds)

    def restart(self) -> None:
        """Forget all but what is stored."""
        self.state = alert_state.from_json(json.loads(json.dumps(alert_state.to_json(self.state))), self.now)


def test_a_trouble_is_posted_once_and_again_when_it_has_come_back() -> None:
    story = Story()
    story.seen()
    assert (story.posted, story.kept) == ([], 0)
    story.seen(STOPPED)
    assert [each.trouble for each in story.posted] == [STOPPED]
    story.seen(replace(STOPPED, reason="said otherwise"))
    story.restart()
    story.seen()  # nothing is known yet
    story.seen(STOPPED)
    assert len(story.posted) == 1
    story.seen(seconds=GONE_S)
    story.seen(STOPPED)
    assert len(story.posted) == 2
    first, second = (each.document("shop")["id"] for each in story.posted)
    assert first != second


def test_what_is_refused_is_posted_again_with_the_same_id_after_pauses_and_a_restart() -> None:
    story = Story()
    story.takes = False
    story.seen(STOPPED)
    assert len(story.posted) == 1
    story.seen(STOPPED, seconds=POST_BACKOFF.first_s / 2)
    assert len(story.posted) == 1
    for _ in range(10):
        story.seen(STOPPED, seconds=POST_BACKOFF.longest_s)
    assert len(story.posted) == 11
    story.restart()
    story.takes = True
    story.seen(STOPPED)
    story.seen(STOPPED, seconds=POST_BACKOFF.longest_s)
    assert len(story.posted) == 12
    assert len({each.document("shop")["id"] for each in story.posted}) == 1


def test_an_alert_that_the_webhook_refuses_holds_no_other_up() -> None:
    story = Story()
    story.refuses = "shop.t0"
    troubles = [replace(STOPPED, subject=f"shop.t{number}") for number in range(5)]
    story.seen(*troubles)
    for _ in range(5):
        story.seen(*troubles, seconds=POST_BACKOFF.pause_s(1))
    posted = [each.trouble.subject for each in story.posted]
    assert [each for each in posted if each != "shop.t0"] == [f"shop.t{number}" for number in range(1, 5)]
    assert [each.trouble for each in story.state.waiting] == troubles[:1]
    story.refuses = ""
    story.seen(*troubles, seconds=POST_BACKOFF.longest_s)
    assert story.state.waiting == ()
    assert len({each.document("shop")["id"] for each in story.posted}) == 5


def test_a_webhook_that_is_gone_for_days_has_the_longest_pause() -> None:
    alert = Alert(STOPPED, 1.0)
    state = State(waiting=(alert,), tries=5000, posting=alert)
    after, _ = alerts.step(state, AlertRefused(), 9.0)
    assert after.next_at == 9.0 + POST_BACKOFF.longest_s


def test_a_clock_that_is_set_back_holds_no_alert_up() -> None:
    story = Story()
    story.takes = False
    story.seen(STOPPED, down=["lake"])
    story.takes = True
    story.seen(STOPPED, seconds=-500.0, down=["lake"])
    assert [alert.trouble for alert in story.posted] == [STOPPED, STOPPED]
    story.seen(STOPPED, seconds=DOWN_S / 2, down=["lake"])
    story.seen(STOPPED, seconds=DOWN_S / 2, down=["lake"])
    assert story.posted[-1].trouble.subject == "lake"


def test_what_stops_again_after_the_clock_was_set_back_is_posted_again() -> None:
    """It was seen at a time that comes once more."""
    story = Story()
    story.seen(STOPPED, down=["lake"])
    story.seen(seconds=-10_000.0)
    story.seen(seconds=GONE_S)
    story.seen(STOPPED, seconds=9_000.0, down=["lake"])
    assert [alert.trouble for alert in story.posted] == [STOPPED, STOPPED]
    story.seen(STOPPED, seconds=DOWN_S - 1, down=["lake"])
    assert len(story.posted) == 2, "the lake was well in between"


def test_an_attempt_that_was_broken_off_is_made_again() -> None:
    state, orders = alerts.step(State(), StatusSeen((STOPPED,), {}), 1.0)
    assert [type(order) for order in orders] == [KeepAlerts, PostAlert]
    state, orders = alerts.step(state, StatusSeen((STOPPED,), {}), 2.0)
    assert orders == ()
    _, orders = alerts.step(interrupted(state), StatusSeen((STOPPED,), {}), 3.0)
    assert isinstance(orders[0], PostAlert)


def test_a_part_that_is_down_is_one_once_that_has_lasted_whatever_flickers() -> None:
    story = Story()
    story.seen(down=["SparkSink"])
    story.seen(down=["SparkSink"], seconds=DOWN_S - 1)
    story.seen()
    assert story.posted == []
    story.seen(down=["SparkSink"])
    (alert,) = story.posted
    assert alert.trouble == Trouble(AlertKind.PART_DOWN, "SparkSink", "SparkSink", "no answer")
    other = Story()
    other.seen(down=["SparkSink"])
    other.seen(seconds=DOWN_S)
    other.seen(down=["SparkSink"], seconds=DOWN_S - 1)
    assert other.posted == []


def test_alerts_that_nobody_takes_are_bounded_in_number_and_time() -> None:
    story = Story()
    story.takes = False
    for number in range(MOST + 5):
        story.seen(replace(STOPPED, subject=f"shop.t{number}"), seconds=0.01)
    assert [each.trouble.subject for each in story.lost] == [f"shop.t{number}" for number in range(5)]
    assert len(story.state.waiting) == MOST
    story.seen(seconds=KEEP_S)
    assert len(story.lost) == MOST + 5
    assert story.state.waiting == ()


def test_an_alert_is_posted_however_late_the_webhook_is_mended_if_its_trouble_lasts() -> None:
    story, other = Story(), replace(STOPPED, subject="shop.items")
    story.takes = False
    story.seen(STOPPED, other)
    for _ in range(5):
        story.seen(STOPPED, seconds=KEEP_S / 2)
    assert [each.trouble for each in story.lost] == [other], "it was over before anybody was told"
    story.restart()
    story.takes, story.posted = True, []
    story.seen(STOPPED)
    assert [(each.trouble, each.at) for each in story.posted] == [(STOPPED, 1001.0)]


def test_the_end_of_the_service_comes_last_and_at_once() -> None:
    story = Story()
    story.takes = False
    story.seen(STOPPED)
    story.takes = True
    story.after(ServiceEnded("the binlog was purged"))
    assert [each.trouble.kind for each in story.posted][-2:] == [
        AlertKind.TABLE_STOPPED,
        AlertKind.SERVICE_ENDED,
    ]
