"""The catalogue keeps Prometheus' conventions."""

import re

from pipeline.metrics import METRIC_PREFIX, UNITS, Counter, Histogram, catalogue


def test_names_are_unique_and_say_prefix_and_unit() -> None:
    names = [metric.name for metric in catalogue()]
    assert len(set(names)) == len(names)
    for metric in catalogue():
        assert re.fullmatch(rf"{METRIC_PREFIX}[a-z]+(_[a-z]+)*", metric.name)
        assert metric.name.removesuffix("_total").rpartition("_")[2] in UNITS, metric.name


def test_what_only_grows_says_total_and_nothing_else_does() -> None:
    for metric in catalogue():
        assert metric.name.endswith("_total") is isinstance(metric, Counter), metric.name


def test_each_has_help_of_whole_sentences() -> None:
    for metric in catalogue():
        assert metric.help[0].isupper() or metric.help[0].isdigit(), metric.name
        assert metric.help.endswith("."), metric.name


# Each has few values, except the table.
BOUNDED = {
    "actor",
    "channel",
    "consumer",
    "file",  # one at a time
    "format",
    "host",
    "kind",
    "message",
    "outcome",
    "part",
    "phase",
    "pipeline",
    "port",
    "server",
    "state",
    "tier",
}


def test_labels_are_few_and_have_few_values() -> None:
    used = {label for metric in catalogue() for label in metric.labels}
    assert used == BOUNDED | {"table"}


def test_what_has_many_series_for_each_value_does_not_tell_tables_apart() -> None:
    for metric in catalogue():
        assert not (isinstance(metric, Histogram) and "table" in metric.labels), metric.name


def test_buckets_rise() -> None:
    for metric in catalogue():
        if isinstance(metric, Histogram):
            assert list(metric.buckets) == sorted(set(metric.buckets))


def test_units_are_used() -> None:
    used = {metric.name.removesuffix("_total").rpartition("_")[2] for metric in catalogue()}
    assert used == set(UNITS)
