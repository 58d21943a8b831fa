"""Makes what a release consists of, with checksums, in build/release. It publishes nothing.

    python -m deploy.release

Everything is made of the commit that is checked out: the wheel of the source archive, the context that the image is
built of, the chart, and the site of the docs. The bill of materials (CycloneDX) names the wheel and what an install by
pip and `tidemark setup` brings with it, as the locks pin that. The image's own is made with the image, and is in it.
Two runs of one commit make the same files.
"""

import gzip
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import yaml

from actors.service.cli import VERSION
from actors.service.installation.pinned_jars import DELTA_LOCK, read_lock, sha256
from actors.service.installation.s3_jars import S3_LOCK
from deploy.image.runtime_lock import runtime_part
from deploy.image.sbom import locked_bill, sha256_hashes
from deploy.toolchain.cache import REPOSITORY, ToolchainError, run, say
from deploy.toolchain.parts import locate

RELEASE: Final = REPOSITORY / "build" / "release"
CHECKSUMS: Final = "SHA256SUMS"

_BUILD: Final = "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])"


def refusals(root: Path, version: str) -> Iterator[str]:
    """Yields why a checkout can't be released as this version, with what to do."""
    if changed := _git(root, "status", "--porcelain").splitlines():
        yield f"{len(changed)} files differ from the commit ({changed[0].split()[-1]}, …); commit them, or remove them"
    headings = re.findall(r"^## (.+)$", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    if not any(heading.split()[0] == version for heading in headings):
        yield f"CHANGELOG.md has no heading for {version}; write `## {version}` above what it brings"
    chart = yaml.safe_load((root / "deploy" / "helm" / "tidemark" / "Chart.yaml").read_text())
    told = {
        "tidemark --version": VERSION,
        "the chart": chart["version"],
        "its appVersion": chart["appVersion"],
    }
    yield from (
        f"{where} is {found}, and not {version}; set it" for where, found in told.items() if found != version
    )


def make_release(root: Path, into: Path, version: str) -> None:
    """Fill a new folder with the files of a release."""
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    environment = {**os.environ, "SOURCE_DATE_EPOCH": _git(root, "log", "-1", "--format=%ct").strip()}
    with tempfile.TemporaryDirectory() as scratch:
        say("source archive and wheel")
        _python_packages(root, into, Path(scratch), environment)
        say("bill of materials")
        _bill(into, Path(scratch) / "checkout", version)
        say("context of the image")
        _archive(into / f"tidemark-{version}-image.tar.gz", _image_context(root))
        say("chart")
        _chart(into, Path(scratch) / "checkout")
        say("site of the docs")
        _site(into / f"tidemark-{version}-docs.tar.gz", Path(scratch), environment)
    files = sorted(path for path in into.iterdir())
    (into / CHECKSUMS).write_text("".join(f"{sha256(file)}  {file.name}\n" for file in files))


def _python_packages(root: Path, into: Path, scratch: Path, environment: dict[str, str]) -> None:
    """Makes the source archive of the commit, and the wheel of that archive alone."""
    checkout, unpacked = scratch / "checkout", scratch / "unpacked"
    with tarfile.open(fileobj=io.BytesIO(_bytes(root, "archive", "HEAD"))) as committed:
        committed.extractall(checkout, filter="data")
    _run([sys.executable, "-c", _BUILD, "build_sdist", into], checkout, environment)
    [archive] = into.glob("*.tar.gz")
    shutil.unpack_archive(archive, unpacked, filter="data")
    [source] = unpacked.iterdir()
    _archive(archive, _packed(source, environment))  # setuptools writes the present time into it
    _run([sys.executable, "-c", _BUILD, "build_wheel", into], source, environment)


def _bill(into: Path, checkout: Path, version: str) -> None:
    """Writes what the wheel needs to run: Python's packages, and the jars that `tidemark setup --s3` fetches."""
    [wheel] = into.glob("*.whl")
    program = {
        "name": "tidemark",
        "version": version,
        "purl": f"pkg:pypi/tidemark@{version}",
        "hashes": sha256_hashes(sha256(wheel)),
    }
    lock = runtime_part((checkout / "deploy" / "requirements.lock").read_text(encoding="utf-8"))
    locks = checkout / "actors" / "service" / "installation"
    jars = read_lock(locks / DELTA_LOCK.name) | read_lock(locks / S3_LOCK.name)
    (into / f"tidemark-{version}.cdx.json").write_text(locked_bill(program, lock, jars), encoding="utf-8")


def _image_context(root: Path) -> bytes:
    """Returns what .dockerignore lets through, as a tar: `docker build -f deploy/image/Dockerfile - < …`."""
    lines = (root / ".dockerignore").read_text().splitlines()
    return _bytes(root, "archive", "HEAD", *[line[1:] for line in lines if line.startswith("!")])


def _chart(into: Path, checkout: Path) -> None:
    parts = locate()
    if parts.kubectl is None:
        raise ToolchainError("Helm isn't here: run `make setup-tests`")
    run([parts.kubectl.helm, "package", checkout / "deploy" / "helm" / "tidemark", "--destination", into])


def _site(archive: Path, scratch: Path, environment: dict[str, str]) -> None:
    """Builds the site, strictly."""
    settings = scratch / "checkout" / "deploy" / "site" / "mkdocs.yml"
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--quiet",
        "--config-file",
        settings,
    ]
    _run([*command, "--site-dir", scratch / "site"], scratch, environment)
    _archive(archive, _packed(scratch / "site", environment))


def _packed(folder: Path, environment: dict[str, str]) -> bytes:
    """Returns a folder as a tar, with the commit's time and without names of users."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path in (folder, *sorted(folder.rglob("*"))):
            entry = tar.gettarinfo(path, str(path.relative_to(folder.parent)))
            entry.mtime = int(environment["SOURCE_DATE_EPOCH"])
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            with path.open("rb") if path.is_file() else io.BytesIO() as content:
                tar.addfile(entry, content if path.is_file() else None)
    return packed.getvalue()


def _archive(path: Path, tar: bytes) -> None:
    """Compresses a tar, without a name and a time in it."""
    path.write_bytes(gzip.compress(tar, mtime=0))


def _run(command: Sequence[str | Path], cwd: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ToolchainError((done.stdout + done.stderr).strip())


def _git(root: Path, *arguments: str) -> str:
    return run(["git", *arguments], root)


def _bytes(root: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, check=True).stdout


def main() -> int:
    """Make the release, or say what keeps it from being made."""
    version: str = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    if wrong := list(refusals(REPOSITORY, version)):
        print(
            "\n".join([f"release: {version} can't be made:", *(f"  {each}" for each in wrong)]),
            file=sys.stderr,
        )
        return 1
    try:
        make_release(REPOSITORY, RELEASE, version)
    except ToolchainError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    print((RELEASE / CHECKSUMS).read_text(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
