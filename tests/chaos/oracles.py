"""What has to be so behind a run: the oracles, each with what it compares. Those of rows and changes are elsewhere
(`tests.servers.journal_oracle`, `tests.servers.lake_oracle`), and that of what was asked of the source is the demo's.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from typing import Final

from deploy.demo.judge import reads_only
from deploy.demo.writer import Line
from deploy.toolchain.mysql_server import MysqlServer
from tests.chaos.world import World
from tests.servers.journal_oracle import ahead, entries, unequal, untrue
from tests.servers.lake_oracle import unequal_lake, untrue_lake
from tests.servers.shop import TABLES

# How many of the positions the server is asked about.
_SAMPLED: Final = 100


def findings(world: World, tally: Sequence[Line]) -> list[str]:
    """All that's wrong, with the service ended and the source at rest."""
    journal, source = world.house / "journal", world.source
    found = [
        *unequal(source, journal, *TABLES),
        *untrue(journal, tally, *TABLES),
        *ahead(journal, *TABLES),
        *_positions(source, [str(entry.checkpoint.position) for entry in entries(journal)]),
    ]
    if world.lake:
        lake = str(world.house / "lake")
        found += unequal_lake(source, lake, *TABLES)
        found += untrue_lake(source, lake, tally, *TABLES)
    for server in world.servers:
        found += reads_only(server.logged(), world.account).differences
    return found


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
