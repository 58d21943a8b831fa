"""A release is made of a clean commit alone, and twice the same."""

import json
import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

from actors.service.cli import VERSION
from deploy.release import CHECKSUMS, refusals
from deploy.toolchain.cache import REPOSITORY
from deploy.toolchain.parts import Parts

FILES = {
    f"tidemark-{VERSION}.tar.gz",
    f"tidemark-{VERSION}-py3-none-any.whl",
    f"tidemark-{VERSION}-image.tar.gz",
    f"tidemark-{VERSION}-docs.tar.gz",
    f"tidemark-{VERSION}.tgz",
    f"tidemark-{VERSION}.cdx.json",
    CHECKSUMS,
}


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small one that can be released."""
    chart = tmp_path / "deploy" / "helm" / "tidemark"
    chart.mkdir(parents=True)
    (chart / "Chart.yaml").write_text(f"version: {VERSION}\nappVersion: {VERSION}\n")
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## {VERSION} (2026-11-27)\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message=all")
    return tmp_path


def test_a_clean_commit_with_its_heading_can_be_released(checkout: Path) -> None:
    assert list(refusals(checkout, VERSION)) == []


def test_what_is_not_committed_is_not_released(checkout: Path) -> None:
    (checkout / "new").touch()
    (wrong,) = refusals(checkout, VERSION)
    assert wrong == "1 files differ from the commit (new, …); commit them, or remove them"


def test_a_version_has_its_heading_and_is_one_everywhere(checkout: Path) -> None:
    heading, *others = refusals(checkout, "9.9.9")
    assert heading.startswith("CHANGELOG.md has no heading for 9.9.9; write `## 9.9.9`")
    assert [each.split(" is ")[0] for each in others] == ["tidemark --version", "the chart", "its appVersion"]


@pytest.mark.full
def test_a_release_has_all_files_and_is_made_twice_the_same(parts: Parts, tmp_path: Path) -> None:
    if parts.kubectl is None:
        pytest.skip("Helm isn't for this machine")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(REPOSITORY), str(clone))
    (clone / ".venv").symlink_to(Path(sys.prefix))
    changes = (clone / "CHANGELOG.md").read_text()
    (clone / "CHANGELOG.md").write_text(changes.replace("## Unreleased", f"## {VERSION}", 1))
    git(clone, "commit", "--quiet", "--all", "--message=release")
    made = clone / "build" / "release"
    sums = set()
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-m", "deploy.release"], cwd=clone, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert {path.name for path in made.iterdir()} == FILES
        sums.add((made / CHECKSUMS).read_text())
    subprocess.run(["sha256sum", "--check", "--quiet", CHECKSUMS], cwd=made, check=True)
    assert len(sums) == 1
    with ZipFile(made / f"tidemark-{VERSION}-py3-none-any.whl") as wheel:
        packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    listed = ["git", "ls-files", "actors", "pipeline", "tidemark"]
    assert packed == set(subprocess.check_output(listed, cwd=clone, text=True).splitlines())
    told = json.loads((made / f"tidemark-{VERSION}.cdx.json").read_text())
    assert told["metadata"]["component"]["hashes"][0]["content"] in (made / CHECKSUMS).read_text()
    kinds = {component["bom-ref"].partition("/")[0] for component in told["components"]}
    assert kinds == {"pkg:pypi", "pkg:maven"}
    with tarfile.open(made / f"tidemark-{VERSION}-image.tar.gz") as context:
        names = set(context.getnames())
    assert "deploy/image/Dockerfile" in names and "tests" not in names
    with tarfile.open(made / f"tidemark-{VERSION}-docs.tar.gz") as site:
        assert "site/index.html" in site.getnames()
