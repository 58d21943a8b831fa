"""The dashboards: committed as the code makes them, taken by Grafana's schema, and asking for what there is."""

import json
import re
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from grafana.__main__ import BOARDS, FOLDER, README, path, replaced_in, written
from grafana.boards import TAG, Board
from pipeline.metrics import Counter, Gauge, Histogram, catalogue

SCHEMAS = Path(__file__).parent / "dashboard.schema.json"
COLUMNS = 24

# Added by Prometheus to all that it scrapes, and prometheus-client's metrics of the process.
TARGET_LABELS = {"instance"}
OF_THE_PROCESS = {
    "process_cpu_seconds_total": Counter,
    "process_max_fds": Gauge,
    "process_open_fds": Gauge,
    "process_resident_memory_bytes": Gauge,
    "process_start_time_seconds": Gauge,
}
METRICS = {metric.name: metric for metric in catalogue()}
ALERTS = "ALERTS"

boards = pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)


def panels(board: Board) -> list[dict[str, Any]]:
    """Its panels, without the rows between them."""
    return [panel for panel in board.json()["panels"] if panel["type"] != "row"]


def expressions(board: Board) -> Iterator[tuple[str, str]]:
    """Each query with the title of its panel."""
    for panel in panels(board):
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


@cache
def schemas() -> dict[str, Any]:
    """By what they are of: a dashboard, a query, or a panel of that type; made by make_schema.sh."""
    found: dict[str, Any] = json.loads(SCHEMAS.read_text(encoding="utf-8"))
    return found


def validate(value: Any, of: str) -> None:
    jsonschema.Draft7Validator(schemas()[of]).validate(value)


@boards
def test_what_is_committed_is_what_the_code_makes(board: Board) -> None:
    assert path(board).read_text(encoding="utf-8") == written(board), "run `python -m grafana`"


def test_nothing_else_is_provisioned() -> None:
    assert sorted((FOLDER / "dashboards").iterdir()) == sorted(map(path, BOARDS))


def test_the_readme_tells_each_panel() -> None:
    document = README.read_text(encoding="utf-8")
    assert replaced_in(document) == document, "run `python -m grafana`"


@boards
def test_grafanas_own_schema_takes_it(board: Board) -> None:
    validate(board.json(), "dashboard")
    for panel in panels(board):
        custom = panel.get("fieldConfig", {"defaults": {}})["defaults"].get("custom", {})
        validate({"options": panel["options"], "custom": custom}, panel["type"])
        for target in panel["targets"]:
            validate(target, "query")


@pytest.mark.parametrize(
    ("of", "wrong"),
    [
        ("dashboard", {**BOARDS[0].json(), "titel": "x"}),
        ("query", {**panels(BOARDS[0])[0]["targets"][0], "exprs": "up"}),
        ("stat", {"options": {**panels(BOARDS[0])[0]["options"], "colourMode": "none"}, "custom": {}}),
    ],
)
def test_the_schema_refuses_what_is_misspelt(of: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError, match=r"titel|exprs|colourMode"):
        validate(wrong, of)


@boards
def test_panels_fill_the_grid_and_none_is_on_another(board: Board) -> None:
    places = [panel["gridPos"] for panel in board.json()["panels"]]
    area = sum(place["w"] * place["h"] for place in places)
    assert area == COLUMNS * max(place["y"] + place["h"] for place in places)
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or below, (one, other)


@boards
def test_each_panel_says_what_is_bad_and_what_to_do(board: Board) -> None:
    titles = [panel["title"] for panel in panels(board)]
    assert len(set(titles)) == len(titles)
    for panel in panels(board):
        shows, bad, then = panel["description"].split("\n\n")
        assert bad.startswith("**Bad:** ") and then.startswith("**Then:** "), panel["title"]
        assert all(text.endswith(".") for text in (shows, bad, then)), panel["title"]
        if panel["type"] not in ("state-timeline", "heatmap", "table"):
            assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        if len(panel["targets"]) > 1 and panel["type"] != "table":
            assert all(target["legendFormat"] for target in panel["targets"]), panel["title"]


@boards
def test_links_lead_to_the_others(board: Board) -> None:
    values = board.json()
    assert TAG in values["tags"]
    assert [link["tags"] for link in values["links"]] == [[TAG]]
    uids = {other.uid for other in BOARDS}
    for panel in panels(board):
        for link in panel.get("links", []):
            found = re.match(r"/d/([a-z-]+)\?", link["url"])
            assert found and found[1] in uids - {board.uid}, panel["title"]


