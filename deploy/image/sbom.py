"""What the image is made of, as CycloneDX: Python's packages, jars with what is packed inside them, Debian's packages.

It is read from what is there, not from what was asked for. A release has nothing there but our own files, so its bill
of materials is read from the locks. Neither has a time or a random number, so that the same parts have the same text.

Sources: CycloneDX 1.6 (ECMA-424), "JSON Reference"; Package URL (ECMA-427), types `pypi`, `maven`, `deb` and `generic`;
the manual page deb-control(5).
"""

import hashlib
import json
import re
import uuid
from collections.abc import Iterator, Mapping
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from zipfile import ZipFile

from deploy.image.runtime_lock import pins

Component = dict[str, Any]

_VERSIONED: Final = re.compile(r"(?P<name>.+?)-(?P<version>\d.*)")


def bill(
    program: Component, packages: Path, jars: list[Path], locked: Mapping[str, str], dpkg_status: str
) -> str:
    """Returns the bill of materials of a program: of a folder of Python's packages, of jars, of Debian's packages.

    `program` has its name and version. `locked`: coordinates of jars with their SHA-256, for those that don't say them.
    `dpkg_status` is the text of /var/lib/dpkg/status.
    """
    named = {digest: coordinates for coordinates, digest in locked.items()}
    packed = (each for jar in jars for each in _jar(jar, named))
    return _document(program, [*_python(packages), *packed, *_debian(dpkg_status)])


def locked_bill(program: Component, lock: str, jars: Mapping[str, str]) -> str:
    """Returns the bill of materials of a program that pip and `tidemark setup` bring together.

    `lock` pins Python's packages, as pip reads it. `jars`: coordinates of jars with their SHA-256.
    """
    packages = (_component("pypi", "", pin.name, pin.version) for pin in pins(lock))
    fetched = (_locked_jar(coordinates, digest) for coordinates, digest in jars.items())
    return _document(program, [*packages, *fetched])


def _document(program: Component, found: list[Component]) -> str:
    components = [component for _, component in sorted({each["bom-ref"]: each for each in found}.items())]
    contents: Component = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "application", "bom-ref": "tidemark", **program}},
        "components": components,
    }
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(contents, sort_keys=True))
    return json.dumps({**contents, "serialNumber": f"urn:uuid:{number}"}, indent=1) + "\n"


def _component(kind: str, group: str, name: str, version: str, **more: Any) -> Component:
    parts = [quote(part, safe="") for part in (group, name) if part]
    purl = f"pkg:{kind}/{'/'.join(parts)}@{quote(version, safe='')}"
    named = {"group": group} if group else {}
    return {
        "type": "library",
        "bom-ref": purl,
        **named,
        "name": name,
        "version": version,
        "purl": purl,
        **more,
    }


def _python(packages: Path) -> Iterator[Component]:
    for found in distributions(path=[str(packages)]):
        name = re.sub(r"[-_.]+", "-", found.metadata["Name"]).lower()
        yield _component("pypi", "", name, found.version)


def _jar(jar: Path, named: Mapping[str, str]) -> Iterator[Component]:
    """The jar by its coordinates, or by its name where it has none; and what is packed inside it."""
    digest = hashlib.sha256(jar.read_bytes()).hexdigest()
    hashes = sha256_hashes(digest)
    has_own = digest in named
    if has_own:
        yield _locked_jar(named[digest], digest)
    for group, name, version in _coordinates(jar):
        own = jar.stem.startswith(f"{name}-{version}")
        has_own = has_own or own
        yield _component("maven", group, name, version, **({"hashes": hashes} if own else {}))
    if not has_own:
        file = _VERSIONED.fullmatch(jar.stem)
        name, version = (jar.stem, "unknown") if file is None else file.group("name", "version")
        yield _component("generic", "", name, version, hashes=hashes)


def _locked_jar(coordinates: str, digest: str) -> Component:
    return _component("maven", *coordinates.split(":")[:3], hashes=sha256_hashes(digest))


def sha256_hashes(digest: str) -> list[dict[str, str]]:
    """Returns the hashes of a component of which only the SHA-256 is known."""
    return [{"alg": "SHA-256", "content": digest}]


def _coordinates(jar: Path) -> Iterator[tuple[str, str, str]]:
    with ZipFile(jar) as packed:
        for file in packed.namelist():
            if file.startswith("META-INF/maven/") and file.endswith("/pom.properties"):
                lines = packed.read(file).decode(errors="replace").splitlines()
                told = dict(line.strip().partition("=")[::2] for line in lines if "=" in line)
                yield told["groupId"], told["artifactId"], told["version"]


def _debian(dpkg_status: str) -> Iterator[Component]:
    for paragraph in dpkg_status.split("\n\n"):
        lines = (line.partition(": ") for line in paragraph.splitlines() if not line.startswith(" "))
        field = {key: value for key, _, value in lines}
        if field.get("Status", "").endswith(" installed"):
            yield _component("deb", "debian", field["Package"], field["Version"])
