"""The format of a report is what comparisons of runs are made from."""

import json
from pathlib import Path

import pytest

from bench._report import Figure, Peer, report, table

FIGURES = [
    Figure("bulk transactions", 1_234_567.8, "rows/s", Peer("raw dump socket", 3_300_000)),
    Figure("bulk transactions", 1_234_567.8, "rows/s", Peer("Debezium, JSON", 41_900)),
    Figure("later start", 1.5, "s"),
]


def test_the_json_has_each_figure_with_its_peer_and_their_ratio(tmp_path: Path) -> None:
    report("decode", FIGURES, tmp_path / "bench")
    [raw, debezium, alone] = json.loads((tmp_path / "bench" / "decode.json").read_text())
    assert raw == {
        "figure": "bulk transactions",
        "value": 1_234_567.8,
        "unit": "rows/s",
        "against": "raw dump socket",
        "against_value": 3_300_000,
        "ratio": pytest.approx(0.374, abs=1e-3),
    }
    assert debezium["ratio"] == pytest.approx(29.46, abs=0.01)
    assert alone == {
        "figure": "later start",
        "value": 1.5,
        "unit": "s",
        "against": None,
        "against_value": None,
        "ratio": None,
    }


def test_the_table_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report("decode", FIGURES, tmp_path)
    assert table(FIGURES) in capsys.readouterr().out


def test_the_table_has_columns_and_three_digits_that_count() -> None:
    assert table(FIGURES).splitlines() == [
        "                                      against                     ratio",
        "bulk transactions  1,230,000  rows/s  raw dump socket  3,300,000   0.37",
        "                                      Debezium, JSON      41,900  29.46",
        "later start              1.5  s",
    ]
