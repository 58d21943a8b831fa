"""What an install by pip gets: a wheel with every file of the program, and the command."""

import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from zipfile import ZipFile

_ROOT = Path(__file__).parents[2]
_PACKAGES = ("actors", "pipeline", "tidemark")


def test_a_wheel_has_all_of_the_program(tmp_path: Path) -> None:
    source = tmp_path / "source"
    unwritten = shutil.ignore_patterns("__pycache__")
    for package in _PACKAGES:
        shutil.copytree(_ROOT / package, source / package, ignore=unwritten)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(_ROOT / name, source)
    build = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, tmp_path], cwd=source, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    wanted = {
        str(file.relative_to(source))
        for package in _PACKAGES
        for file in (source / package).rglob("*")
        if file.is_file()
    }
    with ZipFile(wheel) as packed:
        names = set(packed.namelist())
        entry_points = ConfigParser()
        (declared,) = (name for name in names if name.endswith("entry_points.txt"))
        entry_points.read_string(packed.read(declared).decode())
    assert {name for name in names if ".dist-info/" not in name} == wanted
    assert dict(entry_points["console_scripts"]) == {"tidemark": "actors.service.cli:main"}
