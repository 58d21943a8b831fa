"""The configuration file that `tidemark init` writes: a source's own values, with a comment for each choice."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import PurePath
from typing import Final

import tomli_w

from pipeline.config.settings import TlsMode
from pipeline.schema.table_schema import TableId


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table of the source. `rows`, `size` (bytes): the server's estimates. `refused`: why it can't be captured."""

    table: TableId
    keyed: bool
    rows: int
    size: int
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class Starter:
    """What a new configuration file says. Its paths are as the file has them.

    `version`: the server's, in its own words. `cascades`: whether foreign keys change rows of its tables below the log.
    """

    name: str
    host: str
    port: int
    user: str
    password_file: str | None
    tls: TlsMode
    ca: str | None
    server_id: int
    journal: str
    lake: str
    version: str
    tables: Sequence[FoundTable]
    cascades: bool


_HEAD: Final = """\
# Made by `tidemark init` for MySQL {version}. `tidemark check` on this file says whether it can run.
# docs/configuration.md lists all keys. The environment wins over the file: TIDEMARK__SOURCE__HOST sets source.host.
# Paths are relative to this file's folder.

# The pipeline's name. It's the key of its signals in Kafka.
{name}
# Regular expressions (RE2) over database.table. Each must match the whole name. A dot means any character, \\. a dot.
"""

_SOURCE: Final = """
[source]
{address}
# {password}
{password_file}
# No other replica of the server may have this number.
{server_id}
# Servers that take over when this one is lost: one section for each.
# [[source.others]]
# host = "…"

[source.tls]
# verify: the server has to prove its name. required: encrypts, and trusts whoever answers. disabled: doesn't encrypt.
{tls}
"""

_REST: Final = """
[snapshot]
# initial: each new table is read while changes flow. consistent: all at one position. no_data: only when you signal.
mode = "initial"
# The most rows a second that are read of the server; 0 sets no limit.
rows_per_s = 0
{foreign_keys}
# Columns that must not leave the server as they are (docs/pii.md).
# [[protection.rules]]
# tables = ['{database}\\.customers']
# columns = ["email"]
# treatment = "mask"

# The journal keeps each change until all readers have it. Give it a disk with room for hours of changes.
[journal]
{journal}

# A folder, or a URI that Spark and pyarrow reach, as in "s3a://bucket/lake".
[lake]
{lake}
# A mirror merges its changes when the oldest has waited so many seconds. Readers always see all changes.
merge_after_s = 300

[spark]
master = "local[2]"
driver_memory = "1g"
# Folders of the jars that PySpark lacks. Without them a run uses what `tidemark setup` has fetched.
# jars = ["/opt/tidemark/jars"]

# The page, REST and metrics, on loopback. Without a port a free one is taken. Elsewhere set host, token_file and tls.
[http]
# port = 8321
"""

_CASCADES: Final = """\
# Foreign keys change rows of other tables, and this server doesn't log that. Such rows are read again.
foreign_keys = "reread"
"""


def starter_text(starter: Starter) -> str:
    """Returns the text of a configuration file that captures all tables that can be captured."""
    source = _SOURCE.format(
        address=_lines(host=starter.host, port=starter.port, user=starter.user),
        password=(
            "The file that holds the password. It's read again for each connection."
            if starter.password_file
            else "The password is in the environment: TIDEMARK__SOURCE__PASSWORD."
        ),
        password_file=(
            _lines(password_file=starter.password_file) if starter.password_file else '# password_file = "…"'
        ),
        server_id=_lines(server_id=starter.server_id),
        tls=_tls(starter),
    )
    rest = _REST.format(
        foreign_keys=_CASCADES if starter.cascades else "",
        database=_comment(starter.tables[0].table.database) if starter.tables else starter.name,
        journal=_lines(path=starter.journal),
        lake=_lines(path=starter.lake),
    )
    head = _HEAD.format(version=_comment(starter.version), name=_lines(name=starter.name))
    return "".join([head, *_tables(starter.tables), source, rest])


def capturable(tables: Iterable[FoundTable]) -> list[FoundTable]:
    """Returns those that can be captured."""
    return [found for found in tables if found.refused is None]


def default_name(path: PurePath) -> str:
    """Returns the pipeline's name for a file of this name."""
    return re.sub(r"^[^a-z]+|[^a-z0-9_-]", "", path.stem.lower())[:63] or "tidemark"


def _tls(starter: Starter) -> str:
    mode = _lines(mode=str(starter.tls))
    if starter.tls is not TlsMode.VERIFY:
        return mode
    return f"{mode}\n" + (
        f"# Certificates (PEM) to trust, instead of the machine's.\n{_lines(ca=starter.ca)}"
        if starter.ca
        else '# Certificates (PEM) to trust, instead of the machine\'s.\n# ca = "…"'
    )


def _tables(tables: Sequence[FoundTable]) -> Iterator[str]:
    yield "tables = [\n"
    for database, each in groupby(sorted(tables, key=lambda found: found.table), lambda f: f.table.database):
        yield from _of_database(database, list(each))
    yield "]\n"


def _of_database(database: str, tables: list[FoundTable]) -> Iterator[str]:
    """Yields one pattern for all tables, or one for each where some can't be captured."""
    wanted = capturable(tables)
    size = sum(found.size for found in wanted) / 2**20
    rows = sum(found.rows for found in wanted)
    yield f"    # {_comment(database)}: {len(wanted)} tables, about {rows:,} rows and {size:,.1f} MiB\n"
    if loose := [found.table.name for found in wanted if not found.keyed]:
        yield f"    # without a primary key, so that only changes are captured: {_comment(', '.join(loose))}\n"
    if len(wanted) == len(tables):
        every = _text(re.escape(database) + r"\..*")
        yield f"    {every},\n"
        return
    for found in tables:
        pattern = _text(re.escape(found.table.dotted))
        if found.refused is None:
            yield f"    {pattern},\n"
        else:
            yield f"    # {pattern},  # can't be captured: {_comment(found.refused)}\n"


def _lines(**values: object) -> str:
    """Returns keys with their values, in TOML."""
    return tomli_w.dumps(values).removesuffix("\n")


def _text(value: str) -> str:
    """Returns a text in TOML."""
    return _lines(x=value).removeprefix("x = ")


def _comment(text: str) -> str:
    """Returns a text that fits into a line of comment."""
    return "".join(sign if sign.isprintable() else " " for sign in text)
