"""The last minutes, a point each second."""

from actors.status.history import KEPT_S, Counts, PointHistory, Undelivered


def test_rates_are_what_came_between_two_looks() -> None:
    history = PointHistory()
    assert history.last() is None
    history.look(10.0, 1000.0, 0.25, None, Counts(5, 10, 0))
    history.look(12.0, 1002.0, 0.5, 1.23456, Counts(9, 30, 1000))
    first, last = history.points()
    assert (first["freshness"], first["transactions"]) == (None, None)
    assert last == {
        "at": 1002.0,
        "lag": 0.5,
        "freshness": 1.235,
        "transactions": 2.0,
        "changes": 10.0,
        "snapshot_rows": 500.0,
    }
    assert history.last() == last


def test_no_more_is_kept_than_is_shown() -> None:
    history = PointHistory()
    for second in range(KEPT_S + 5):
        history.look(float(second), float(second), 0.0, None, Counts(0, 0, 0))
    assert [point["at"] for point in history.points()] == [float(at) for at in range(5, KEPT_S + 5)]


def test_what_waits_grows_old_until_it_is_delivered() -> None:
    waits = Undelivered()
    assert waits.look(0.0, 0, 0) == 0.0
    assert waits.look(1.0, 5, 5) == 0.0
    assert waits.look(2.0, 6, 5) == 0.0
    assert waits.look(3.0, 9, 5) == 1.0
    assert waits.look(4.0, 9, 6) == 1.0  # 7 to 9 have been waiting since 3.0
    assert waits.look(5.0, 9, 9) == 0.0


def test_a_long_wait_is_kept_in_little_room() -> None:
    waits = Undelivered()
    told = [waits.look(float(second), second, 0) for second in range(1, 50_001)]
    assert told[-1] == 49_999.0
    assert len(waits._sealed) < 1000
