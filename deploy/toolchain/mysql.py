"""A MySQL server's programs: the machine's own if they are 8.4 or newer, else Debian unstable's in a prefix.

The prefix holds every library down to libc, and its programs run through its own loader; so it doesn't matter
how old the machine's libraries are. `mysql.lock` pins the packages. Debian's mirrors keep only the newest of
unstable: when a pinned version has gone, the current ones are taken, which apt has verified by the archive's
signature, and a line says so.
"""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from deploy.toolchain import debian
from deploy.toolchain.cache import (
    ToolchainError,
    digest,
    ensure,
    is_complete,
    megabytes,
    root,
    run,
    say,
)

LOCK = Path(__file__).with_name("mysql.lock")
PACKAGES = ("mysql-server-core", "mysql-client-core")
OLDEST = (8, 4)

# What runs a program of the prefix: $1.. are its arguments. The server would look for its messages and
# plugins in the host's /usr.
WRAPPER = """#!/bin/sh
root=$(cd "$(dirname "$0")/.." && pwd)
exec "$root/{loader}" --library-path {libraries} "$root/{program}" "$@"{options}
"""
SERVER_OPTIONS = """ \\
  --basedir="$root/usr" --lc-messages-dir="$root/usr/share/mysql" \\
  --character-sets-dir="$root/usr/share/mysql/charsets" --plugin-dir="$root/usr/lib/mysql/plugin\""""


@dataclass(frozen=True, slots=True)
class MysqlParts:
    """MySQL's programs: `mysqld`, `mysql`, `mysqldump`, `mysqlbinlog`, ... in the folder `bin`.

    `data` is a new server's data directory, where they come with one (MySQL 5.6, which brings `mysqld` alone).
    """

    bin: Path
    version: str
    data: Path | None = None


def find() -> MysqlParts | None:
    """Return the MySQL to use: the PATH's if it's new enough, else the cache's; None if there is none."""
    if (own := shutil.which("mysqld")) and _at_least(version_of(Path(own)), OLDEST):
        return MysqlParts(Path(own).parent, version_of(Path(own)))
    if is_complete(folder()):
        return MysqlParts(folder() / "bin", (folder() / "version").read_text())
    return None


def folder() -> Path:
    """Return where a fetched MySQL lies, whether it is there yet or not."""
    return root() / f"mysql-{digest(LOCK.read_bytes(), debian.architecture())}"


def setup() -> MysqlParts:
    """Return MySQL's programs, fetching them if the machine has none new enough."""
    if found := find():
        return found

    def build() -> None:
        prefix = folder()
        archives = debian.Apt.of_suite(prefix / "apt", "sid").fetch(*PACKAGES)
        say(f"MySQL: unpacking {len(archives)} packages, {megabytes(prefix / 'apt' / 'cache' / 'archives')}")
        debian.check("MySQL", archives, LOCK)
        debian.unpack(archives, prefix)
        shutil.rmtree(prefix / "apt")
        _write_wrappers(prefix)
        (prefix / "version").write_text(version_of(prefix / "bin" / "mysqld"))

    ensure("MySQL", folder(), build)
    if (found := find()) is None:
        raise ToolchainError(f"MySQL's folder {folder()} was just made and is gone")
    return found


def _write_wrappers(prefix: Path) -> None:
    """Write bin/: a script for each MySQL program that runs it through the prefix's loader."""
    loader = next(prefix.glob("usr/lib/*-linux-gnu*/ld-linux-*.so.*"))
    libraries = ":".join(
        f'"$root/{path}"'
        for path in (
            loader.parent.relative_to(prefix),
            "usr/lib/mysql/private",
            loader.parent.relative_to(prefix) / "libproxy",
        )
    )
    (prefix / "bin").mkdir(exist_ok=True)
    for program in [prefix / "usr/sbin/mysqld", *sorted((prefix / "usr/bin").glob("mysql*"))]:
        with program.open("rb") as file:
            if file.read(4) != b"\x7fELF":
                continue
        wrapper = prefix / "bin" / program.name
        wrapper.write_text(
            WRAPPER.format(
                loader=loader.relative_to(prefix),
                libraries=libraries,
                program=program.relative_to(prefix),
                options=SERVER_OPTIONS if program.name == "mysqld" else "",
            )
        )
        wrapper.chmod(0o755)


def version_of(mysqld: Path) -> str:
    """Return what a server program calls its version, such as `9.7.4-Debian`; MariaDB says so in it too."""
    told = run([mysqld, "--no-defaults", "--version"])
    match = re.search(r"Ver (\S+)", told)
    return match[1] if match else ""


def _at_least(version: str, oldest: tuple[int, ...]) -> bool:
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    return numbers >= oldest and "MariaDB" not in version
