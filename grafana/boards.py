"""What all dashboards have in common: variables, links to each other, rows of panels, and the JSON that Grafana takes.

Variables choose the data source, the pipeline, and the instances that have run it: after a restart elsewhere (a pod)
the same pipeline continues under another address, and by default all of them are shown as one.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as model

from grafana.panels import SOURCE, Panel
from pipeline.metrics import METRIC_PREFIX, PIPELINE

TAG: Final = "tidemark"

# What the SDK gives each variable, though only one of intervals has it; Grafana's schema doesn't take it elsewhere.
_OF_INTERVALS: Final = ("auto", "auto_count", "auto_min")

# What Grafana makes of a variable's "All", which is where each of them begins.
_ALL: Final = model.VariableOption(text="All", value="$__all", selected=True)


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under one question."""

    question: str
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True)
class Board:
    """A dashboard: its name, what it answers, the labels that it can be narrowed down by, and its rows."""

    name: str
    answers: str
    variables: tuple[str, ...]
    rows: Sequence[Row]

    @property
    def uid(self) -> str:
        """What links and addresses name it by."""
        return uid(self.name)

    def build(self) -> model.Dashboard:
        """The dashboard as Grafana's model."""
        builder = (
            dashboard.Dashboard(f"Tidemark: {self.name}")
            .uid(self.uid)
            .description(self.answers)
            .tags([TAG])
            .timezone("browser")
            .time("now-1h", "now")
            .refresh("10s")
            .readonly()
            .tooltip(model.DashboardCursorSync.CROSSHAIR)
            .link(_links())
            .variables([_source(), _pipeline(), _instance(), *map(_narrowing, self.variables)])
        )
        for row in self.rows:
            builder.with_row(dashboard.Row(row.question))
            for panel in row.panels:
                builder.with_panel(panel)
        board = builder.build()
        for number, placed in enumerate(board.panels or [], start=1):
            placed.id_val = number
        return board

    def json(self) -> dict[str, Any]:
        """The dashboard as JSON values."""
        values: dict[str, Any] = json.loads(JSONEncoder().encode(self.build()))
        for variable in values["templating"]["list"]:
            for key in _OF_INTERVALS:
                del variable[key]
        return values


def uid(name: str) -> str:
    """The uid of the dashboard of that name."""
    return f"{TAG}-{name}"


def _links() -> dashboard.DashboardLink:
    return (
        dashboard.DashboardLink("Tidemark")
        .type(model.DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .include_vars(True)
        .keep_time(True)
    )


def _source() -> dashboard.DatasourceVariable:
    return dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus")


def _pipeline() -> dashboard.QueryVariable:
    return _values("pipeline", "Pipeline", f"label_values({PIPELINE.name}, pipeline)")


def _instance() -> dashboard.QueryVariable:
    query = f'label_values({PIPELINE.name}{{pipeline="$pipeline"}}, instance)'
    return _values("instance", "Instance", query).multi(True).include_all(True).current(_ALL)


def _narrowing(label: str) -> dashboard.QueryVariable:
    query = f'label_values({{__name__=~"{METRIC_PREFIX}.+", instance=~"$instance", {label}!=""}}, {label})'
    return _values(label, label.capitalize(), query).multi(True).include_all(True).current(_ALL)


def _values(name: str, label: str, query: str) -> dashboard.QueryVariable:
    return (
        dashboard.QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query(query)
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.ALPHABETICAL_ASC)
    )
