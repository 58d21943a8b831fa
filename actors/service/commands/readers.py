"""The commands for readers: queries and views of a lake, the wait for what it is to have, and changes as they come."""

import asyncio
import contextlib
import difflib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from actors.runtime.logs import escape_controls
from actors.service import client
from actors.service.commands.conventions import EXIT_CODES, config_argument, fail, lake_path
from actors.service.config_file import load
from pipeline.config.settings import Settings
from pipeline.errors import Definite, Transient
from pipeline.schema.table_names import MalformedTableName, parse_tables
from pipeline.schema.table_schema import TableId, TableSchema

if TYPE_CHECKING:
    from actors.service.commands.change_text import ChangeText
    from pipeline.journal.entry import Entry

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_tables_argument = click.argument("named", nargs=-1, metavar="[CONFIG] [TABLE]…")
_lake_option = click.option(
    "--lake",
    metavar="PATH",
    help="The lake's path, instead of CONFIG: for readers who have the lake alone.",
)
_stale_option = click.option(
    "--stale", is_flag=True, help="Print the query of a stopped table too, which gets no more changes."
)


def _dialect_option(*dialects: str) -> Callable[[FunctionT], FunctionT]:
    choice = click.Choice(dialects)
    return click.option("--dialect", type=choice, default="spark", show_default=True, help="The SQL dialect.")


@click.command()
@_tables_argument
@_lake_option
@_dialect_option("spark", "duckdb", "trino", "delta-rs")
@_stale_option
@click.option(
    "--gtid",
    "gtid_set",
    metavar="SET",
    help="Wait until the table has these transactions, and read the versions that have them.",
)
def sql(named: tuple[str, ...], lake: str | None, dialect: str, stale: bool, gtid_set: str | None) -> None:
    """Print the query that reads TABLE, as database.table or `database`.`table`, as of the last delivered segment.

    Of more tables, or of all if none is named, each query ends with a semicolon.

    Print it again when the table's columns change, or its mirror begins again. docs/lake.md says more.
    """
    from actors.service.live_view_text import live_view_text
    from pipeline.journal.request_parameters import WAIT_S
    from pipeline.lake.live_view import Versions
    from pipeline.lake.reading.sql_dialects import Dialect

    of = _lake_and_tables(named, lake)
    if len(of.tables) != 1:
        if gtid_set is not None:
            raise click.UsageError("--gtid is for one table: name it")
        _print_script(of, dialect, stale=stale, views=False)
        return
    at, (table,) = None, of.tables
    if gtid_set is not None:
        if of.settings is None:
            raise click.UsageError("--gtid asks the service: give CONFIG instead of --lake")
        told = _applied(of.settings, {"gtid_set": gtid_set, "tables": table}, WAIT_S)
        (versions,) = told["tables"].values()
        at = None if versions is None else Versions(**versions)
    with _reading_lake(of):
        click.echo(live_view_text(of.path, table, Dialect(dialect), of.stopped, stale=stale, at=at))


@click.command()
@_tables_argument
@_lake_option
@_dialect_option("spark", "duckdb", "trino")
@_stale_option
def views(named: tuple[str, ...], lake: str | None, dialect: str, stale: bool) -> None:
    """Print the statements that make a view of each TABLE, or of all tables of the lake: database.table as of now.

    \b
    tidemark views --lake /var/lib/tidemark/lake --dialect duckdb | duckdb shop.db

    Run them again when a view fails: its table has other columns, or its mirror began again.
    """
    _print_script(_lake_and_tables(named, lake), dialect, stale=stale, views=True)


def _print_script(of: "NamedLake", dialect: str, *, stale: bool, views: bool) -> None:
    from actors.service.live_view_text import script
    from pipeline.lake.reading.sql_dialects import Dialect

    with _reading_lake(of):
        statements = script(of.path, of.tables, Dialect(dialect), of.stopped, stale=stale, views=views)
        click.echo("\n\n".join(statements))


