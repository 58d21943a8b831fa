"""The kinds of panels that the dashboards are made of, and what each has to say for itself.

A panel's description is three sentences for whoever has the pager (`Words`): what it shows, which value is bad, and
what to do then.

Source: Grafana's documentation, "Visualizations" and "Field options"; panels are built with its Foundation SDK.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from grafana_foundation_sdk.builders import (
    bargauge,
    common,
    dashboard,
    heatmap,
    prometheus,
    stat,
    statetimeline,
    table,
    timeseries,
)
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common as common_model
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models import heatmap as heatmap_model
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

SOURCE: Final = model.DataSourceRef("prometheus", "${datasource}")

GREEN: Final = "green"
YELLOW: Final = "yellow"
RED: Final = "red"

Panel = Builder[model.Panel]


@dataclass(frozen=True, slots=True)
class Words:
    """What a panel shows, which value is bad, and what to do about it."""

    shows: str
    bad: str
    then: str

    def description(self) -> str:
        """As Grafana shows it, in Markdown."""
        return f"{self.shows}\n\n**Bad:** {self.bad}\n\n**Then:** {self.then}"


@dataclass(frozen=True, slots=True)
class Query:
    """A query, and how its series are called; Grafana puts labels between braces."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """Where a value begins to be worth a look, and where it's bad; `falling` if it's the low ones that are."""

    look: float
    bad: float
    falling: bool = False

    def thresholds(self) -> dashboard.ThresholdsConfig:
        """As steps, of which each holds from its value on."""
        if self.falling:
            colours = ((None, RED), (self.bad, YELLOW), (self.look, GREEN))
        else:
            colours = ((None, GREEN), (self.look, YELLOW), (self.bad, RED))
        steps = [model.Threshold(value, colour) for value, colour in colours]
        return dashboard.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(steps)


def only(bad: float, falling: bool = False) -> Limits:
    """Limits of what is either well or bad."""
    return Limits(bad, bad, falling)


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a value that stands for a state means, and its colour."""

    text: str
    colour: str


def stat_panel(
    title: str,
    words: Words,
    query: Query,
    unit: str,
    limits: Limits,
    *,
    meanings: dict[int, Meaning] | None = None,
    nothing: str = "no data",
    by_name: bool = False,
    width: int = 4,
    leads_to: str | None = None,
) -> Panel:
    """One figure, as it is now, in the colour of what it means; by its name where it's the name that tells."""
    panel = (
        stat.Panel()
        .title(title)
        .description(words.description())
        .datasource(SOURCE)
        .with_target(_target(query, 0).instant())
        .unit(unit)
        .thresholds(limits.thresholds())
        .color_scheme(_by_thresholds())
        .mappings(_mappings(meanings or {}))
        .no_value(nothing)
        .color_mode(common_model.BigValueColorMode.BACKGROUND)
        .graph_mode(common_model.BigValueGraphMode.NONE)
        .text_mode(common_model.BigValueTextMode.NAME if by_name else common_model.BigValueTextMode.VALUE)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .height(4)
        .span(width)
    )
    return panel if leads_to is None else panel.links([_link_to(leads_to)])


def series_panel(
    title: str,
    words: Words,
    queries: Sequence[Query],
    unit: str,
    *,
    limits: Limits | None = None,
    stacked: bool = False,
    bars: bool = False,
    greatest: float | None = None,
    width: int = 12,
) -> Panel:
    """Figures over time; limits are drawn as dashed lines."""
    panel = (
        timeseries.Panel()
        .title(title)
        .description(words.description())
        .datasource(SOURCE)
        .unit(unit)
        .min(0)
        .line_width(1)
        .fill_opacity(60 if bars else 20 if stacked else 8)
        .draw_style(common_model.GraphDrawStyle.BARS if bars else common_model.GraphDrawStyle.LINE)
        .show_points(common_model.VisibilityMode.NEVER)
        .legend(_legend())
        .tooltip(
            common.VizTooltipOptions()
            .mode(common_model.TooltipDisplayMode.MULTI)
            .sort(common_model.SortOrder.DESCENDING)
        )
        .height(8)
        .span(width)
    )
    for number, query in enumerate(queries):
        panel.with_target(_target(query, number).range())
    if stacked or bars:
        panel.stacking(common.StackingConfig().mode(common_model.StackingMode.NORMAL).group("A"))
    if greatest is not None:
        panel.max(greatest)
    if limits is not None:
        dashed = common.GraphThresholdsStyleConfig().mode(common_model.GraphThresholdsStyleMode.DASHED)
        panel.thresholds(limits.thresholds()).thresholds_style(dashed)
    return panel


