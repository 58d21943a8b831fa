"""A real Prometheus on a free port of loopback, which scrapes given targets and evaluates rules, both quickly."""

import json
import math
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from deploy.toolchain.parts import Parts
from deploy.toolchain.ports import take_port
from deploy.toolchain.prometheus import PrometheusParts
from deploy.toolchain.server_process import ServerProcess

__all__ = ["prometheus"]

# How often it scrapes, and evaluates rules.
EVERY: Final = "250ms"
# So long ago all scrapes of before have ended.
SETTLED: Final = "5s"

# The name of its one job, as the rules expect it.
JOB: Final = "tidemark"

_ANSWERS_WITHIN_S: Final = 30.0
_HTTP: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True, slots=True)
class Sample:
    """One series of an answer: its labels with its name as `__name__`, and its newest value."""

    labels: Mapping[str, str]
    value: float


class Prometheus(ServerProcess):
    """Nothing is scraped, and no rule evaluated, before `watch` says what; `url` is its own."""

    what = "Prometheus"
    program = "prometheus"

    def __init__(self, parts: PrometheusParts, folder: Path) -> None:
        super().__init__(folder / "data", folder / "prometheus.log")
        self._parts = parts
        self._folder = folder
        self.url = f"http://127.0.0.1:{take_port()}"

    def watch(
        self, *services: str, rules: Sequence[Path] = (), token: str | None = None, every: str = EVERY
    ) -> None:
        """Scrape the services with these addresses (`http://127.0.0.1:…`) from now on, and evaluate these rules.

        `token`: what they want of who scrapes them.
        """
        targets = [service.removeprefix("http://") for service in services]
        job: dict[str, Any] = {"job_name": JOB, "static_configs": [{"targets": targets}]}
        if token is not None:
            job["authorization"] = {"credentials": token}
        configuration = {
            "global": {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every},
            "scrape_configs": [job],
            "rule_files": [str(rule) for rule in rules],
        }
        self._configuration.write_text(json.dumps(configuration))  # JSON is YAML
        self._ask("/-/reload", b"")

    def query(self, expression: str) -> list[Sample]:
        """What PromQL says now; a scalar is one sample without labels. Raises HTTPError where it's no PromQL."""
        data = self._data("/api/v1/query", query=expression)
        if data["resultType"] == "scalar":
            return [Sample({}, float(data["result"][1]))]
        return [Sample(each["metric"], float(each["value"][1])) for each in data["result"]]

    def value(self, expression: str) -> float:
        """The one value that PromQL says now; NaN if there's none."""
        samples = self.query(expression)
        assert len(samples) <= 1, f"{expression} has several values: {samples}"
        return samples[0].value if samples else math.nan

    def has_had(self, expression: str) -> bool:
        """Returns whether PromQL has a number for some whole second of half an hour, and always will.

        The half hour ended a moment ago. The present may still change: the samples of a scrape under way have its
        beginning as their time.
        """
        samples = self.query(f"max_over_time(({expression})[30m:1s] offset {SETTLED})")
        return any(not math.isnan(sample.value) for sample in samples)

    def firing(self) -> dict[str, list[Mapping[str, Any]]]:
        """By their names the alerts that fire: labels, annotations and value of each."""
        alerts: dict[str, list[Mapping[str, Any]]] = {}
        for alert in self._data("/api/v1/alerts")["alerts"]:
            if alert["state"] == "firing":
                alerts.setdefault(alert["labels"]["alertname"], []).append(alert)
        return alerts

    def scraped(self) -> bool:
        """Whether all services have been scraped, the last time with success."""
        targets = self._data("/api/v1/targets", state="active")["activeTargets"]
        return bool(targets) and all(target["health"] == "up" for target in targets)

    @property
    def _configuration(self) -> Path:
        return self._folder / "prometheus.yaml"

    def _make_data(self) -> None:
        self.data.mkdir(parents=True)
        self._configuration.write_text("{}")

    def _command(self) -> list[str | Path]:
        return [
            self._parts.prometheus,
            f"--config.file={self._configuration}",
            f"--storage.tsdb.path={self.data}",
            f"--web.listen-address={self.url.removeprefix('http://')}",
            "--web.enable-lifecycle",
            "--log.level=warn",
        ]

    def _answers(self) -> bool:
        try:
            self._ask("/-/ready")
        except OSError:
            return False
        return True

    def _data(self, path: str, **parameters: str) -> Any:
        answer = json.loads(self._ask(f"{path}?{urllib.parse.urlencode(parameters)}"))
        assert answer["status"] == "success", answer
        return answer["data"]

    def _ask(self, path: str, body: bytes | None = None) -> bytes:
        with _HTTP.open(self.url + path, body, _ANSWERS_WITHIN_S) as answer:
            text: bytes = answer.read()
            return text


@pytest.fixture
def prometheus(parts: Parts, tmp_path: Path) -> Iterator[Prometheus]:
    """One of the test's own, which scrapes nothing yet."""
    assert parts.prometheus is not None, "run `make setup-tests`"
    with Prometheus(parts.prometheus, tmp_path / "prometheus") as server:
        yield server
