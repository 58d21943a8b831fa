"""The service as a process of its own, with a lake: its configuration, what it says, and commands beside it."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from deploy.demo.service import Service
from deploy.toolchain.mysql_server import Account, MysqlServer
from deploy.toolchain.parts import Parts

# A busy machine takes its time to start Spark.
WITHIN_S: Final = 240.0


def configuration(folder: Path, mysql: MysqlServer, parts: Parts, database: str, account: Account) -> Path:
    """A configuration file for all tables of the database, with signals by a file."""
    (folder / "password").write_text(account.password)
    (folder / "password").chmod(0o600)
    jars = json.dumps([str(jar) for jar in parts.jars])
    path = folder / "shop.toml"
    path.write_text(f"""name = "shop"
tables = ["{database}\\\\..*"]
journal = {{ path = "journal" }}
lake = {{ path = "lake" }}
spark = {{ master = "local[2]", driver_memory = "512m", jars = {jars} }}
signals = {{ file = "signals.jsonl" }}

[source]
host = "{mysql.host}"
port = {mysql.port}
user = "{account.user}"
password_file = "password"
server_id = 77
tls = {{ mode = "disabled" }}
""")
    return path


def tidemark(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """A command, run to its end."""
    command = [sys.executable, "-m", "actors", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def until(
    service: Service, holds: Callable[[dict[str, Any]], bool], within_s: float = WITHIN_S
) -> dict[str, Any]:
    """The first status for which it holds."""
    deadline = time.monotonic() + within_s
    while not holds(status := service.status()):
        assert time.monotonic() < deadline, f"{json.dumps(status, indent=1)}\n{service.last_words()}"
        time.sleep(0.1)
    return status


def delivered(mysql: MysqlServer) -> Callable[[dict[str, Any]], bool]:
    """Whether the live views show all that the source has committed by now."""
    executed = mysql.executed()
    return lambda status: (
        (status["delivered_position"] or "").replace("\n", "") == executed and not status["rebuilding"]
    )
