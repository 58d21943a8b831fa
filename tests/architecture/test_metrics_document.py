"""The document of metrics shows the catalogue, and leaves nothing of it out."""

from docs.metric_table import DOCUMENT, JMX, SECTIONS, written
from pipeline.metrics import catalogue


def test_the_document_shows_the_present_catalogue() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert written(text) == text, "python -m docs.metric_table"
    for metric in catalogue():
        assert text.count(f"| `{metric.name}` |") >= 1, metric.name


def test_sections_and_the_mapping_are_of_the_catalogue() -> None:
    everything = set(catalogue())
    assert set(SECTIONS) <= everything
    assert {metric for _, metrics, _ in JMX for metric in metrics} <= everything
    assert next(iter(SECTIONS)) == catalogue()[0], "what comes before the first section has no table"
