"""The commands, settings and metrics in docs/operations.md exist."""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import get_args, get_type_hints

import yaml

from actors.service.cli import main
from pipeline import metrics
from pipeline.config.settings import Secret, Settings
from pipeline.metrics import Metric

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "operations.md").read_text()
CODE = re.findall(
    r"`([^`\n]+(?:\n[^`\n]+)?)`", re.sub(r"^```.*?^```", "", TEXT, flags=re.MULTILINE | re.DOTALL)
)
TYPED = "\n".join([*re.findall(r"^    (.+)$", TEXT, re.MULTILINE), *CODE])


def keys(kind: type[object] = Settings, before: str = "") -> Iterator[str]:
    """All keys of a configuration, dotted; those of files of secrets too."""
    for name, of in get_type_hints(kind).items():
        yield before + (f"{name}_file" if of is Secret else name)
        for inner in (of, *get_args(of)):
            if isinstance(inner, type) and is_dataclass(inner):
                yield from keys(inner, f"{before}{name}.")


def wrong_commands(text: str) -> Iterator[str]:
    """Returns what follows `tidemark` and isn't a command of it, or has an option that the command doesn't have."""
    for name, rest in re.findall(r"(?:^|[ `])tidemark ([a-z][a-z-]+)\b(.*)$", text, re.MULTILINE):
        command = main.commands.get(name)
        options = {option for parameter in command.params for option in parameter.opts} if command else set()
        if command is None or set(re.findall(r" (--[a-z-]+)", rest)) - options:
            yield f"{name}{rest}"


def test_the_commands_are_there() -> None:
    commands = TYPED.replace("tidemark check /etc", "tidemark check")
    assert len(re.findall("tidemark (?:check|run|status|signal|forget|import)", commands)) >= 8
    # Images, volumes and releases are called so as well.
    ours = re.sub(r"(docker|kubectl|helm install|--volume|--namespace).*", "", commands)
    assert list(wrong_commands(ours)) == []
    assert list(wrong_commands("tidemark chekc shop.toml\ntidemark run --fast")) == [
        "chekc shop.toml",
        "run --fast",
    ]


def test_the_keys_are_there() -> None:
    known = set(keys())
    sections = {key.partition(".")[0] for key in known if "." in key}
    named = {
        key for code in CODE for key in re.findall(rf"(?<![/\w])((?:{'|'.join(sections)})\.[a-z_.]+)\b", code)
    }
    assert len(named) >= 10
    assert named - known == set()


def test_the_metrics_and_alerts_are_there() -> None:
    known = {metric.name for metric in vars(metrics).values() if isinstance(metric, Metric)}
    assert set(re.findall(r"\btidemark_[a-z_]+[a-z]", TEXT)) <= known
    rules = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yaml").read_text())
    alerts = {rule["alert"] for group in rules["groups"] for rule in group["rules"]}
    assert set(re.findall(r"\bTidemark[A-Z]\w+", TEXT)) == alerts


def test_the_files_and_targets_are_there() -> None:
    named = set(re.findall(r"\b((?:deploy|grafana)/[\w./-]+[\w])", TEXT))
    assert len(named) >= 8
    assert [path for path in named if not (ROOT / path).exists()] == []
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)`", TEXT)) <= targets


def test_the_grants_are_those_of_the_readme() -> None:
    def grants(text: str) -> list[str]:
        return re.findall(r"^GRANT .*;$", text, re.MULTILINE)

    assert grants(TEXT) == grants((ROOT / "README.md").read_text()) != []


def test_a_server_certificate_is_made_as_it_is_written(tmp_path: Path) -> None:
    made = [
        line
        for line in re.findall(r"^    (.+)$", TEXT, re.MULTILINE)
        if line.startswith(("openssl", "printf"))
    ]
    assert len(made) == 4
    subprocess.run(["sh", "-e", "-c", "\n".join(made)], cwd=tmp_path, check=True, capture_output=True)
    checked = ["openssl", "verify", "-CAfile", "ca.pem", "-verify_hostname", "mysql.internal", "server.pem"]
    assert subprocess.run(checked, cwd=tmp_path, check=False, capture_output=True).returncode == 0
    other = [word.replace("mysql.internal", "other.internal") for word in checked]
    assert subprocess.run(other, cwd=tmp_path, check=False, capture_output=True).returncode != 0


def test_the_overlay_is_one() -> None:
    [text] = re.findall(r"^```yaml\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    overlay = yaml.safe_load(text)
    base = yaml.safe_load((ROOT / "deploy" / "kubernetes" / "base" / "kustomization.yaml").read_text())
    assert overlay["apiVersion"] == base["apiVersion"]
    assert overlay["configMapGenerator"][0]["name"] == base["configMapGenerator"][0]["name"]