@dataclass(frozen=True, slots=True)
class NamedLake:
    """The lake that a reader has named, by a configuration or by its path alone, and tables in it."""

    path: str
    tables: tuple[str, ...]
    settings: Settings | None = None

    @property
    def stopped(self) -> Mapping[TableId, str]:
        """Returns the tables that can't be captured any more, and why, as far as it can be known."""
        return {} if self.settings is None else _stopped_in_capture(self.settings)


def _lake_and_tables(named: tuple[str, ...], lake: str | None) -> NamedLake:
    if lake is not None:
        return NamedLake(lake if "://" in lake else str(Path(lake).absolute()), named)
    if not named:
        raise click.UsageError("give CONFIG, or the lake's path with --lake")
    settings = load(Path(named[0]))
    return NamedLake(lake_path(settings), named[1:], settings)


@contextlib.contextmanager
def _reading_lake(of: NamedLake) -> Iterator[None]:
    """Says what is wrong with a path that isn't a lake's, before what it lacks."""
    from actors.service.lake.lake_listing import find_lake

    try:
        try:
            yield
        except Definite:
            if of.settings is None:
                find_lake(of.path)
            raise
    except OSError as error:
        fail(f"the lake can't be read: {error}", 1)


def _stopped_in_capture(settings: Settings) -> Mapping[TableId, str]:
    """The tables that can't be captured any more, and why, as far as the journal can be read here."""
    last = _last_entry(settings)
    return {} if last is None else last.checkpoint.stopped


def _last_entry(settings: Settings) -> "Entry | None":
    """The journal's last entry, as far as the journal can be read here."""
    from actors.journal.store import JournalReader

    try:
        return JournalReader(settings.journal.path).last_entry()
    except (Definite, Transient):
        return None


@click.command(epilog=EXIT_CODES)
@config_argument
@click.option(
    "--gtid",
    "gtid_set",
    metavar="SET",
    help="The transactions, as a GTID set. By default all that the source has executed by now.",
)
@click.option(
    "--through",
    type=click.Choice(["lake", "journal", "kafka"]),
    default="lake",
    show_default=True,
    help="How far they have to come.",
)
@click.option(
    "--tables", "-t", metavar="NAMES", help="The tables that will be read, as database.table, with commas."
)
@click.option("--timeout", "timeout_s", type=float, default=30.0, show_default=True, help="In seconds.")
def wait(
    settings: Settings, gtid_set: str | None, through: str, tables: str | None, timeout_s: float
) -> None:
    """Wait until a reader sees these transactions; print where, as JSON.

    It exits with 1 if they haven't come in time, and with 2 if they can't come.
    """
    if gtid_set is None:
        gtid_set = asyncio.run(_executed(settings))
    asked = {"gtid_set": gtid_set, "through": through} | ({"tables": tables} if tables else {})
    click.echo(json.dumps(_applied(settings, asked, timeout_s)))


async def _executed(settings: Settings) -> str:
    """Returns the GTID set that the source has executed; ends the program if it has no GTIDs."""
    from actors.source.connection import Source

    source = await Source.connect(settings.source)
    try:
        executed = await source.executed()
    finally:
        source.close()
    if not executed:
        fail(f"{settings.source.host} has executed nothing that has a GTID; give --gtid", 2)
    return str(executed)


def _applied(settings: Settings, asked: Mapping[str, str], timeout_s: float) -> dict[str, Any]:
    """Where these transactions can be read, once they can; ends the program where they can't, or not in time."""
    status, answer = client.wait_applied(settings, asked, timeout_s)
    if status != HTTPStatus.OK:
        missing = f" (missing: {answer['missing']})" if answer.get("missing") else ""
        never = status in (HTTPStatus.BAD_REQUEST, HTTPStatus.CONFLICT)
        fail(f"{answer['error']}{missing}", 2 if never else 1)
    return answer


