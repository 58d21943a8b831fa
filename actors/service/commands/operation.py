"""The commands for whoever operates a service that runs: they ask it, and send it signals."""

import json
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import click

from actors.runtime.logs import escape_in_lines
from actors.service import client
from actors.service.commands.conventions import config_argument, fail, lake_path, tell_error
from pipeline.config.settings import Settings
from pipeline.errors import Definite, TidemarkError, Transient
from pipeline.schema.table_filter import ALL_TABLES
from pipeline.schema.table_schema import TableId

WATCH_EVERY_S: Final = 1.0

# How often it is asked for the result that somebody waits for.
RESULT_EVERY_S: Final = 0.2

# For how long a service that fails to answer is asked again for it. For so long a table is waited for that the lake's
# sink fails to write.
RESULT_PATIENCE_S: Final = 60.0

# The states of a table whose rows are still being read.
_READING: Final = ("waiting", "chunking")


@click.command(name="signal")
@config_argument
@click.argument("action", type=click.Choice(["execute", "stop", "pause", "resume", "recapture"]))
@click.option(
    "--tables",
    "-t",
    multiple=True,
    metavar="REGEX",
    help="Tables, as database.table; more than one may be given.",
)
@click.option("--id", "id_", metavar="ID", help="The signal's id. A repeated id takes effect once.")
@click.option(
    "--blocking",
    is_flag=True,
    help="Execute while the log waits. That reads tables without a primary key too, each all at once.",
)
def send_signal(
    settings: Settings, action: str, tables: tuple[str, ...], id_: str | None, blocking: bool
) -> None:
    """Start, stop, pause or resume snapshots of the running service, and wait for its answer.

    `execute` and `stop` mean all captured tables unless you name some. `recapture` begins the named tables again,
    whatever has stopped them. A snapshot then fills each.
    """
    data: dict[str, Any] = {}
    if blocking and action != "execute":
        raise click.UsageError(f"{action} takes no --blocking: only execute does")
    if action in ("execute", "stop"):
        type_ = "blocking" if blocking else "incremental"
        data = {"type": type_, "data-collections": list(tables or ALL_TABLES.patterns)}
    elif action == "recapture":
        if not tables:
            raise click.UsageError("recapture needs --tables: which tables shall begin again?")
        data = {"data-collections": list(tables)}
    elif tables:
        raise click.UsageError(f"{action} is for all snapshots and takes no --tables")
    kind = action if action == "recapture" else f"{action}-snapshot"
    signal = {"type": kind, "data": data} | ({} if id_ is None else {"id": id_})
    status, answer = client.post(settings, "/signals", signal)
    if status != 200:
        fail(answer["error"], 1)
    click.echo(escape_in_lines(f"{answer['id']}: {answer['detail']}"))


def _duration(text: str) -> float:
    from actors.service.commands.comparison import parse_duration

    return parse_duration(text)


@click.command(
    epilog="""\b
Exit codes:
  0  each table is equal to the source at the named position, perhaps after a repair
  1  rows differ
  2  no row was found to differ, but not all tables could be judged"""
)
@config_argument
@click.option(
    "--tables", "-t", multiple=True, metavar="REGEX", help="Tables, as database.table; all by default."
)
@click.option("--where", metavar="CONDITION", help="Only these rows, in the grammar of signals.")
@click.option("--repair", is_flag=True, help="Read the rows that differ again, and compare them once more.")
@click.option(
    "--rows-per-s",
    type=click.IntRange(min=1),
    default=None,
    metavar="N",
    help="Read no more rows a second of the source; by default as fast as snapshots may.",
)
@click.option(
    "--every",
    "every_s",
    type=_duration,
    metavar="DURATION",
    help="Verify again so often (90s, 30m, 24h, 7d), until interrupted.",
)
def verify(
    settings: Settings,
    tables: tuple[str, ...],
    where: str | None,
    repair: bool,
    rows_per_s: int | None,
    every_s: float | None,
) -> None:
    """Compare the lake with the source, while both continue, and print a result for each table.

    docs/verify.md says what it proves. The verification continues if this command is interrupted. With --every the exit
    code is the worst of all verifications.
    """
    from actors.service.commands.comparison import repeat_comparison

    lake_path(settings)
    data: dict[str, Any] = {"data-collections": list(tables or ALL_TABLES.patterns), "repair": repair}
    if rows_per_s is not None:
        data["rows-per-s"] = rows_per_s
    if where is not None:
        named = data["data-collections"]
        data["additional-conditions"] = [{"data-collection": each, "filter": where} for each in named]
    if every_s is not None:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(repeat_comparison(partial(_verify_once, settings, data), click.echo, every_s))


def _verify_once(settings: Settings, data: Mapping[str, Any]) -> tuple[int, list[str]]:
    """Returns the exit code of a verification, and a line for each result."""
    from actors.service.commands.comparison import UNJUDGED, result_code
    from actors.service.commands.terminal_status import verification_line

    try:
        status, answer = client.post(settings, "/signals", {"type": "verify", "data": data})
        if status != HTTPStatus.OK:
            raise Definite(answer["error"])
        found = _verified(settings, answer["id"])
    except TidemarkError as error:
        tell_error(str(error))
        return UNJUDGED, []
    lines = [verification_line(table, result) for table, result in found.items()]
    return result_code(found.values()), lines


