"""What's counted of a run."""

import json

from pipeline.messages.topology import ActorName
from tests.chaos.orders import Event, Strike, What
from tests.chaos.plan import Deed
from tests.chaos.report import Report, hanging, left_behind, percentile, restarts, together, unhandled

READER, SINK = ActorName.BINLOG_READER, ActorName.SPARK_SINK
GIVEN = [Strike(0, READER, Deed.RAISE), Strike(1, SINK, Deed.HANG), Strike(2, READER, Deed.CANCEL)]


def done(number: int, at: float) -> Event:
    return Event(What.DONE, at, {"order": number})


def failed(who: str, at: float) -> Event:
    return Event(What.FAILED, at, {"who": who})


def running(actor: ActorName, at: float) -> Event:
    return Event(What.RUNNING, at, {"actor": actor})


def test_a_restart_takes_from_the_failure_until_the_actor_runs() -> None:
    events = [done(0, 10.0), failed(READER, 10.1), done(1, 11.0), running(READER, 12.0)]
    events += [failed(SINK, 14.0), running(SINK, 15.0), running(SINK, 20.0)]
    assert restarts(events, GIVEN) == ({READER: [2.0], SINK: [1.0]}, [3.0])


def test_what_the_world_held_up_is_not_counted() -> None:
    assert restarts([done(0, 1.0), failed("capture", 2.0), running(READER, 9.0)], GIVEN) == ({}, [])
    assert restarts([done(2, 1.0), Event(What.BEGAN, 2.0, {}), running(READER, 9.0)], GIVEN) == ({}, [])


def test_a_process_that_stands_still_has_no_time() -> None:
    """Before it nothing changes, in it what's left of it, behind it all of it."""
    events = [done(1, 11.0), failed(SINK, 23.0), running(SINK, 24.5)]
    assert restarts(events, GIVEN, [(1.0, 2.0), (12.0, 15.0), (24.0, 24.25)]) == ({SINK: [1.25]}, [9.0])
    assert restarts(events, GIVEN, [(24.0, 30.0)]) == ({SINK: [1.0]}, [12.0])


def test_a_hang_that_went_with_another_actors_failure_is_not_taken_for_found_later() -> None:
    events = [done(1, 10.0), running(SINK, 15.0), failed(SINK, 40.0), running(SINK, 41.0)]
    assert restarts(events, GIVEN) == ({}, [])


def test_a_hang_lasts_until_somebody_notices_or_the_actor_is_built_anew() -> None:
    assert hanging([done(0, 1.0), done(1, 2.0)], GIVEN) == {SINK}
    for noticed in (failed(SINK, 3.0), running(SINK, 3.0), Event(What.BEGAN, 3.0, {})):
        assert hanging([done(1, 2.0), failed(READER, 2.5), running(READER, 2.6), noticed], GIVEN) == set()


def test_only_what_grows_is_left_behind() -> None:
    before = {"sockets": 10, "task read": 1, "thread asyncio": 2}
    assert left_behind(before, {"sockets": 13, "thread asyncio": 9}) == []
    assert left_behind(before, {"sockets": 14}) == ["there were 10 of sockets, and now there are 14"]


def test_an_error_that_reached_the_event_loop_was_handled_by_nobody() -> None:
    ours, loops = (
        json.dumps({"event": "failed", "logger": logger})
        for logger in ("actors.runtime.supervisor", "asyncio")
    )
    assert unhandled(f"Thread 0x1 (most recent call first):\n{ours}\n{loops}\n") == [
        f"nobody handled this: {loops}"
    ]


def test_a_percentile_is_one_of_the_values() -> None:
    assert percentile([], 0.99) == 0.0
    assert percentile([float(n) for n in range(1, 201)], 0.99) == 198.0


def test_reports_add_up() -> None:
    one = Report(1, {"JVM: killed": 1}, {SINK: [1.0]}, [2.0], 3.0, changes=5, findings=["lost"])
    other = Report(2, {"JVM: killed": 2}, {SINK: [4.0]}, [], 1.0, changes=6)
    both = together([one, other])
    assert both.struck == {"JVM: killed": 3} and both.restarts_s == {SINK: [1.0, 4.0]}
    assert both.changes == 11 and both.recovered_s == 3.0 and both.findings == ["seed 1: lost"]
