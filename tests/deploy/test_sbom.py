"""The bill of materials has what is there, by its own name and version, and is such by CycloneDX' rules."""

import hashlib
import json
import re
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any
from zipfile import ZipFile

import pyarrow as pa
import pyspark

from actors.service.installation.pinned_jars import DELTA_LOCK, read_lock
from deploy.image.runtime_lock import runtime_part
from deploy.image.sbom import bill, locked_bill
from deploy.toolchain.cache import REPOSITORY

PACKAGES = Path(pa.__file__).parents[1]
SPARKS = Path(pyspark.__file__).parent / "jars"
STATUS = """\
Package: tini
Status: install ok installed
Version: 0.19.0-1
Description: tiny but valid `init` for containers
 Package: this isn't a package

Package: gone
Status: deinstall ok config-files
Version: 1

Package: libc6
Status: install ok installed
Version: 2.36-9+deb12u10
"""


def made(
    jars: list[Path], packages: Path = PACKAGES, locked: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Any]:
    told = json.loads(bill({"name": "tidemark", "version": "1"}, packages, jars, locked, STATUS))
    assert isinstance(told, dict)
    return told


def _digest(jar: Path) -> str:
    return hashlib.sha256(jar.read_bytes()).hexdigest()


def by_ref(told: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {component["bom-ref"]: component for component in told["components"]}


def test_packages_of_python_jars_and_debian_are_there() -> None:
    (log4j,) = SPARKS.glob("log4j-core-*.jar")
    found = by_ref(made([log4j]))
    number = log4j.stem.removeprefix("log4j-core-")
    own = found[f"pkg:maven/org.apache.logging.log4j/log4j-core@{number}"]
    assert own["hashes"] == [{"alg": "SHA-256", "content": _digest(log4j)}]
    assert found[f"pkg:pypi/pyarrow@{version('pyarrow')}"]["version"] == version("pyarrow")
    debian = {ref for ref in found if ref.startswith("pkg:deb/")}
    assert debian == {"pkg:deb/debian/tini@0.19.0-1", "pkg:deb/debian/libc6@2.36-9%2Bdeb12u10"}


def test_a_jar_without_coordinates_has_its_name_and_a_packed_one_is_named_too(tmp_path: Path) -> None:
    plain, fat, listed = (
        tmp_path / name for name in ("chill-java-0.10.0.jar", "fat-2.0.jar", "lock-1.0.jar")
    )
    ZipFile(plain, "w").close()
    with ZipFile(listed, "w") as packed:
        packed.writestr("some", "class")
    with ZipFile(fat, "w") as packed:
        for group, name, number in (("org.x", "fat", "2.0"), ("org.y", "inner", "3.1")):
            text = f"#made\r\ngroupId={group}\r\nartifactId={name}\r\nversion={number}\r\n"
            packed.writestr(f"META-INF/maven/{group}/{name}/pom.properties", text)
    locked = {"org.z:lock:1.0:tests:jar": _digest(listed)}
    found = by_ref(made([plain, fat, listed], tmp_path, locked))
    assert "hashes" in found["pkg:maven/org.z/lock@1.0"]
    assert "hashes" in found["pkg:generic/chill-java@0.10.0"]
    assert "hashes" in found["pkg:maven/org.x/fat@2.0"]
    assert "hashes" not in found["pkg:maven/org.y/inner@3.1"]
    assert len(found) == 6


def test_it_is_as_cyclonedx_wants_it_and_the_same_each_time() -> None:
    jars = sorted(SPARKS.glob("a*.jar"))
    told = made([*jars, jars[0]])
    assert (told["bomFormat"], told["specVersion"], told["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", told["serialNumber"])
    assert len(by_ref(told)) == len(told["components"]) > 50
    for component in (told["metadata"]["component"], *told["components"]):
        assert component["type"] in ("application", "library") and component["name"]
    assert told == made([*jars, jars[0]])


def test_that_of_an_install_by_pip_has_what_the_locks_pin() -> None:
    lock = (REPOSITORY / "deploy" / "requirements.lock").read_text()
    jars = read_lock(DELTA_LOCK)
    told = json.loads(locked_bill({"name": "tidemark", "version": "1"}, runtime_part(lock), jars))
    found = by_ref(told)
    for needed in ("pyspark", "pyarrow", "aiokafka", "cramjam", "frozenlist"):
        assert found[f"pkg:pypi/{needed}@{version(needed)}"]["version"] == version(needed)
    assert not any(name.startswith(("pkg:pypi/moto@", "pkg:pypi/pytest@")) for name in found)
    (delta,) = (jar for jar in jars if ":delta-storage:" in jar)
    hashes = found[f"pkg:maven/io.delta/{delta.split(':', 1)[1].replace(':', '@')}"]["hashes"]
    assert hashes == [{"alg": "SHA-256", "content": jars[delta]}]
    assert (told["bomFormat"], told["specVersion"]) == ("CycloneDX", "1.6")
    assert len(found) == len(told["components"])
    assert told == json.loads(locked_bill({"name": "tidemark", "version": "1"}, runtime_part(lock), jars))
