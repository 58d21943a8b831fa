"""A comparison is repeated until an interruption, and the worst result is the command's."""

from collections.abc import Callable, Iterator

import pytest

from actors.service.commands.comparison import DIFFERENT, EQUAL, UNJUDGED, parse_duration, repeat_comparison


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30m", 1800), ("24h", 86_400), ("7d", 604_800), ("0.5h", 1800)]
)
def test_a_duration_has_a_unit(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "24", "h", "0s", "0.0h", "-1h", "1 h", "1w", "1h30m", "1e3s", "nan"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration: write 90s"):
        parse_duration(text)


class Clock:
    """A clock that only sleeping and comparing moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def comparing(self, *each: tuple[float, int]) -> Callable[[], tuple[int, list[str]]]:
        """Comparisons that take so long and have these codes. The next one is interrupted."""
        left: Iterator[tuple[float, int]] = iter(each)

        def compare() -> tuple[int, list[str]]:
            took, code = next(left, (0.0, None))
            self.now += took
            if code is None:
                raise KeyboardInterrupt
            return code, [f"it is {code}"]

        return compare


def repeated(clock: Clock, every_s: float | None, *each: tuple[float, int]) -> int:
    return repeat_comparison(clock.comparing(*each), lambda _: None, every_s, lambda: clock.now, clock.sleep)


def test_each_comparison_begins_at_its_time_or_after_a_long_one() -> None:
    clock = Clock()
    assert repeated(clock, 10.0, (1.0, EQUAL), (12.0, EQUAL), (4.0, EQUAL)) == EQUAL
    assert clock.slept == [9.0, 0.0, 6.0]


@pytest.mark.parametrize(
    ("codes", "worst"),
    [
        ((EQUAL, UNJUDGED, EQUAL), UNJUDGED),
        ((UNJUDGED, DIFFERENT, EQUAL), DIFFERENT),
        ((DIFFERENT, UNJUDGED), DIFFERENT),
        ((), UNJUDGED),
    ],
)
def test_the_worst_result_is_the_command_s(codes: tuple[int, ...], worst: int) -> None:
    assert repeated(Clock(), 1.0, *((0.0, code) for code in codes)) == worst


@pytest.mark.parametrize("code", [EQUAL, DIFFERENT, UNJUDGED])
def test_without_a_time_it_compares_once(code: int) -> None:
    clock = Clock()
    assert repeated(clock, None, (1.0, code), (1.0, EQUAL)) == code
    assert clock.slept == []


def test_what_was_told_counts_though_it_is_interrupted_there() -> None:
    def tell(_: str) -> None:
        raise KeyboardInterrupt

    clock = Clock()
    assert (
        repeat_comparison(clock.comparing((1.0, EQUAL)), tell, 9.0, lambda: clock.now, clock.sleep) == EQUAL
    )


@pytest.mark.parametrize("every_s", [None, 9.0])
@pytest.mark.parametrize("code", [EQUAL, DIFFERENT, UNJUDGED])
def test_what_was_found_counts_though_nobody_takes_the_words(code: int, every_s: float | None) -> None:
    """A full disk or a closed pipe would end the command with 1 otherwise, which says that rows differ."""

    def tell(_: str) -> None:
        raise BrokenPipeError

    clock = Clock()
    comparing = clock.comparing((1.0, code))
    assert repeat_comparison(comparing, tell, every_s, lambda: clock.now, clock.sleep) == code


def test_a_single_comparison_that_is_interrupted_says_nothing() -> None:
    assert repeated(Clock(), None) == UNJUDGED