def states_panel(
    title: str, words: Words, queries: Sequence[Query], meanings: dict[int, Meaning], *, width: int = 12
) -> Panel:
    """When which state was."""
    panel = (
        statetimeline.Panel()
        .title(title)
        .description(words.description())
        .datasource(SOURCE)
        .mappings(_mappings(meanings))
        .show_value(common_model.VisibilityMode.NEVER)
        .merge_values(True)
        .row_height(0.8)
        .fill_opacity(80)
        .line_width(0)
        .legend(_legend())
        .height(8)
        .span(width)
    )
    for number, query in enumerate(queries):
        panel.with_target(_target(query, number).range())
    return panel


def bars_panel(
    title: str, words: Words, query: Query, unit: str, limits: Limits, greatest: float, *, width: int = 12
) -> Panel:
    """One bar for each of what the query gives now."""
    return (
        bargauge.Panel()
        .title(title)
        .description(words.description())
        .datasource(SOURCE)
        .with_target(_target(query, 0).instant())
        .unit(unit)
        .min(0)
        .max(greatest)
        .thresholds(limits.thresholds())
        .color_scheme(_by_thresholds())
        .display_mode(common_model.BarGaugeDisplayMode.BASIC)
        .orientation(common_model.VizOrientation.HORIZONTAL)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .height(8)
        .span(width)
    )


def heat_panel(title: str, words: Words, query: Query, unit: str, *, width: int = 12) -> Panel:
    """A histogram's buckets over time, with how often as the colour."""
    return (
        heatmap.Panel()
        .title(title)
        .description(words.description())
        .datasource(SOURCE)
        .with_target(_target(query, 0).range().format(PromQueryFormat.HEATMAP))
        .calculate(False)
        .color(
            heatmap.HeatmapColorOptions()
            .mode(heatmap_model.HeatmapColorMode.SCHEME)
            .scheme("Oranges")
            .steps(64)
        )
        .y_axis(heatmap.YAxisConfig().unit(unit))
        .show_legend()
        .height(8)
        .span(width)
    )


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: a query whose series have the row's label, the heading, and the unit."""

    query: str
    heading: str
    unit: str
    limits: Limits | None = None


def table_panel(title: str, words: Words, key: str, columns: Sequence[Column], *, width: int = 24) -> Panel:
    """A row for each value of the label `key`, a column for each query."""
    panel = (
        table.Panel()
        .title(title)
        .description(words.description())
        .datasource(SOURCE)
        .with_transformation(_transformation("joinByField", byField=key, mode="outer"))
        .with_transformation(_transformation("filterFieldsByName", include={"pattern": f"^({key}|Value.*)$"}))
        .show_header(True)
        .frame_index(0)
        .align(common_model.FieldTextAlignment.AUTO)
        .cell_options(common_model.TableAutoCellOptions())
        .inspect(False)
        .override_by_name(key, [model.DynamicConfigValue("displayName", key.capitalize())])
        .height(8)
        .span(width)
    )
    for number, column in enumerate(columns):
        panel.with_target(_target(Query(column.query), number).instant().format(PromQueryFormat.TABLE))
        properties = [
            model.DynamicConfigValue("displayName", column.heading),
            model.DynamicConfigValue("unit", column.unit),
        ]
        if column.limits is not None:
            properties += [
                model.DynamicConfigValue("thresholds", column.limits.thresholds().build()),
                model.DynamicConfigValue("custom.cellOptions", {"type": "color-text"}),
            ]
        panel.override_by_name(f"Value #{_letter(number)}", properties)
    return panel


def _target(query: Query, number: int) -> prometheus.Dataquery:
    target = prometheus.Dataquery().datasource(SOURCE).expr(query.expr).ref_id(_letter(number))
    return target.legend_format(query.legend) if query.legend else target


def _letter(number: int) -> str:
    return chr(ord("A") + number)


def _transformation(name: str, **options: Any) -> model.DataTransformerConfig:
    return model.DataTransformerConfig(id_val=name, options=options)


def _by_thresholds() -> dashboard.FieldColor:
    return dashboard.FieldColor().mode(model.FieldColorModeId.THRESHOLDS)


def _mappings(meanings: dict[int, Meaning]) -> list[model.ValueMapping]:
    options = {
        str(value): model.ValueMappingResult(text=meaning.text, color=meaning.colour, index=index)
        for index, (value, meaning) in enumerate(meanings.items())
    }
    return [model.ValueMap(options=options)] if options else []


def _legend() -> common.VizLegendOptions:
    return (
        common.VizLegendOptions()
        .show_legend(True)
        .display_mode(common_model.LegendDisplayMode.LIST)
        .placement(common_model.LegendPlacement.BOTTOM)
    )


def _link_to(uid: str) -> dashboard.DashboardLink:
    kept = "${datasource:queryparam}&${pipeline:queryparam}&${instance:queryparam}&${__url_time_range}"
    return dashboard.DashboardLink("More").type(model.DashboardLinkType.LINK).url(f"/d/{uid}?{kept}")
