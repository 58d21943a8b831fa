"""Our messages of random tables beside those of a real Debezium that reads the same log, in random modes.

Keys, values, headers, partitions and the order in each topic have to be equal, but for the differences that
docs/kafka.md lists.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from random import Random
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from deploy.toolchain.mysql_server import Account, MysqlServer
from deploy.toolchain.parts import Parts
from tests.integration.kafka.test_against_debezium import account, ours, server
from tests.servers.altered_tables import AlteredTable
from tests.servers.debezium_differences import differences, part_of
from tests.servers.debezium_messages import PREFIX, LogStart, Message, debezium_variants, log_end
from tests.servers.debezium_modes import Modes, all_modes_of
from tests.servers.value_tables import TWO_OF_EACH, Column, Table, some_tables

__all__ = ["account", "server"]

_TABLES: Final = 8
_ALTERATIONS: Final = 6
_OF_A_DAY: Final = re.compile(r"'([01]\d|2[0-3]):")
_DAY: Final = re.compile(r"'(\d{4}-\d\d-\d\d)(?: \d\d:\d\d:\d\d(?:\.\d*)?)?'\Z")


def real_day(literal: str) -> str:
    """A literal, with another day for one that Debezium can't write in each mode: it stops there."""
    if (found := _DAY.match(literal)) is None:
        return literal
    try:
        known = 1900 <= date.fromisoformat(found[1]).year <= 2200
    except ValueError:
        known = False
    return literal if known else literal.replace(found[1], "2000-01-01", 1)


# Of new columns, each with literals that Debezium takes in each mode.
_KINDS: Final = [(kind, [real_day(edge) for edge in kind.edges]) for kind in TWO_OF_EACH]


def tables_of(number: int) -> list[Table]:
    """The random tables of a seed."""
    found: list[Table] = []

    # The first example is the simplest one, and the second is random.
    @seed(number)
    @settings(max_examples=2, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(st.lists(some_tables((9, 7, 4)), min_size=_TABLES, max_size=_TABLES))
    def draw(tables: list[Table]) -> None:
        found[:] = tables

    draw()
    return [
        replace(table, rows=tuple(tuple(map(taken, table.written, row)) for row in table.rows))
        for table in found
    ]


def taken(column: Column, literal: str) -> str:
    """A literal, with another for one at which Debezium stops in some mode."""
    if column.kind.definition.startswith("TIME(") and not column.nullable and not _OF_A_DAY.match(literal):
        return "'12:34:56'"
    return real_day(literal)


def changed_at_random(server: MysqlServer, tables: Sequence[AlteredTable], some: Random) -> LogStart:
    """Make the tables, fill them, and change them in each way; returns where the log stood before.

    Where the log has all columns of a row, whatever `binlog_row_image` says, Debezium takes it.
    """
    start = log_end(server)
    for each in tables:
        hidden = each.table.key_at is None
        server.sql(
            f"SET SESSION sql_generate_invisible_primary_key = {int(hidden)}",
            each.table.create(each.name),
            each.table.insert(each.name),
        )
    for each in tables:
        updates = [each.table.update(each.name, key, {}) for key in range(1, len(each.table.rows) + 1)]
        server.sql("BEGIN", *updates, some.choice(["COMMIT", "ROLLBACK"]))
    for _ in range(_ALTERATIONS):
        for each in tables:
            altered = each.alter()
            images = ("NOBLOB", "FULL") if each.without_blobs else ("FULL",)
            server.sql(
                *altered,
                f"SET SESSION binlog_row_image = {some.choice(images)}",
                *(each.insert(), each.insert(), each.update(), each.delete()),
                f"SET SESSION binlog_row_image = {'MINIMAL' if each.names_all else 'FULL'}",
                each.insert(),
            )
            if some.random() < 0.2:
                server.sql(f"TRUNCATE {each.name}", each.insert())
        changed = some.sample(tables, 3)
        server.sql(
            "BEGIN", *(each.update() for each in changed), *(each.insert() for each in changed), "COMMIT"
        )
    return start


@pytest.mark.parametrize(
    "number", [10, *(pytest.param(number, marks=pytest.mark.full) for number in range(12, 43))]
)
def test_random_tables_have_debeziums_messages(
    parts: Parts, server: MysqlServer, account: Account, tmp_path: Path, number: int
) -> None:
    some = Random(number)
    tables = [AlteredTable(f"shop.t{at}", table, some, _KINDS) for at, table in enumerate(tables_of(number))]
    start = changed_at_random(server, tables, some)
    # Debezium ignores CREATE TABLE where its first look at the source has found the table.
    server.sql("INSERT INTO marker.end VALUES (1)", *(f"DROP TABLE {each.name}" for each in tables))
    modes = all_modes_of(some, times_of(tables))
    said = {"random": modes.variant}
    theirs = debezium_variants(parts, server, account, start, "marker.end", tmp_path, modes.options, said)
    definitions = {f"{PREFIX}.shop.t{at}": each.definitions for at, each in enumerate(tables)}
    mine = ours(server, account, start, **modes.form)
    without_ends(mine, modes)
    found = list(differences(mine, theirs["random"], definitions, modes))
    assert not found, "\n".join((str(modes), *(each[:400] for each in found[:12])))


def times_of(tables: Sequence[AlteredTable]) -> set[str]:
    """Columns that are a TIME in one of the tables: Debezium stops at some in a key, with isostring."""
    definitions = [
        (name, each) for table in tables for name, several in table.definitions.items() for each in several
    ]
    return {name for name, each in definitions if re.match(r"\w+ TIME\b", each)}


def without_ends(mine: Mapping[str, list[Message]], modes: Modes) -> None:
    """Take away a truncate at a topic's end: the table was renamed or dropped. Rows follow each TRUNCATE."""
    for messages in mine.values():
        last = part_of(messages[-1].value, modes).payload
        if isinstance(last, dict) and "source" in last and last.get("op") == "t":
            messages.pop()
