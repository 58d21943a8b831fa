"""The chart is linted, and what it renders is such by Kubernetes' schemas; the plain manifests are made of it."""

import json
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from actors.service.config_file import load
from deploy.helm.manifests import CHART, Manifest, plain_manifests, render
from deploy.prometheus.alerts import RULES
from deploy.toolchain.cache import REPOSITORY, ToolchainError
from deploy.toolchain.parts import Parts
from tests.deploy.test_kubernetes import MANIFESTS, validate

WATCHED = ("--set", "serviceMonitor.enabled=true,prometheusRule.enabled=true")


@pytest.fixture
def helm(parts: Parts) -> Path:
    if parts.kubectl is None:
        pytest.skip("Helm isn't for this machine")
    return parts.kubectl.helm


def by_kind(manifests: list[Manifest]) -> dict[str, Manifest]:
    """The manifests of a release with one pipeline."""
    found = {manifest["kind"]: manifest for manifest in manifests}
    assert len(found) == len(manifests)
    return found


def values_of(readme: str) -> set[str]:
    """The values that the table of the document names."""
    rows = [line.split("|")[1] for line in readme.splitlines() if line.startswith("| `")]
    found: set[str] = set()
    for row in rows:
        names = [part.strip(" `") for part in row.split(",")]
        parent = names[0].rpartition(".")[0]
        found |= {f"{parent}{name}" if name.startswith(".") else name for name in names}
    return found


def leaves(values: dict[str, Any], before: str = "") -> set[str]:
    """The values, dotted; those that are as in a manifest of Kubernetes as one."""
    found: set[str] = set()
    for name, value in values.items():
        path = f"{before}{name}"
        deeper = path in ("image", "storage", "serviceAccount", "networkPolicy", "networkPolicy.source")
        deeper = deeper or path in ("http", "serviceMonitor", "prometheusRule")
        found |= leaves(value, f"{path}.") if deeper else {path}
    return found


