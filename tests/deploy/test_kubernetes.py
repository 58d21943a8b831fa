"""The manifests are such by Kubernetes' own schemas, fit each other, and ask for no more than they have to."""

import subprocess
import tomllib
from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from actors.service.config_file import load
from deploy.toolchain.cache import REPOSITORY
from deploy.toolchain.parts import Parts
from pipeline.config.settings import TlsMode

BASE = REPOSITORY / "deploy" / "kubernetes" / "base"
WATCHED = REPOSITORY / "deploy" / "kubernetes" / "prometheus-operator"

# The present schemas, and the newest: what's too new or gone is found.
VERSIONS = ("1.31", "1.37")

Manifest = dict[str, Any]


def manifests(folder: Path) -> Iterator[Manifest]:
    """Returns the manifests of a kustomization and of those that it builds on, as their files have them."""
    for name in yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]:
        if (folder / name).is_dir():
            yield from manifests(folder / name)
        else:
            yield from yaml.safe_load_all((folder / name).read_text())


MANIFESTS = list(manifests(WATCHED))


def the(kind: str) -> Manifest:
    [found] = [manifest for manifest in MANIFESTS if manifest["kind"] == kind]
    return found


def validate(manifest: Manifest) -> None:
    """By each version's schema; kinds that aren't Kubernetes' own have none."""
    if manifest["apiVersion"] != "monitoring.coreos.com/v1":
        for version in VERSIONS:
            kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda manifest: manifest["kind"])
def test_each_is_as_its_schema_says(manifest: Manifest) -> None:
    validate(manifest)


def test_what_is_not_is_found() -> None:
    with pytest.raises(kubernetes_validate.ValidationError, match="replica"):
        validate(the("StatefulSet") | {"spec": the("StatefulSet")["spec"] | {"replica": 1}})


def test_every_file_is_part_of_it() -> None:
    for folder in (BASE, WATCHED):
        listed = yaml.safe_load((folder / "kustomization.yaml").read_text())
        generated = [file for made in listed.get("configMapGenerator", []) for file in made["files"]]
        there = {file.name for file in folder.iterdir()} - {"kustomization.yaml"}
        assert there == {name for name in (*listed["resources"], *generated) if (folder / name).is_file()}


def test_kustomize_puts_them_together(parts: Parts) -> None:
    if parts.kubectl is None:
        pytest.skip("kubectl isn't for this machine")
    command: list[str | Path] = [parts.kubectl.kubectl, "kustomize", WATCHED]
    built = subprocess.run(command, capture_output=True, text=True, check=True)
    found: list[Manifest] = list(yaml.safe_load_all(built.stdout))
    assert sorted(manifest["kind"] for manifest in found) == sorted(
        ["ConfigMap", *(manifest["kind"] for manifest in MANIFESTS)]
    )
    by_kind = {manifest["kind"]: manifest for manifest in found}
    for manifest in found:
        validate(manifest)
        assert manifest["kind"] == "Namespace" or manifest["metadata"]["namespace"] == "tidemark"
    # What belongs together finds each other.
    labels = by_kind["StatefulSet"]["spec"]["template"]["metadata"]["labels"].items()
    for selector in (
        by_kind["StatefulSet"]["spec"]["selector"]["matchLabels"],
        by_kind["Service"]["spec"]["selector"],
        by_kind["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
    ):
        assert selector
        assert selector.items() <= labels
    watched = by_kind["ServiceMonitor"]["spec"]["selector"]["matchLabels"]
    assert watched.items() <= by_kind["Service"]["metadata"]["labels"].items()
    [configuration] = [v for v in _pod(by_kind["StatefulSet"])["volumes"] if v["name"] == "configuration"]
    assert configuration["configMap"]["name"] == by_kind["ConfigMap"]["metadata"]["name"]


def _pod(stateful_set: Manifest) -> Manifest:
    pod: Manifest = stateful_set["spec"]["template"]["spec"]
    return pod


def test_there_is_one_pod_at_a_time() -> None:
    assert the("StatefulSet")["spec"]["replicas"] == 1


def test_the_pod_may_do_no_more_than_it_has_to() -> None:
    pod = _pod(the("StatefulSet"))
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    [container] = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["requests"].keys() == {"cpu", "memory"}
    assert "env" not in container and "envFrom" not in container  # secrets are files


def test_it_runs_as_the_user_of_the_image() -> None:
    image = (REPOSITORY / "deploy" / "image" / "Dockerfile").read_text()
    context = _pod(the("StatefulSet"))["securityContext"]
    assert f"USER {context['runAsUser']}:{context['runAsGroup']}\n" in image
    assert context["fsGroup"] == context["runAsGroup"]


def test_its_ports_are_one() -> None:
    [container] = _pod(the("StatefulSet"))["containers"]
    [port] = container["ports"]
    [service] = the("Service")["spec"]["ports"]
    [watched] = the("ServiceMonitor")["spec"]["endpoints"]
    [allowed] = [port for rule in the("NetworkPolicy")["spec"]["ingress"] for port in rule["ports"]]
    assert service["port"] == port["containerPort"] == 8321
    assert {service["targetPort"], watched["port"], allowed["port"], service["name"]} == {port["name"]}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] == port["name"]
    assert "EXPOSE 8321\n" in (REPOSITORY / "deploy" / "image" / "Dockerfile").read_text()


def test_the_network_lets_through_what_the_configuration_needs() -> None:
    policy = the("NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    configured = tomllib.loads((BASE / "tidemark.toml").read_text())
    assert "kafka" not in configured and "://" not in configured["lake"]["path"]
    assert {port["port"] for rule in policy["egress"] for port in rule["ports"]} == {53, 3306}
    for peer in (peer for rule in policy["ingress"] for peer in rule["from"]):
        assert peer["podSelector"]["matchLabels"] and peer["namespaceSelector"]["matchLabels"]
    blocks = [peer["ipBlock"] for rule in policy["egress"] for peer in rule["to"] if "ipBlock" in peer]
    for secret in ("169.254.169.254", "fd00:ec2::254"):  # where clouds give out a machine's credentials
        address = ip_address(secret)
        for block in (block for block in blocks if address in ip_network(block["cidr"])):
            assert any(address in ip_network(hole) for hole in block["except"])


def test_its_configuration_is_one_and_its_secrets_are_files(tmp_path: Path) -> None:
    listed = (BASE / "kustomization.yaml").read_text()
    for key in ("mysql-password", "mysql-ca.pem", "http-token", "http-read-token"):
        assert key in listed
        (tmp_path / key).write_text(f"0123456789abcdef-{key}")
    text = (BASE / "tidemark.toml").read_text()
    [mount] = [m for m in _pod(the("StatefulSet"))["containers"][0]["volumeMounts"] if m["name"] == "secrets"]
    (tmp_path / "tidemark.toml").write_text(text.replace(mount["mountPath"], str(tmp_path)))
    settings = load(tmp_path / "tidemark.toml", {})
    assert settings.source.tls.mode is TlsMode.VERIFY
    assert settings.source.tls.ca == tmp_path / "mysql-ca.pem"
    credentials = the("ServiceMonitor")["spec"]["endpoints"][0]["authorization"]["credentials"]
    assert credentials == {"name": "tidemark", "key": "http-read-token"}
    volumes = {volume["name"]: volume for volume in _pod(the("StatefulSet"))["volumes"]}
    assert volumes["secrets"]["secret"]["secretName"] == credentials["name"]
