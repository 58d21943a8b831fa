"""The reference of signals: each of its examples is one, and each type and field is in it."""

import json
import re
from typing import Any

import pytest

from deploy.toolchain.cache import REPOSITORY
from pipeline.signals.notifications import Notification, NotificationType, to_json
from pipeline.signals.outcomes import Outcome, SignalState
from pipeline.signals.signal import Filter, Signal, parse_signal
from pipeline.snapshot.row_filter_parser import parse_filter as parse_condition
from pipeline.verifier.signal_table import CREATE_SIGNAL_TABLE

TEXT = (REPOSITORY / "docs" / "signals.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def told(key: str, *, there: bool) -> list[dict[str, Any]]:
    """The examples in JSON that have, or haven't, this key."""
    return [value for value in map(json.loads, blocks("json")) if (key in value) is there]


SIGNALS = [value for value in told("outcome", there=False) if "aggregate_type" not in value]


@pytest.mark.parametrize("example", SIGNALS, ids=lambda example: str(example["id"]))
def test_each_example_is_a_signal(example: dict[str, Any]) -> None:
    assert parse_signal(json.dumps(example)).id == example["id"]


def test_there_is_an_example_of_each_type() -> None:
    kinds = {type(parse_signal(json.dumps(example))) for example in SIGNALS}
    assert kinds == set(Signal.__args__)


def test_each_filter_is_one() -> None:
    for example in SIGNALS:
        for condition in getattr(parse_signal(json.dumps(example)), "filters", ()):
            assert isinstance(condition, Filter)
    filters = next(block for block in blocks("sql") if "IN (" in block)
    for line in filters.splitlines():
        parse_condition(line)


def test_the_signal_table_is_the_one_that_is_asked_for() -> None:
    create = next(block for block in blocks("sql") if "CREATE" in block)
    assert create.startswith(CREATE_SIGNAL_TABLE.format(table="tidemark.signals") + ";")
    data = re.search(r"'(\{.*\})'", create)
    assert data is not None
    json.loads(data[1].replace("\\\\", "\\"))


def test_answers_and_notifications_are_as_they_are_told() -> None:
    (answer,) = told("outcome", there=True)
    assert answer == SignalState("s1", Outcome.ACCEPTED, "snapshot of shop.orders").to_json()
    assert all(f"`{outcome.value}`" in TEXT for outcome in Outcome)
    (notification,) = told("aggregate_type", there=True)
    data = dict(notification["additional_data"])
    del data["connector_name"]
    notice = Notification("s1", NotificationType(notification["type"]), data=data)
    assert notification == to_json(notice, "shop", notification["timestamp"])
    assert all(f"`{kind.value}`" in TEXT for kind in NotificationType)
