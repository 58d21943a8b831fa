"""The report of an error says what happened and where, and no value."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.runtime.redaction import redacted_traceback, safe_message, without_values
from pipeline.errors import Definite, Transient

VALUE = "CANARY-4711"


def caught(raise_it: object) -> BaseException:
    """An error with a traceback."""
    try:
        if isinstance(raise_it, BaseException):
            raise raise_it
        assert callable(raise_it)
        raise_it()
    except Exception as error:  # noqa: BLE001 - any error is what the test wants
        return error
    raise AssertionError("nothing was raised")


def test_our_own_errors_are_told_as_they_are() -> None:
    assert (
        safe_message(Definite("shop.orders: the column 'x' is gone")) == "shop.orders: the column 'x' is gone"
    )
    assert safe_message(Transient()) == "Transient"
    assert safe_message(FileNotFoundError(2, "No such file", "/lake")) == "[Errno 2] No such file: '/lake'"


@pytest.mark.parametrize(
    "doing",
    [
        lambda: dict[str, int]()[VALUE],
        lambda: int(VALUE),
        lambda: pa.scalar(VALUE).cast(pa.int32()),
        lambda: pa.array([1, VALUE]),
        lambda: pa.array(["it's ' " + VALUE, 1]),
        lambda: pa.scalar(4711_4711_4711).cast(pa.int8()),
        lambda: pa.table({VALUE: [1]}).column("x"),
        lambda: VALUE.encode().decode("utf-16"),
        lambda: "CANARY-4711é".encode("ascii"),
    ],
)
def test_others_errors_are_told_without_values(doing: object) -> None:
    error = caught(doing)
    for text in (safe_message(error), redacted_traceback(error)):
        assert type(error).__name__ in text
        assert "CANARY" not in text.replace(f'"{VALUE}', "")
        assert "4711" not in safe_message(error)


def test_what_happened_stays() -> None:
    error = caught(lambda: pa.scalar(VALUE).cast(pa.int32()))
    assert safe_message(error) == "ArrowInvalid: Failed to parse string: '…' as a scalar of type int32"


def test_a_story_has_each_cause_and_its_place() -> None:
    def fail() -> None:
        try:
            raise KeyError(VALUE)
        except KeyError as error:
            raise Transient("the lake was lost") from error

    text = redacted_traceback(caught(fail))
    assert (
        text.index("KeyError: '…'") < text.index("which led to:") < text.index("Transient: the lake was lost")
    )
    assert "in fail" in text
    assert VALUE not in text


def test_a_group_tells_each_of_its_errors() -> None:
    text = redacted_traceback(
        caught(ExceptionGroup(f"'{VALUE}'", [ValueError(f"odd: {VALUE!r}"), Transient("it was lost")]))
    )
    assert "ValueError: odd: '…'" in text
    assert "Transient: it was lost" in text
    assert VALUE not in text


@given(st.text(), st.sampled_from(["'{}'", '"{}"', "`{}`"]))
def test_whatever_is_quoted_is_left_out(value: str, quoted: str) -> None:
    text = without_values(f"can't convert {quoted.format(value)}, which isn't one")
    assert text.startswith("can't convert '…")
    assert len(value.strip("'\"`… ")) < 3 or value not in text


def test_a_long_text_is_cut() -> None:
    assert len(without_values("at org.apache.spark " * 100)) < 600


def test_an_error_that_led_to_itself_is_told_once() -> None:
    """As it's with what a group of tasks is left by."""
    errors = [Transient("it was lost"), ValueError("odd")]

    def fail() -> None:
        try:
            raise ExceptionGroup("two", errors)
        except ExceptionGroup as group:
            raise group.exceptions[0] from group

    text = redacted_traceback(caught(fail))
    assert [text.count(words) for words in ("it was lost", "odd", "ExceptionGroup: two")] == [1, 1, 1]
    assert text.index("ExceptionGroup: two") < text.index("one of them:") < text.index("odd")
    assert text.index("which led to:") < text.index("Transient: it was lost")


def test_of_a_thousand_causes_the_last_ones_are_told() -> None:
    def fail(left: int) -> None:
        error = Transient(f"try {left}")
        for each in range(left):
            before, error = error, Transient(f"try {each}")
            error.__context__ = before
        raise error

    text = redacted_traceback(caught(lambda: fail(5000)))
    assert "Transient: try 4999" in text and text.count("which led to:") == 49
