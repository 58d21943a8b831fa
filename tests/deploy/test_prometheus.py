"""The rules: made of their definitions, sound to promtool, each with its tests and its runbook."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from deploy.prometheus.alerts import ALERTS, MANIFEST, RULES, RUNBOOKS, duration, manifest, rules
from deploy.toolchain.cache import REPOSITORY
from deploy.toolchain.parts import Parts

TESTS = RULES.with_name("alerts.test.yaml")


def promtool(parts: Parts, *words: str | Path) -> "subprocess.CompletedProcess[str]":
    assert parts.prometheus is not None, "run `make setup-tests`"
    return subprocess.run(
        [parts.prometheus.promtool, *words], cwd=RULES.parent, text=True, capture_output=True, check=False
    )


def test_the_file_of_rules_is_the_present_one() -> None:
    assert rules() == RULES.read_text(encoding="utf-8"), "python -m deploy.prometheus.alerts"
    assert manifest() == MANIFEST.read_text(encoding="utf-8"), "python -m deploy.prometheus.alerts"
    assert yaml.safe_load(manifest())["spec"] == yaml.safe_load(rules())


def test_each_alert_fires_when_it_should_and_not_before(parts: Parts, tmp_path: Path) -> None:
    judged = promtool(parts, "test", "rules", TESTS)
    assert judged.returncode == 0, judged.stdout + judged.stderr
    tested = {
        each["alertname"]
        for test in yaml.safe_load(TESTS.read_text(encoding="utf-8"))["tests"]
        for each in test["alert_rule_test"]
        if each.get("exp_alerts")
    }
    assert tested == {alert.name for alert in ALERTS}
    # It would see a rule that never fires.
    wrong = rules().replace("up{job=", "down{job=")
    (tmp_path / RULES.name).write_text(wrong, encoding="utf-8")
    (tmp_path / TESTS.name).write_text(TESTS.read_text(encoding="utf-8"), encoding="utf-8")
    assert promtool(parts, "test", "rules", tmp_path / TESTS.name).returncode != 0


def test_the_configuration_to_begin_from_is_sound(parts: Parts) -> None:
    checked = promtool(parts, "check", "config", "prometheus.yaml")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_each_alert_has_its_runbook_and_each_runbook_its_alert() -> None:
    text = (REPOSITORY / RUNBOOKS).read_text(encoding="utf-8")
    assert re.findall(r"^## (\w+)$", text, re.MULTILINE) == [alert.name for alert in ALERTS]
    anchors = set(re.findall(r"\]\(#(\w+)\)", text))
    assert anchors <= {alert.name.lower() for alert in ALERTS}


@pytest.mark.parametrize(
    ("seconds", "text"), [(7200, "2h"), (90, "90s"), (120, "2m"), (2.5, "2500ms"), (1 / 3, "333ms")]
)
def test_times_are_written_as_prometheus_reads_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text
