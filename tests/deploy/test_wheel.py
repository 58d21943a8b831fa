"""What an install by pip gets: a wheel with every file of the program, and the command."""

import os
import shutil
import subprocess
import sys
import tomllib
from configparser import ConfigParser
from pathlib import Path
from zipfile import ZipFile

import pytest

from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import Parts
from tests.integration.service.test_run import configuration

_ROOT = Path(__file__).parents[2]
_PACKAGES = ("actors", "pipeline", "tidemark")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from nothing but what is in it, so that no other part of the checkout helps."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    unwritten = shutil.ignore_patterns("__pycache__")
    for package in _PACKAGES:
        shutil.copytree(_ROOT / package, source / package, ignore=unwritten)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(_ROOT / name, source)
    build = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, folder], cwd=source, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def test_a_wheel_has_all_of_the_program(wheel: Path) -> None:
    source = wheel.parent / "source"
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


@pytest.mark.full
def test_the_command_of_an_installed_wheel_checks_a_source(
    wheel: Path, tmp_path: Path, mysql: MysqlServer, parts: Parts, database: str
) -> None:
    installed = tmp_path / "installed"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--no-deps", "--no-index")
    subprocess.run(
        [*pip, "--quiet", "--no-compile", "--target", installed, wheel], check=True, capture_output=True
    )
    mysql.sql("CREATE TABLE orders (id INT PRIMARY KEY)", database=database)
    config = configuration(tmp_path, mysql, parts, database, mysql.create_capture_user(database))

    def tidemark(*arguments: str | Path) -> str:
        environment = {**os.environ, "PYTHONPATH": str(installed), "JAVA_HOME": str(parts.java_home)}
        command = [installed / "bin" / "tidemark", *arguments]
        told = subprocess.run(
            command, cwd=tmp_path, env=environment, check=False, capture_output=True, text=True
        )
        assert told.returncode == 0, told.stdout + told.stderr
        return told.stdout

    version = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert tidemark("--version") == f"tidemark, version {version}\n"
    assert f"{database}.orders" in tidemark("check", config)