@boards
def test_queries_use_the_variables_that_there_are(board: Board) -> None:
    there = {variable["name"] for variable in board.json()["templating"]["list"]}
    used = {name for _, expr in expressions(board) for name in re.findall(r"\$(\w+)", expr)}
    assert used <= there | {"__rate_interval"}
    assert {"instance", *board.variables} <= used


SELECTOR = re.compile(
    r"(?P<over>(?:rate|increase)\()?(?P<name>[a-zA-Z_]\w*)\{(?P<matchers>[^}]*)\}(?P<window>\[[^\]]+\])?"
)


def wrong(expr: str) -> list[str]:
    """What's wrong with a query, by the catalogue."""
    found = []
    bucket = "histogram_quantile(" in expr or "by (le)" in expr
    seen = list(SELECTOR.finditer(expr))
    named = set(re.findall(r"\b(?:tidemark|process)_\w+", expr))
    found += [f"{name} has no matchers" for name in named - {selector["name"] for selector in seen}]
    for selector in seen:
        name, over = selector["name"], selector["over"] is not None
        if name == ALERTS:
            continue
        of = METRICS.get(re.sub("_(bucket|sum|count)$", "", name)) or METRICS.get(name)
        kind = type(of) if of is not None else OF_THE_PROCESS.get(name)
        part = of is not None and name != of.name
        if kind is None:
            found.append(f"there's no {name}")
            continue
        if part is not (kind is Histogram):
            found.append(f"{name} isn't a series of a {kind.__name__}")
        if over is not (kind is not Gauge) or over is not (selector["window"] is not None):
            found.append(f"{name} is a {kind.__name__}")
        if name.endswith("_bucket") is not bucket:
            found.append(f"{name} without le, or le without buckets")
        labels = {*TARGET_LABELS, *(of.labels if of is not None else ())}
        matched = set(re.findall(r"(\w+)=", selector["matchers"]))
        by = {label for labels in re.findall(r"by \(([^)]+)\)", expr) for label in labels.split(", ")}
        found += [f"{name} has no {label}" for label in (matched | by) - labels - {"le"}]
    return found


@boards
def test_queries_ask_for_what_the_catalogue_has(board: Board) -> None:
    assert {title: wrong(expr) for title, expr in expressions(board) if wrong(expr)} == {}


@boards
def test_legends_name_labels_that_are_kept(board: Board) -> None:
    for panel in panels(board):
        for target in panel["targets"]:
            kept = {
                label
                for labels in re.findall(r"by \(([^)]+)\)", target["expr"])
                for label in labels.split(", ")
            }
            assert set(re.findall(r"{{(\w+)}}", target.get("legendFormat", ""))) <= kept, panel["title"]


@pytest.mark.parametrize(
    "expr",
    [
        'rate(tidemark_source_lag_seconds{instance="x"}[1m])',
        'sum(tidemark_transactions_total{instance="x"})',
        'histogram_quantile(0.5, rate(tidemark_freshness_seconds_sum{instance="x"}[1m]))',
        'rate(tidemark_freshness_seconds{instance="x"}[1m])',
        'max(tidemark_open_windows{table="x"})',
        'max(tidemark_gone_seconds{instance="x"})',
        "max(tidemark_open_windows)",
        'sum by (table) (tidemark_open_windows{instance="x"})',
    ],
)
def test_a_wrong_query_is_found(expr: str) -> None:
    assert wrong(expr)


def test_provisioning_names_what_there_is() -> None:
    """Source: Grafana's documentation, "Provision Grafana"."""
    sources = yaml.safe_load((FOLDER / "provisioning/datasources/prometheus.yaml").read_text())
    providers = yaml.safe_load((FOLDER / "provisioning/dashboards/tidemark.yaml").read_text())
    assert sources["apiVersion"] == providers["apiVersion"] == 1
    (source,), (provider,) = sources["datasources"], providers["providers"]
    assert (source["type"], source["url"], source["isDefault"]) == ("prometheus", "${PROMETHEUS_URL}", True)
    assert provider["options"]["path"] == "/var/lib/grafana/dashboards"
    assert "`/var/lib/grafana/dashboards`" in README.read_text(encoding="utf-8")
