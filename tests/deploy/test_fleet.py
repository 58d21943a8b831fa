"""The Compose file of a fleet is one by its specification, and each of its pipelines has a configuration."""

import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose

from actors.service.config_file import load
from deploy.toolchain.cache import REPOSITORY
from pipeline.config.settings import Settings

DEPLOY = REPOSITORY / "deploy"
FLEET: dict[str, Any] = yaml.safe_load((DEPLOY / "fleet.yaml").read_text())
SHARED = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
SPARK = FLEET["services"]["spark"]
PIPELINES = {
    name: service
    for name, service in FLEET["services"].items()
    if "extends" not in service and service is not SPARK
}


def settings_of(service: dict[str, Any], folder: Path) -> Settings:
    """The configuration of a pipeline, with its secrets where it finds them."""
    names = [each if isinstance(each, str) else each["target"] for each in service["secrets"]]
    for name in names:
        (folder / name).write_text(f"0123456789abcdef-{name}")
    text = (DEPLOY / "compose" / "fleet.toml").read_text().replace("/run/secrets", str(folder))
    (folder / "tidemark.toml").write_text(text)
    return load(folder / "tidemark.toml", service["environment"])


def test_it_is_a_model_of_the_specification() -> None:
    merged = yaml.safe_dump(FLEET)  # the library doesn't know YAML's merges, which Compose does
    assert set(PyCompose.from_yaml(merged).to_spec().services or ()) == set(FLEET["services"])
    assert len(PIPELINES) == 2
    with pytest.raises(Exception, match="no_such_key"):
        PyCompose.from_yaml(merged.replace("read_only: true", "no_such_key: 1")).to_spec()


def test_each_source_has_a_pipeline_of_its_own(tmp_path: Path) -> None:
    made = {name: settings_of(service, tmp_path) for name, service in PIPELINES.items()}
    assert {settings.name for settings in made.values()} == set(PIPELINES)
    for of in ("host", "server_id"):
        assert len({getattr(settings.source, of) for settings in made.values()}) == len(made)
    volumes = [service["volumes"][0].partition(":")[0] for service in PIPELINES.values()]
    ports = [service["ports"][0] for service in PIPELINES.values()]
    assert len(set(volumes)) == len(set(ports)) == len(made)
    assert all(port.startswith("127.0.0.1:") and port.endswith(":8321") for port in ports)


def test_what_it_refers_to_is_there() -> None:
    used, secrets = set(), set()
    for service in FLEET["services"].values():
        shared = SHARED[service["extends"]["service"]] if "extends" in service else {}
        for mount in (*service.get("volumes", ()), *shared.get("volumes", ())):
            source = mount.partition(":")[0]
            assert not source.startswith(".") or (DEPLOY / source).exists()
            used |= set() if source.startswith(".") else {source}
        for secret in (*service.get("secrets", ()), *shared.get("secrets", ())):
            secrets.add(secret if isinstance(secret, str) else secret["source"])
    assert used == set(FLEET["volumes"]) and secrets == set(FLEET["secrets"])


def test_its_pipelines_share_a_spark_that_only_they_reach(tmp_path: Path) -> None:
    """That it works is shown by `tests/integration/service/test_fleet.py`, whose Spark has its arguments."""
    assert "ports" not in SPARK and FLEET["networks"]["spark"] == {"internal": True}
    [lake] = SPARK["volumes"]
    for service in PIPELINES.values():
        settings = settings_of(service, tmp_path)
        assert settings.spark.master == "sc://spark:15002"
        assert settings.lake is not None and lake == f"lake:{settings.lake.path}"
        assert lake in service["volumes"]
    inside = [
        name for name, service in FLEET["services"].items() if "spark" in (service.get("networks") or ())
    ]
    assert inside == ["spark", *PIPELINES]


def test_the_health_of_spark_is_that_its_port_answers() -> None:
    """Without a check of its own it would have the image's, which asks for Tidemark."""
    kind, _, *words = SPARK["healthcheck"]["test"]
    assert kind == "CMD"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        check = [sys.executable, *(word.replace("15002", port) for word in words)]
        assert subprocess.run(check, check=False).returncode == 0
    assert subprocess.run(check, capture_output=True, check=False).returncode != 0


def test_native_libraries_are_loaded_from_tmp() -> None:
    """Java puts those of Parquet's codecs there. Docker mounts a tmpfs noexec unless it's said."""
    for service in (SPARK, *PIPELINES.values(), SHARED["tidemark"]):
        [mount] = service["tmpfs"]
        assert mount.startswith("/tmp:") and "exec" in mount.split(",")


def test_its_services_may_do_no_more_than_the_one_of_the_other_file() -> None:
    for service in (SPARK, *PIPELINES.values()):
        for key in ("read_only", "cap_drop", "security_opt", "stop_grace_period", "restart", "build"):
            assert service[key] == SHARED["tidemark"][key]


def test_prometheus_watches_each_pipeline() -> None:
    fleet, one = (
        yaml.safe_load((DEPLOY / "compose" / name).read_text())
        for name in ("fleet-prometheus.yaml", "prometheus.yaml")
    )
    [job] = fleet["scrape_configs"]
    assert job["static_configs"][0].pop("targets") == [f"{name}:8321" for name in PIPELINES]
    one["scrape_configs"][0]["static_configs"][0].pop("targets")
    assert fleet == one
