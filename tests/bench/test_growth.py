"""An exponent and what it means ten times as far on are right for powers. Where there is no power, none is told."""

import math
from xml.etree import ElementTree as ET

import pytest

from bench._curves import draw_svg
from bench._growth import Growth, Measured, Quantity
from bench._report import Figure
from bench.scale import CURVES

AGE, SIZE = Quantity("age", "p50", "s"), Quantity("size", "", "MiB")


def told(growth: Growth) -> dict[str, Figure]:
    return {figure.name: figure for figure in growth.exponents()}


def test_a_power_has_its_exponent_and_its_value_ten_times_as_far_on() -> None:
    growth = Growth("tables", {at: {AGE: 3 * at**1.5, SIZE: 7.0} for at in (100, 1, 10)}, {})
    found = told(growth)
    assert found["tables, exponent from 10 to 100: age, p50"].value == pytest.approx(1.5)
    assert found["tables, exponent from 10 to 100: size"].value == pytest.approx(0)
    far = found["tables, 1,000 if it goes on like that: age, p50"]
    assert far.value == pytest.approx(3 * 1_000**1.5)
    assert far.against is not None and (far.against.name, far.against.value) == ("with 100", 3_000)
    assert found["tables, 1,000 if it goes on like that: size"].value == pytest.approx(7)


@pytest.mark.parametrize(
    "points",
    [
        {10: {AGE: 1.0}},
        {0: {AGE: 1.0}, 10: {AGE: 2.0}},
        {1: {AGE: 0.0}, 10: {AGE: 2.0}},
        {1: {AGE: 1.0}, 10: {AGE: math.inf}},
        {1: {SIZE: 1.0}, 10: {AGE: 2.0}},
    ],
)
def test_where_no_power_leads_from_point_to_point_none_is_told(
    points: dict[int, Measured],
) -> None:
    assert told(Growth("tables", points, {})) == {}


def test_a_figure_stands_against_what_was_asked_for_or_against_the_least_point() -> None:
    growth = Growth("tables", {1: {AGE: 1.0, SIZE: 5.0}, 10: {AGE: 2.0, SIZE: 15.0}}, {AGE: 0.5})
    age, size = growth.figures(10)
    assert (age.name, age.ratio, size.name, size.ratio) == ("tables, 10: age, p50", 4, "tables, 10: size", 3)
    assert [figure.ratio for figure in growth.figures(1)] == [2, None]


def test_charts_leave_out_what_has_no_place_on_logarithmic_axes() -> None:
    p99, none = AGE._replace(series="p99"), Quantity("merges", "", "s")
    points: dict[int, Measured] = {
        0: {AGE: 1.0, p99: 2.0, none: 0.0},
        10: {AGE: 3.0, p99: math.inf, none: 0.0},
        100: {AGE: 9.0, none: 0.0},
    }
    (chart,) = Growth("readers", points, {AGE: 0.5}).charts()
    assert (chart.title, dict(chart.curves), dict(chart.bars)) == (
        "age",
        {"p50": [(10, 3.0), (100, 9.0)]},
        {"p50 asked for": 0.5},
    )
    drawn = ET.fromstring(draw_svg([[chart], [chart, chart]]))
    assert (drawn.get("width"), drawn.get("height"), len(drawn)) == ("720", "500", 3)


def test_a_curve_with_many_charts_has_several_rows() -> None:
    values = {Quantity(f"chart {number}", "", "s"): 1.0 for number in range(9)}
    rows = list(Growth("tables", {1: values}, {}).rows())
    assert [chart.title for row in rows for chart in row] == [f"chart {number}" for number in range(9)]
    assert [len(row) for row in rows] == [8, 1]


def test_each_curve_has_points_for_an_exponent() -> None:
    assert [
        name for name, curve in CURVES.items() if len([point for point in curve.points if point]) < 2
    ] == []