def _verified(settings: Settings, id_: str) -> dict[str, dict[str, Any]]:
    """Waits for a verification. Returns the result for each of its tables.

    A table that the lake's sink fails to write has none until the sink succeeds. So one that is read is waited for no
    longer than RESULT_PATIENCE_S, once all others are there. Raises NotRunning, Transient if the service fails to
    answer for too long, or Definite if it has forgotten it or says no results.
    """
    patience_ends = asks_at = time.monotonic() + RESULT_PATIENCE_S
    waited = frozenset[str]()
    while True:
        try:
            tables = _verified_tables(settings, id_)
            waits = {name: each for name, each in (tables or {}).items() if each["result"] is None}
            if waits.keys() != waited:
                waited, asks_at = frozenset(waits), time.monotonic() + RESULT_PATIENCE_S
            asks = bool(waits) and time.monotonic() >= asks_at
            unjudged = _unwritten(settings, waits) if asks else {}
        except Transient:
            if time.monotonic() >= patience_ends:
                raise
        else:
            if tables is not None and unjudged.keys() == waits.keys():
                return {name: unjudged.get(name) or each["result"] for name, each in tables.items()}
            patience_ends = time.monotonic() + RESULT_PATIENCE_S
            asks_at = patience_ends if asks else asks_at
        time.sleep(RESULT_EVERY_S)


def _verified_tables(settings: Settings, id_: str) -> dict[str, dict[str, Any]] | None:
    """Returns what the service says of each table of a verification; None while capture restarts. Raises as
    `_verified`."""
    known = {each["id"]: each for each in client.get(settings, "/snapshots")["snapshots"]}
    if id_ not in known:
        if known:  # while capture restarts there are none
            raise Definite(f"the service has forgotten the verification {id_}, since many others have ended")
        return None
    tables = known[id_]["tables"]
    if any("result" not in each for each in tables):
        raise Definite(
            f"the service is older than this command and doesn't say what the verification {id_} finds;"
            " restart it with this version"
        )
    return {str(TableId(each["database"], each["table"])): each for each in tables}


def _unwritten(settings: Settings, waits: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Returns a result for those of these tables that are read, and that the lake's sink fails to write."""
    told = {each["table"]: each["lake"]["stopped"] for each in client.get(settings, "/tables")["tables"]}
    return {
        name: {
            "verdict": "unjudged",
            "rows": each["rows"],
            "found": {},
            "position": "",
            "reason": f"the lake doesn't have its changes: {told[name]}",
            "repaired": None,
        }
        for name, each in waits.items()
        if each["state"] not in _READING and told.get(name)
    }


@click.command()
@config_argument
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="All of it, as the service's /status gives it, or with --lake as the lake says.",
)
@click.option("--watch", is_flag=True, help="Again each second, until interrupted.")
@click.option(
    "--lake",
    is_flag=True,
    help="How far the lake's tables are, read from the lake alone.",
)
def status(settings: Settings, as_json: bool, watch: bool, lake: bool) -> None:
    """Show how far the running service is."""
    from actors.service.commands.terminal_status import open_console, show

    if lake:
        from actors.service.lake.lake_status import lake_report, lake_status

        try:
            report = lake_report(lake_path(settings))
            if as_json:
                click.echo(json.dumps(report, indent=2))
            else:
                open_console().print(lake_status(report))
        except OSError as error:
            fail(f"the lake can't be read: {error}", 1)
    elif as_json:
        click.echo(json.dumps(client.get(settings, "/status"), indent=2))
    elif watch:
        show(_each_second(settings))
    else:
        show(iter([client.get(settings, "/status")]))


def _each_second(settings: Settings) -> Iterator[dict[str, Any]]:
    while True:
        yield client.get(settings, "/status")
        time.sleep(WATCH_EVERY_S)


@click.command()
@config_argument
@click.option("--json", "as_json", is_flag=True, help="All of it, as the service's /tables gives it.")
def tables(settings: Settings, as_json: bool) -> None:
    """List the tables that the running service captures, each with its snapshot and what keeps it back.

    `check` lists those that a run would capture.
    """
    from actors.service.table_listing import captured_listing

    told = client.get(settings, "/tables")["tables"]
    if as_json:
        click.echo(json.dumps(told, indent=2))
        return
    for line in captured_listing(told):
        click.echo(line)


@click.command(name="forget-consumer")
@config_argument
@click.argument("name")
def forget_consumer(settings: Settings, name: str) -> None:
    """Stop keeping segments in the journal for the consumer NAME, which `status` names.

    If it returns and the journal has removed segments that it lacks, its tables begin again. A table without a primary
    key that lacks rows in the lake still lacks them then.
    """
    from actors.journal.store import JournalReader

    JournalReader(settings.journal.path).forget_consumer(name)
    click.echo(f"{name} is forgotten")