@click.command(epilog=EXIT_CODES)
@config_argument
@click.option(
    "--tables", "-t", metavar="NAMES", help="The tables, as database.table, with commas; all by default."
)
@click.option(
    "--since",
    metavar="PLACE",
    default="now",
    show_default=True,
    help="Begin after this place: now, earliest, a checkpoint, an SCN or a GTID set.",
)
@click.option("--through", metavar="PLACE", help="End with this place: now, an SCN or a GTID set.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "arrow"]),
    default="text",
    show_default=True,
    help="Lines for people, lines of JSON, or Arrow's IPC streams.",
)
@click.option("--key-range", metavar="LOW..HIGH", help="Only keys in this range; either end may be left out.")
@click.option(
    "--key-modulo", metavar="N:R,…", help="Only keys with these remainders when they are divided by N."
)
@click.option(
    "--filter",
    "filters",
    metavar="COLUMN=VALUE",
    multiple=True,
    help="Only rows with this value; not for Arrow. More than one may be given.",
)
def tail(
    settings: Settings,
    tables: str | None,
    since: str,
    through: str | None,
    form: str,
    key_range: str | None,
    key_modulo: str | None,
    filters: tuple[str, ...],
) -> None:
    """Print the changes in the journal of the running service, and follow them.

    Interrupt it to end it. It then says with which checkpoint to continue. docs/relay.md describes the formats.
    """
    from actors.service.commands.change_text import ChangeText

    pairs = [tuple(each.split("=", 1)) for each in filters]
    if any(len(pair) < 2 for pair in pairs):
        raise click.UsageError("--filter takes COLUMN=VALUE")
    if form == "arrow" and filters:
        raise click.UsageError(
            "--filter isn't for Arrow: use --key-range or --key-modulo, or filter the batches"
        )
    asked = {"since": since, "format": "arrow" if form == "arrow" else "json"}
    asked |= {"tables": tables} if tables else {}
    more = {"through": through, "key_range": key_range, "key_modulo": key_modulo}
    asked |= {name: value for name, value in more.items() if value}
    for wrong in _unmatched_filters(settings, tables, [column for column, _ in pairs]):
        click.echo(f"tidemark: {wrong}", err=True)
    text = ChangeText((column, value) for column, value in pairs)
    try:
        asyncio.run(_print_changes(settings, asked, text, form))
    except KeyboardInterrupt:
        pass
    except OSError:
        text.checkpoint = None  # whoever takes what is printed hasn't taken all that is before it
        raise
    finally:
        if text.checkpoint is not None and through is None:
            click.echo(f"tidemark: continue with --since {text.checkpoint}", err=True)


def _unmatched_filters(settings: Settings, named: str | None, columns: Sequence[str]) -> Iterator[str]:
    """Returns why no table can pass filters on these columns now, as far as the journal can be read here.

    A table may have had such a column, or may get it. So that is no error.
    """
    if not columns:
        return
    of = named or "all tables"
    there = [{column.name for column in schema.columns} for schema in _schemas_in_journal(settings, named)]
    every = sorted(set[str]().union(*there))
    absent = [column for column in columns if column not in every]
    for column in absent if there else ():
        close = difflib.get_close_matches(column.casefold(), map(str.casefold, every), 1)
        meant = [each for each in every if [each.casefold()] == close]
        hint = f"; did you mean {escape_controls(meant[0])}?" if meant else ""
        yield f"--filter: of {of}, none has a column {column} at present{hint}"
    if there and not absent and not any(of_table.issuperset(columns) for of_table in there):
        yield f"--filter: of {of}, none has all of the columns {', '.join(columns)} at present"


def _schemas_in_journal(settings: Settings, named: str | None) -> list[TableSchema]:
    """The schemas of these tables, or of all, as readers of the journal have them."""
    last = _last_entry(settings)
    schemas = {} if last is None else last.stored_schemas
    try:
        wanted = schemas.keys() if named is None else parse_tables(named)
    except MalformedTableName:
        return []  # the service says so
    return [schemas[table] for table in wanted if table in schemas]


async def _print_changes(settings: Settings, asked: Mapping[str, str], text: "ChangeText", form: str) -> None:
    """Prints changes as they come."""
    from actors.service.commands.change_text import IncomingLines

    incoming = IncomingLines()
    async for data in client.follow_changes(settings, asked):
        if form == "arrow":
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            continue
        for line in text.lines(incoming.take(data), as_json=form == "json"):
            click.echo(line)
