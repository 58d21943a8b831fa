"""MySQL 5.6.24, the old end of the range, for tests: an npm package that carries the server for x86-64.

Beside the server lie the one library that the machine may lack and a data directory that's ready-made: root without
a password, and no binlog. What everybody may do in it (accounts without a name, databases called `test…`) is taken
away, so that nobody has rights that weren't granted. `mysql56.lock` pins the package.
"""

import os
import shutil
from pathlib import Path

from actors.service.installation.pinned_jars import read_lock, sha256
from deploy.toolchain import debian, npm
from deploy.toolchain.cache import (
    ToolchainError,
    digest,
    ensure,
    is_complete,
    root,
    run,
    say,
)
from deploy.toolchain.mysql import MysqlParts, version_of

LOCK = Path(__file__).with_name("mysql56.lock")
ARCHITECTURE = "amd64"

ONLY_ROOT = """
DELETE FROM mysql.user WHERE User <> 'root' OR Host <> 'localhost';
DELETE FROM mysql.db;
"""

WRAPPER = """#!/bin/sh
root=$(cd "$(dirname "$0")/.." && pwd)
LD_LIBRARY_PATH="$root" exec "$root/mysqld" "$@" \\
  --basedir="$root" --lc-messages-dir="$root/share" --character-sets-dir="$root/share/charsets"
"""


def folder() -> Path:
    """Return where the server lies, whether it is there yet or not."""
    return root() / f"mysql56-{digest(LOCK.read_bytes(), ONLY_ROOT)}"


def find() -> MysqlParts | None:
    """Return MySQL 5.6 if it has been fetched."""
    if not is_complete(folder()):
        return None
    version = (folder() / "version").read_text()
    return MysqlParts(folder() / "bin", version, data=folder() / "data" / "mysql")


def setup(trusted: Path) -> MysqlParts | None:
    """Return MySQL 5.6, fetching it if need be; None, and a line that says so, where it can't run.

    `trusted` are PEM certificates of the authorities that downloads trust.
    """
    if (machine := debian.architecture()) != ARCHITECTURE:
        say(f"MySQL 5.6: there is none for {machine}, so its tests are skipped")
        return None
    ensure("MySQL 5.6", folder(), lambda: _build(trusted))
    return find()


def _build(trusted: Path) -> None:
    prefix = folder()
    [(package, checksum)] = read_lock(LOCK).items()
    own: list[str | Path] = ["--cache", prefix / "npm", "--pack-destination", prefix]
    run([*npm.setup(trusted), "pack", package, "--ignore-scripts", *own])
    [archive] = prefix.glob("*.tgz")
    if (found := sha256(archive)) != checksum:
        raise ToolchainError(f"{package} has SHA-256 {found}, mysql56.lock says {checksum}")
    run(["tar", "--extract", "--file", archive, "--directory", prefix, "--no-same-owner",
         "--strip-components=2", "package/server"])  # fmt: skip
    wrapper = prefix / "bin" / "mysqld"
    wrapper.parent.mkdir()
    wrapper.write_text(WRAPPER)
    wrapper.chmod(0o755)
    (prefix / "version").write_text(version_of(wrapper))
    # Rights are in MyISAM tables; without InnoDB its files stay as they are.
    engines = ["--skip-innodb", "--default-storage-engine=MyISAM", "--default-tmp-storage-engine=MyISAM"]
    start: list[str | Path] = [
        wrapper,
        "--no-defaults",
        "--bootstrap",
        f"--datadir={prefix / 'data' / 'mysql'}",
    ]
    run([*start, *engines, *(["--user=root"] if os.geteuid() == 0 else [])], given=ONLY_ROOT)
    archive.unlink()
    shutil.rmtree(prefix / "npm")
