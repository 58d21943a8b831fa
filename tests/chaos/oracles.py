"""What has to be so behind a run: the oracles, each with what it compares. Those of rows and changes are elsewhere
(`tests.servers.journal_oracle`, `tests.servers.lake_oracle`), and that of what was asked of the source is the demo's.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final

from deploy.demo.judge import reads_only
from deploy.demo.writer import Line
from deploy.oracle.source import primary_key
from deploy.toolchain.mysql_server import MysqlServer
from pipeline.gtid.gtid_set import GtidSet
from pipeline.lake.tables.paths import findings_path
from pipeline.schema.table_schema import TableId
from tests.chaos.world import World
from tests.servers.duckdb_engine import engine
from tests.servers.journal_oracle import Story, ahead, entries, replay, unequal, untrue_stories
from tests.servers.lake_oracle import unequal_lake, untrue_lake
from tests.servers.mysqlbinlog import Image, Printed, printed_rows
from tests.servers.shop import TABLES

# How many of the positions the server is asked about.
_SAMPLED: Final = 100
# How many differences of one table are told.
_TOLD: Final = 5

# Of a changed row what was done with it, its key, version and operation.
_Shown = tuple[str, ...]


def findings(world: World, tally: Sequence[Line]) -> list[str]:
    """All that's wrong, with the service ended and the source at rest."""
    journal, source = world.house / "journal", world.source
    # A run has hundreds of segments: each judge would read them all again.
    chain = entries(journal)
    stories = {table: replay(journal, table, since=0, chain=chain) for table in TABLES}
    found = [
        *unequal(source, journal, *TABLES, chain=chain),
        *untrue_stories(stories, tally),
        *ahead(chain, stories),
        *_positions(source, [str(entry.checkpoint.position) for entry in chain]),
        *_otherwise_decoded(source, world.parts.mysql.bin / "mysqlbinlog", stories),
    ]
    if world.lake:
        lake = str(world.house / "lake")
        found += unequal_lake(source, lake, *TABLES)
        found += untrue_lake(source, lake, tally, *TABLES)
    for server in world.servers:
        found += reads_only(server.logged(), world.account).differences
    return found


def alarms(lake: str) -> list[str]:
    """The rows that verifications have found to differ. With the lake as it should be each is a false alarm.

    The first finding makes their table.
    """
    if not Path(findings_path(lake)).exists():
        return []
    with closing(engine()) as duckdb:
        found = duckdb.execute(
            f"SELECT run, database, \"table\", kind, key, columns FROM delta_scan('file://{findings_path(lake)}')"
            " WHERE kind <> 'unjudged'"
        ).fetchall()
    return [
        f"the verification {run} found in {database}.{table}: {kind}, {key}, {columns}"
        for run, database, table, kind, key, columns in found[:_TOLD]
    ]


def _positions(source: MysqlServer, positions: Sequence[str]) -> Iterator[str]:
    """By the server's own algebra: positions only grow, and in the end nothing that was executed is missing."""
    step = max(1, len(positions) // _SAMPLED)
    sampled = [*positions[:-1:step], positions[-1]]
    with closing(source.connect()) as connection, connection.cursor() as cursor:
        for before, after in pairwise(sampled):
            cursor.execute("SELECT GTID_SUBSET(%s, %s)", (before, after))
            if cursor.fetchall() != ((1,),):
                yield f"the position {before} isn't a subset of {after}, which came behind it"
        cursor.execute("SELECT GTID_SUBTRACT(@@GLOBAL.gtid_executed, %s)", (sampled[-1],))
        [(missing,)] = cursor.fetchall()
        if missing:
            yield f"the source has executed {missing}, which isn't in the last position"
        cursor.execute("SELECT GTID_SUBTRACT(%s, @@GLOBAL.gtid_executed)", (sampled[-1],))
        [(invented,)] = cursor.fetchall()
        if invented:
            yield f"{invented} is in the last position, and the source hasn't executed it"


def _otherwise_decoded(source: MysqlServer, mysqlbinlog: Path, stories: Mapping[TableId, Story]) -> list[str]:
    """Transactions of which MySQL's own program finds other changes in the source's log than the journal has."""
    files = [source.data / name for name, *_ in source.sql("SHOW BINARY LOGS")]
    [(purged,)] = source.sql("SELECT @@GLOBAL.gtid_purged")
    gone, printed = GtidSet.parse(purged), printed_rows(mysqlbinlog, *files)

    @cache  # a transaction has many changes
    def is_gone(gtid: str) -> bool:
        return GtidSet.parse(gtid) <= gone

    found: list[str] = []
    for table, story in stories.items():
        columns = [name for name, *_ in source.sql(f"SHOW COLUMNS FROM {table.database}.{table.name}")]
        shown = (*primary_key(source, table), "version", "op_no")
        places = [columns.index(name) for name in shown]
        theirs, ours = defaultdict[str, list[_Shown]](list), defaultdict[str, list[_Shown]](list)
        for row in printed:
            if row.table == table.name:
                theirs[row.gtid] += _told(row, places)
        for change in story.changes:
            if change.gtid is not None and not is_gone(change.gtid):
                ours[change.gtid].append((change.op, *(str(change.row[name]) for name in shown)))
        found += [
            f"{table}: {ours[gtid]} is {theirs[gtid]} in what mysqlbinlog prints of {gtid}"
            for gtid in ours.keys() | theirs.keys()
            if ours[gtid] != theirs[gtid]
        ][:_TOLD]
    return found


def _told(row: Printed, places: Sequence[int]) -> list[_Shown]:
    """What a printed row says. A row that gets another key has left its old one."""

    def image(values: Image) -> _Shown:
        return tuple(values[place].decode().strip("'") for place in places)

    told = [(row.op, *image(row.set or row.where))]
    if row.op == "u" and (before := image(row.where))[:-2] != told[0][1:-2]:
        return [("d", *before), *told]
    return told
