"""What an install by pip gets: a wheel with every file of the program, and the command."""

import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from configparser import ConfigParser
from contextlib import contextmanager
from pathlib import Path
from zipfile import ZipFile

import pyarrow.parquet as pq
import pyspark
import pytest

from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import Parts
from tests.servers.service_process import WITHIN_S

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
def test_an_installed_wheel_is_set_up_configured_and_run(
    wheel: Path, tmp_path: Path, mysql: MysqlServer, parts: Parts, database: str
) -> None:
    """From `pip install` to a row in the lake, by an environment of its own and its command alone."""
    tidemark = Installed(wheel, tmp_path, parts)
    version = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert tidemark("--version") == f"tidemark, version {version}\n"

    tidemark("setup", "--jars", parts.jars[0].parent)
    mysql.sql("CREATE TABLE orders (id INT PRIMARY KEY)", "INSERT INTO orders VALUES (7)", database=database)
    account = mysql.create_capture_user(database)
    (tmp_path / "password").write_text(account.password)
    (tmp_path / "password").chmod(0o600)
    server = ("--host", mysql.host, "--port", str(mysql.port), "--user", account.user, "--tls", "disabled")
    tidemark("init", *server, "--password-file", "password", "--database", database)
    assert f"{database}.orders" in tidemark("check", "shop.toml")

    with tidemark.running() as service:
        deadline = time.monotonic() + WITHIN_S
        while mirrored(tmp_path) != [7]:
            assert service.poll() is None and time.monotonic() < deadline, tidemark("status", "shop.toml")
            time.sleep(0.1)
        service.terminate()
        assert service.wait(WITHIN_S) == 0


def mirrored(folder: Path) -> list[int]:
    """The keys of the orders that the lake has."""
    files = (folder / "lake").glob("*/orders/mirror/00*.parquet")
    return [key for file in files for key in pq.read_table(file)["id"].to_pylist()]


class Installed:
    """The command of a wheel that pip has installed into an environment of its own, with our dependencies."""

    def __init__(self, wheel: Path, folder: Path, parts: Parts) -> None:
        self._folder = folder
        self._python = folder / "venv" / "bin" / "python"
        dependencies = str(Path(pyspark.__file__).parents[1])
        self._environment = {
            **os.environ,
            "PYTHONPATH": dependencies,
            "JAVA_HOME": str(parts.java_home),
            "TIDEMARK__SPARK__DRIVER_MEMORY": "512m",
        }
        self._run(sys.executable, "-m", "venv", "--without-pip", folder / "venv")
        pip = (sys.executable, "-m", "pip", "--python", self._python, "--disable-pip-version-check")
        self._run(*pip, "install", "--no-deps", "--no-index", "--quiet", "--no-compile", wheel)

    def __call__(self, *arguments: str | Path) -> str:
        """Runs the command to its end, and returns what it prints."""
        return self._run(self._python.with_name("tidemark"), *arguments)

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        """The service."""
        command: list[str | Path] = [self._python.with_name("tidemark"), "run", "shop.toml"]
        with (self._folder / "log").open("wb") as log:
            service = subprocess.Popen(
                command, cwd=self._folder, env=self._environment, stdout=log, stderr=log
            )
        try:
            address = self._folder / "journal" / "http.json"
            deadline = time.monotonic() + WITHIN_S
            while not address.exists():
                assert service.poll() is None and time.monotonic() < deadline, (
                    self._folder / "log"
                ).read_text()
                time.sleep(0.1)
            yield service
        finally:
            service.kill()
            service.wait()

    def _run(self, *command: str | Path) -> str:
        done = subprocess.run(
            command, cwd=self._folder, env=self._environment, check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
