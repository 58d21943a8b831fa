"""What replacements make of texts, in Java's words."""

import pytest

from pipeline.config.message_routes import mistake_in_rewriting, rewritten


@pytest.mark.parametrize(
    ("text", "regex", "replacement", "found"),
    [
        ("p.shop.a1", r"(.*)\.a\d", "$1.all", "p.shop.all"),
        ("p.shop.a1", r"(.*)\.a(?<n>\d)", "${n}-$1-\\$", "1-p.shop-$"),
        ("p.shop.b", r"(.*)\.a\d", "$1.all", None),
        # As RegexRouter of Kafka 4.3 rewrites them.
        ("x_ab", "(.*)_(a|ab)", "$1", "xb"),
        ("p.orders_old", "(.*)orders|(.*)orders_old", "$1all", "p.all_old"),
        ("s.orders_12", r"(.*)orders_\d+?", "$1o", "s.o2"),
        ("p.abcdefghi", r"(.*)\.(\w)(\w)(\w)(\w)(\w)(\w)(\w)(\w)(\w)", "$1-$10", "p-i"),
        ("t", "(.*)", "$10-$00", "t0-t"),
        ("Order", "(?<routedByValue>.*)", "outbox.event.${routedByValue}", "outbox.event.Order"),
    ],
)
def test_a_text_is_rewritten_if_the_whole_matches(
    text: str, regex: str, replacement: str, found: str | None
) -> None:
    assert rewritten(text, regex, replacement) == found


@pytest.mark.parametrize(
    ("regex", "replacement", "wrong"),
    [
        ("(a)", "$1", None),
        ("(", "", "isn't a regular expression"),
        ("(a)", "$2", "group 2"),
        ("a", "${x}", "group x"),
    ],
)
def test_a_group_that_is_not_there_is_told(regex: str, replacement: str, wrong: str | None) -> None:
    told = mistake_in_rewriting(regex, replacement)
    assert told is None if wrong is None else wrong in (told or "")
