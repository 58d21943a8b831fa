"""Makes the manifests of deploy/kubernetes from the chart, so that they are kept in one place.

    python -m deploy.helm.manifests

They are what the chart renders with its default values, one file for each object, without what only Helm has use for.
The ConfigMap isn't among them: Kustomize makes it of `tidemark.toml`. Neither is the PrometheusRule, which
`deploy.prometheus.alerts` makes.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.toolchain.cache import ToolchainError
from deploy.toolchain.parts import locate

CHART: Final = Path(__file__).with_name("tidemark")
KUBERNETES: Final = Path(__file__).parents[1] / "kubernetes"
HEAD: Final = (
    "# Made by `python -m deploy.helm.manifests` of the chart in deploy/helm/tidemark, which says why.\n"
)

_OF_HELM: Final = ("app.kubernetes.io/managed-by", "app.kubernetes.io/version", "helm.sh/chart")
_FOLDERS: Final = {
    "NetworkPolicy": "base",
    "Service": "base",
    "ServiceAccount": "base",
    "ServiceMonitor": "prometheus-operator",
    "StatefulSet": "base",
}

Manifest = dict[str, Any]


def render(helm: Path, *options: str | Path, release: str = "tidemark") -> list[Manifest]:
    """Returns what the chart renders. Raises ToolchainError with Helm's words if it refuses."""
    command = [helm, "template", release, CHART, "--namespace", "tidemark", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ToolchainError(done.stderr)
    return [manifest for manifest in yaml.safe_load_all(done.stdout) if manifest]


def plain_manifests(helm: Path) -> Iterator[tuple[Path, str]]:
    """Yields each file of deploy/kubernetes that is made of the chart, with its text."""
    for manifest in render(helm, "--set", "serviceMonitor.enabled=true"):
        if folder := _FOLDERS.get(manifest["kind"]):
            text = yaml.safe_dump(_without_helm(manifest), sort_keys=False, width=110)
            yield KUBERNETES / folder / f"{manifest['kind'].lower()}.yaml", HEAD + text


def _without_helm(manifest: Manifest) -> Manifest:
    """Returns a manifest without the labels, annotations and names that Kustomize or Helm give it."""
    metadata = {key: value for key, value in manifest["metadata"].items() if key != "namespace"}
    labels = {key: value for key, value in metadata["labels"].items() if key not in _OF_HELM}
    made = {**manifest, "metadata": {**metadata, "labels": labels}}
    if manifest["kind"] == "StatefulSet":
        template = made["spec"]["template"]
        del template["metadata"]["annotations"]
        template["metadata"]["labels"] = dict(template["metadata"]["labels"])  # YAML would write a reference
        [container] = template["spec"]["containers"]
        container["image"] = "tidemark"
        del container["imagePullPolicy"]
    return made


if __name__ == "__main__":
    parts = locate()
    if parts.kubectl is None:
        raise SystemExit("Helm isn't here: run `make setup-tests`")
    for path, text in plain_manifests(parts.kubectl.helm):
        path.write_text(text, encoding="utf-8")
