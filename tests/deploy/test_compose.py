"""The Compose file is one by its specification, and what it refers to is there."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose

from actors.service.config_file import load
from deploy.toolchain.cache import REPOSITORY
from pipeline.config.settings import TlsMode

DEPLOY = REPOSITORY / "deploy"
TEXT = (DEPLOY / "compose.yaml").read_text()
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(TEXT)["services"]
SECRETS: dict[str, dict[str, str]] = yaml.safe_load(TEXT)["secrets"]


def test_it_is_a_model_of_the_specification() -> None:
    services = PyCompose.from_yaml(TEXT).to_spec().services
    assert services
    assert set(services) == {"mysql", "kafka", "topics", "tidemark", "prometheus", "grafana"}


@pytest.mark.parametrize("wrong", ["read_only: [1]", "no_such_key: 1"])
def test_what_is_no_model_is_found(wrong: str) -> None:
    with pytest.raises(Exception, match=r"read_only|no_such_key"):
        PyCompose.from_yaml(TEXT.replace("read_only: true", wrong)).to_spec()


def test_what_is_mounted_is_there() -> None:
    mounts = [mount.split(":") for service in SERVICES.values() for mount in service.get("volumes", [])]
    files = [source for source, *_ in mounts if source.startswith(".")]
    assert len(files) >= 6
    assert [file for file in files if not (DEPLOY / file).exists()] == []
    volumes = set(yaml.safe_load(TEXT)["volumes"])
    assert {source for source, *_ in mounts if not source.startswith(".")} == volumes


def test_the_services_refer_to_what_there_is() -> None:
    for service in SERVICES.values():
        assert set(service.get("secrets", [])) <= set(SECRETS)
        assert set(service.get("depends_on", [])) <= set(SERVICES)
        if build := service.get("build"):
            assert (DEPLOY / build["context"] / build["dockerfile"]).exists()


def test_tidemark_may_do_no_more_than_it_has_to() -> None:
    service = SERVICES["tidemark"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "user" not in service  # the image's own, which isn't root
    for one in SERVICES.values():
        assert all(port.startswith("127.0.0.1:") for port in one.get("ports", []))


def test_its_configuration_is_one(tmp_path: Path) -> None:
    """With the secrets where it finds them, and the server, topics and rights of the other services."""
    for name in SERVICES["tidemark"]["secrets"]:
        (tmp_path / name).write_text(f"0123456789abcdef-{name}")
    text = (DEPLOY / "compose" / "tidemark.toml").read_text().replace("/run/secrets", str(tmp_path))
    (tmp_path / "tidemark.toml").write_text(text)
    settings = load(tmp_path / "tidemark.toml", {})
    assert settings.source.host in SERVICES
    assert settings.source.tls.mode is TlsMode.REQUIRED
    assert settings.signals.kafka
    assert {server.partition(":")[0] for server in settings.signals.kafka.bootstrap_servers} <= set(SERVICES)
    made = SERVICES["topics"]["command"][-1]
    assert settings.signals.kafka.topic in made
    assert settings.signals.kafka.answers_topic in made
    grants = (DEPLOY / "compose" / "capture-user.sh").read_text()
    assert f"CREATE USER {settings.source.user} " in grants
    assert "REPLICATION SLAVE, REPLICATION CLIENT ON *.*" in grants


def test_prometheus_finds_the_service_and_its_rules() -> None:
    config = yaml.safe_load((DEPLOY / "compose" / "prometheus.yaml").read_text())
    mounted = [mount.split(":")[1] for mount in SERVICES["prometheus"]["volumes"] if mount.startswith(".")]
    assert {f"/etc/prometheus/{file}" for file in config["rule_files"]} <= set(mounted)
    [job] = config["scrape_configs"]
    [target] = job["static_configs"][0]["targets"]
    service, _, port = target.partition(":")
    assert SERVICES[service]["ports"] == [f"127.0.0.1:{port}:{port}"]
    secret = Path(job["authorization"]["credentials_file"]).name
    assert secret in SERVICES["prometheus"]["secrets"]
    assert f"/run/secrets/{secret}" in (DEPLOY / "compose" / "tidemark.toml").read_text()


def test_secrets_are_made_once(tmp_path: Path) -> None:
    script = tmp_path / "secrets.sh"
    script.write_bytes((DEPLOY / "compose" / "secrets.sh").read_bytes())

    def made() -> dict[str, str]:
        subprocess.run(["sh", script], check=True)
        return {file.name: file.read_text() for file in (tmp_path / "secrets").iterdir()}

    first = made()
    assert set(first) == set(SECRETS)
    assert all(re.fullmatch("[0-9a-f]{64}", secret) for secret in first.values())
    assert len(set(first.values())) == len(first)
    assert os.stat(tmp_path / "secrets").st_mode & 0o777 == 0o700  # noqa: PTH116 - as a shell would ask
    assert made() == first
    assert {file["file"] for file in SECRETS.values()} == {f"./compose/secrets/{name}" for name in first}
