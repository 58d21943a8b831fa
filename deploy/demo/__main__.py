"""The demo's story, from an empty folder to the verdict.

    python -m deploy.demo [--rows N] [--folder FOLDER] [--watch SECONDS] [--verify REGEX] [--kafka]

Exits with 0 only if every row and every change is right in the lake, and in Kafka's topics if there are any.
"""

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

import pyarrow.parquet as pq

from deploy.demo import shop
from deploy.demo.judge import LAST_S, judge
from deploy.demo.service import Service, write_config
from deploy.demo.shop import Size
from deploy.demo.tamper import tamper_with_column
from deploy.demo.view import View
from deploy.toolchain.kafka_broker import KafkaBroker
from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS, Account, MysqlServer
from deploy.toolchain.parts import fetch_kafka, locate
from pipeline.gtid.gtid_set import GtidSet
from pipeline.lake.tables.paths import location
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import TableId

SNAPSHOT_WITHIN_S = 600.0
CAUGHT_UP_WITHIN_S = 120.0
WRITER = Account("writer", "writer")
# After the verification, so that the last changes' freshness is that of a service that is left alone.
UNDISTURBED_S = LAST_S + 5.0


def main() -> int:
    """Run the demo; returns the exit code."""
    arguments = argparse.ArgumentParser(prog="make demo", description=__doc__)
    arguments.add_argument(
        "--rows", type=int, default=1_000_000, help="rows of the table orders (default: %(default)s)"
    )
    arguments.add_argument(
        "--folder", type=Path, help="where all of it goes (default: a new temporary folder)"
    )
    arguments.add_argument(
        "--watch",
        type=float,
        default=50.0,
        help="how long the writer writes on once the snapshot is complete, and longer if the verification of the "
        "lake takes longer (s, default: %(default)s)",
    )
    arguments.add_argument(
        "--verify",
        metavar="REGEX",
        default=rf"{shop.DATABASE}\.customers",
        help="the tables that are compared with the source while the writer writes (default: the customers; '': none)",
    )
    arguments.add_argument(
        "--kafka", action="store_true", help="bring the changes into Kafka's topics as well, and judge them"
    )
    chosen = arguments.parse_args()
    if chosen.rows < 1:
        arguments.error(f"--rows must be at least 1, not {chosen.rows}")
    signal.signal(signal.SIGTERM, _interrupted)
    folder = chosen.folder or Path(tempfile.mkdtemp(prefix="tidemark-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return story(chosen, folder.resolve(), View())
    except KeyboardInterrupt:
        print("\ninterrupted; everything that ran has been ended")
        return 130


def story(chosen: argparse.Namespace, folder: Path, view: View) -> int:
    """Everything in its order."""
    parts, size, began = locate(), Size.of(chosen.rows), time.monotonic()
    with ExitStack() as servers:
        server = servers.enter_context(MysqlServer(parts.mysql, folder / "mysql", {**GTIDS, **FULL_METADATA}))
        brokers = _broker(servers, folder, view) if chosen.kafka else None
        with view.stage(f"MySQL {parts.mysql.version} runs; filling a shop of {size.orders:,} orders"):
            shop.fill(server, size)
        account = _accounts(server)
        config = folder / "tidemark.toml"
        write_config(config, server, account, parts, folder, brokers)
        service = Service(config, folder / "journal", folder / "service.log")
        try:
            with view.stage("starting the service (the first time it compiles its decoder): tidemark run"):
                service.start()
            tally = folder / "tally.parquet"
            with _writer(server, size, tally):
                writing = time.monotonic()
                _capture(service, view)
                captured = time.monotonic()
                tampered = _verify(service, folder, size, chosen.verify, view) if chosen.verify else ()
                left_s = captured + chosen.watch - time.monotonic()
                _watch(service, max(left_s, min(chosen.watch, UNDISTURBED_S)), view)
                writing = time.monotonic() - writing
            changes = pq.read_metadata(tally).num_rows
            view.say(f"  the writer: {changes:,} changed rows, {changes / writing:,.0f} a second")
            _catch_up(service, server, view)
            with view.stage("stopping the service"):
                code = service.stop()
        finally:
            service.kill()
        if code:
            raise SystemExit(f"the service ended with {code} instead of 0:\n{service.last_words()}")
        right = judge(server, account, parts, folder, view, brokers, tampered)
    for data in ("mysql", "kafka"):
        shutil.rmtree(folder / data, ignore_errors=True)
    view.say(f"\nall of it took {time.monotonic() - began:.0f} s; the lake stays at {folder}/lake")
    return 0 if right else 1


def _broker(servers: ExitStack, folder: Path, view: View) -> str:
    """A broker that runs as long as the others, and its address."""
    with view.stage("a Kafka broker"):
        return servers.enter_context(KafkaBroker(fetch_kafka(), folder / "kafka")).address


def _capture(service: Service, view: View) -> None:
    """Stream and snapshot under load; kill the service half-way, and go on."""
    view.say(service.tell("execute", "--tables", rf"{shop.DATABASE}\..*"))
    signalled = time.monotonic()
    before = view.follow(service, until=lambda progress: progress.done >= 0.5, within_s=SNAPSHOT_WITHIN_S)
    with view.stage("SIGKILL: the service dies in mid-snapshot, and is started again"):
        service.kill()
        died = time.monotonic()
        service.start(probe="/livez")
    after = view.follow(service, until=lambda progress: bool(progress.tables), within_s=SNAPSHOT_WITHIN_S)
    back = time.monotonic()
    view.say(
        f"  {before.chunks} chunks had been emitted when it died, {after.chunks} are when it's back: "
        "it continues where its journal ends"
    )
    complete = view.follow(service, until=lambda progress: progress.complete, within_s=SNAPSHOT_WITHIN_S)
    seconds = died - signalled + time.monotonic() - back
    view.say(
        f"  the snapshot: {complete.rows:,} rows, {complete.rows / seconds:,.0f} rows/s while the service ran"
    )


def _verify(service: Service, folder: Path, size: Size, tables: str, view: View) -> frozenset[str]:
    """Compare the lake with the source while the writer writes, tamper with the lake, and have that found and mended.

    Returns the names of the customers that were tampered with.
    """
    # Spark has only just begun again. A verification would wait for the mirrors in between its own work.
    with view.stage("waiting until the lake shows what the snapshot has read: tidemark wait"):
        service.wait_for_lake(SNAPSHOT_WITHIN_S)
    with view.stage("the lake is compared with the source while the writer writes: tidemark verify"):
        _verified(service, view, "--tables", tables)
    customers = TableId(shop.DATABASE, "customers")
    with view.stage("a file of the lake is tampered with, behind everybody's back"):
        mirror = Path(location(str(folder / "lake"), customers, Tier.MIRROR))
        tampered = tamper_with_column(mirror, "name", size.quiet_customers, "city", "Nowhere")
        view.say(f"  {len(tampered):,} customers live in Nowhere now")
    with view.stage("that is found and mended: tidemark verify --repair"):
        told = _verified(service, view, "--tables", rf"{shop.DATABASE}\.customers", "--repair")
    if f" {len(tampered):,} different" not in told or "repaired: equal" not in told:
        raise SystemExit("what was tampered with wasn't found and mended")
    return tampered


def _verified(service: Service, view: View, *arguments: str) -> str:
    code, told = service.verify(*arguments)
    for line in told.splitlines():
        view.say(f"  {line}")
    if code:
        raise SystemExit(f"tidemark verify ended with {code} instead of 0:\n{service.last_words()}")
    return told


def _watch(service: Service, seconds: float, view: View) -> None:
    """Show the service's progress for a while."""
    until = time.monotonic() + seconds
    view.follow(service, until=lambda _: time.monotonic() > until, within_s=SNAPSHOT_WITHIN_S)


def _catch_up(service: Service, server: MysqlServer, view: View) -> None:
    """Wait until all that the server has executed can be read in the lake."""
    executed = GtidSet.parse(server.executed())
    with view.stage("the writer has stopped; waiting until the lake has caught up"):
        view.follow(
            service, until=lambda p: executed <= p.delivered and p.readable, within_s=CAUGHT_UP_WITHIN_S
        )


def _accounts(server: MysqlServer) -> Account:
    """The capture's account with the least grants, the writer's, and a log of all that clients ask for."""
    server.sql(
        f"CREATE USER '{WRITER.user}'@'%' IDENTIFIED BY '{WRITER.password}'",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON {shop.DATABASE}.* TO '{WRITER.user}'@'%'",
        "SET GLOBAL general_log = ON",
    )
    return server.create_capture_user(shop.DATABASE)


@contextmanager
def _writer(server: MysqlServer, size: Size, tally: Path) -> Iterator[None]:
    """The writer, at work as long as the context lasts. Raises RuntimeError if it didn't last that long."""
    sizes = map(str, (size.orders, size.order_items, size.busy_customers))
    address = (server.host, str(server.port), WRITER.user, WRITER.password)
    process = subprocess.Popen(
        [
            "setpriv",
            "--pdeathsig",
            "KILL",
            sys.executable,
            "-m",
            "deploy.demo.writer",
            *address,
            tally,
            *sizes,
        ],
        start_new_session=True,
    )
    try:
        yield
        if process.poll() is not None:
            raise RuntimeError(f"the writer ended by itself with {process.returncode}")
        process.terminate()
        if process.wait(30):
            raise RuntimeError(f"the writer ended with {process.returncode}")
    finally:
        process.kill()


def _interrupted(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