def test_it_is_linted_strictly(helm: Path) -> None:
    for values in ((), ("--values", CHART / "fleet.yaml")):
        done = subprocess.run(
            [helm, "lint", "--strict", CHART, *values], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_plain_manifests_are_made_of_it(helm: Path) -> None:
    made = dict(plain_manifests(helm))
    assert len(made) == 5
    for path, text in made.items():
        assert path.read_text(encoding="utf-8") == text, "python -m deploy.helm.manifests"


def test_it_renders_what_kubernetes_takes(helm: Path) -> None:
    rendered = by_kind(render(helm, *WATCHED))
    assert rendered.keys() == {manifest["kind"] for manifest in MANIFESTS} - {"Namespace"} | {"ConfigMap"}
    for manifest in rendered.values():
        validate(manifest)
        assert manifest["metadata"]["namespace"] == "tidemark"
    assert rendered["PrometheusRule"]["spec"] == yaml.safe_load(RULES.read_text())
    text = (REPOSITORY / "deploy" / "kubernetes" / "base" / "tidemark.toml").read_text()
    assert rendered["ConfigMap"]["data"]["tidemark.toml"] == text
    broken = rendered["StatefulSet"] | {"spec": rendered["StatefulSet"]["spec"] | {"replica": 1}}
    with pytest.raises(kubernetes_validate.ValidationError, match="replica"):
        validate(broken)


def test_a_configuration_and_an_image_of_ones_own(helm: Path, tmp_path: Path) -> None:
    (tmp_path / "shop.toml").write_text('name = "shop"  # {{ stays }}\n')
    digest = f"sha256:{'0' * 64}"
    given = ("--set-file", f"configuration={tmp_path / 'shop.toml'}", "--set", f"image.digest={digest}")
    rendered = by_kind(render(helm, *given, "--set", "secret=mine,networkPolicy.enabled=false", release="eu"))
    assert rendered["ConfigMap"]["data"]["tidemark.toml"] == 'name = "shop"  # {{ stays }}\n'
    assert "NetworkPolicy" not in rendered
    pod = rendered["StatefulSet"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == f"tidemark@{digest}"
    assert {"name": "secrets", "secret": {"secretName": "mine", "defaultMode": 0o440}} in pod["volumes"]
    assert {manifest["metadata"]["name"] for manifest in rendered.values()} == {"eu-tidemark"}
    other = by_kind(render(helm, "--set", "configuration=name", release="eu"))["StatefulSet"]["spec"]
    changed = rendered["StatefulSet"]["spec"]
    assert changed["selector"] == other["selector"]
    assert changed["template"]["metadata"]["annotations"] != other["template"]["metadata"]["annotations"]


def test_a_service_with_https_is_asked_by_https(helm: Path, tmp_path: Path) -> None:
    plain = by_kind(render(helm, *WATCHED))
    (tmp_path / "shop.toml").write_text('name = "shop"\n[http]\n[http.tls]\ncertificate = "server.pem"\n')
    given = ("--set-file", f"configuration={tmp_path / 'shop.toml'}", *WATCHED)
    with pytest.raises(ToolchainError, match=r"set http\.scheme=HTTPS"):
        render(helm, *given)
    rendered = by_kind(render(helm, *given, "--set", "http.scheme=HTTPS"))
    validate(rendered["StatefulSet"])
    for name, path in (("startup", "/livez"), ("liveness", "/livez"), ("readiness", "/readyz")):
        asked, before = (probes(each)[f"{name}Probe"] for each in (rendered, plain))
        assert asked["httpGet"] == {"path": path, "port": "http", "scheme": "HTTPS"}
        assert before == asked | {"httpGet": {"path": path, "port": "http"}}
    assert rendered["ServiceMonitor"]["spec"]["endpoints"][0]["scheme"] == "https"
    assert "scheme" not in plain["ServiceMonitor"]["spec"]["endpoints"][0]

    command = ["tidemark", "status", "/etc/tidemark/tidemark.toml"]
    asking = ("--set", "http.scheme=HTTPS", "--set-json", f"http.probeCommand={json.dumps(command)}")
    by_command = by_kind(render(helm, *given, *asking))
    validate(by_command["StatefulSet"])
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = probes(by_command)[probe]
        assert asked["exec"] == {"command": command} and "httpGet" not in asked


@pytest.mark.parametrize(
    "text",
    [
        'name = "shop"\n[ http . tls ]\ncertificate = "server.pem"\n',
        'name = "shop"\nhttp = { port = 8321, tls = { certificate = "server.pem" } }\n',
        'http.tls.certificate = "server.pem"\n',
        'http.tls = { certificate = "server.pem" }\n',
        '[http]\nport = 8321\n\n# a comment\n  tls = { certificate = "server.pem" }\n',
        '[http] # ours\r\ntls.certificate = "server.pem"\r\n',
    ],
)
def test_a_service_with_https_is_known_however_its_configuration_says_it(
    helm: Path, tmp_path: Path, text: str
) -> None:
    assert "certificate" in tomllib.loads(text)["http"]["tls"]
    (tmp_path / "shop.toml").write_bytes(text.encode())
    with pytest.raises(ToolchainError, match=r"set http\.scheme=HTTPS"):
        render(helm, "--set-file", f"configuration={tmp_path / 'shop.toml'}")


def test_a_service_with_https_is_known_by_its_environment(helm: Path, tmp_path: Path) -> None:
    env = json.dumps([{"name": "TIDEMARK__HTTP__TLS__CERTIFICATE", "value": "server.pem"}])
    with pytest.raises(ToolchainError, match=r"set http\.scheme=HTTPS"):
        render(helm, "--set-json", f"env={env}")
    other = (
        '[http]\nport = 8321\n# tls = { certificate = "server.pem" }\n[source]\ntls = { mode = "verify" }\n'
    )
    (tmp_path / "shop.toml").write_text(other)
    render(helm, "--set-file", f"configuration={tmp_path / 'shop.toml'}")


def test_values_of_a_release_before_http_are_enough(helm: Path) -> None:
    """`helm upgrade --reuse-values` brings those alone."""
    assert by_kind(render(helm, *WATCHED, "--set", "http=null")) == by_kind(render(helm, *WATCHED))


def probes(rendered: dict[str, Manifest]) -> Manifest:
    """The container that has them."""
    container: Manifest = rendered["StatefulSet"]["spec"]["template"]["spec"]["containers"][0]
    return container


def test_prometheus_selects_its_objects_by_labels_of_ones_own(helm: Path) -> None:
    tls = {"ca": {"secret": {"name": "tidemark", "key": "ca.pem"}}, "serverName": "tidemark"}
    labels = ("--set", "serviceMonitor.labels.release=stack,prometheusRule.labels.release=rules")
    rendered = by_kind(
        render(helm, *WATCHED, *labels, "--set-json", f"serviceMonitor.tlsConfig={json.dumps(tls)}")
    )
    assert rendered["ServiceMonitor"]["spec"]["endpoints"][0]["tlsConfig"] == tls
    for kind, release in (("ServiceMonitor", "stack"), ("PrometheusRule", "rules")):
        found = rendered[kind]["metadata"]["labels"]
        assert found["release"] == release and found["app.kubernetes.io/name"] == "tidemark"


def test_each_source_of_a_fleet_has_a_pipeline(helm: Path, tmp_path: Path) -> None:
    rendered = render(helm, "--values", CHART / "fleet.yaml", *WATCHED, release="fleet")
    for manifest in rendered:
        validate(manifest)
    pods = {m["metadata"]["name"]: m["spec"] for m in rendered if m["kind"] == "StatefulSet"}
    texts = {m["metadata"]["name"]: m["data"]["tidemark.toml"] for m in rendered if m["kind"] == "ConfigMap"}
    assert pods.keys() == texts.keys() == {"fleet-tidemark-shop", "fleet-tidemark-crm"}
    selectors = [json.dumps(spec["selector"], sort_keys=True) for spec in pods.values()]
    assert len(set(selectors)) == 2
    claims = {name: spec["volumeClaimTemplates"][0]["spec"] for name, spec in pods.items()}
    sizes = {name: claim["resources"]["requests"]["storage"] for name, claim in claims.items()}
    assert sizes == {"fleet-tidemark-shop": "100Gi", "fleet-tidemark-crm": "20Gi"}
    # One Service, one policy and one monitor are for all of them.
    shared = [m for m in rendered if m["kind"] in ("Service", "NetworkPolicy", "ServiceMonitor")]
    assert len(shared) == 3
    for name, text in texts.items():
        folder = tmp_path / name
        folder.mkdir()
        for key in ("mysql-password", "mysql-ca.pem", "http-token", "http-read-token"):
            (folder / key).write_text(f"0123456789abcdef-{key}")
        (folder / "tidemark.toml").write_text(text.replace("/run/secrets/tidemark", str(folder)))
        settings = load(folder / "tidemark.toml", {})
        assert name.endswith(settings.name) and settings.source.host == f"mysql-{settings.name}.internal"
    assert len({tomllib.loads(text)["source"]["server_id"] for text in texts.values()}) == 2


@pytest.mark.parametrize(
    "wrong",
    [
        "image.digest=latest",
        "imge.tag=1",
        "sources[0].host=db",
        "storage.size=much",
        "networkPolicy.source.to=[]",
    ],
)
def test_a_mistake_in_a_value_is_refused(wrong: str, helm: Path) -> None:
    option = "--set-json" if wrong.endswith("[]") else "--set"
    with pytest.raises(ToolchainError, match="values don't meet the specifications of the schema"):
        render(helm, option, wrong)


def test_the_document_and_the_schema_name_each_value() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert values_of((CHART / "README.md").read_text()) == leaves(values)
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert schema["properties"].keys() == values.keys() | {"global"}


def test_its_version_is_the_program_s() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == project["version"]


def test_a_package_of_it_needs_no_checkout(helm: Path, tmp_path: Path) -> None:
    subprocess.run([helm, "package", CHART, "--destination", tmp_path], capture_output=True, check=True)
    (package,) = tmp_path.glob("tidemark-*.tgz")
    shutil.unpack_archive(package, tmp_path, filter="data")
    packed = tmp_path / "tidemark" / "files"
    assert (packed / "alerts.yaml").read_bytes() == RULES.read_bytes()
    assert not (packed / "tidemark.toml").is_symlink() and (packed / "tidemark.toml").stat().st_size
