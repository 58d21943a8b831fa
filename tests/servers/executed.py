"""What a server has executed, as positions: by GTIDs, or, if it has none, by files and offsets of its log."""

from deploy.toolchain.mysql_server import MysqlServer
from pipeline.gtid import file_positions
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet
from pipeline.source.prerequisites import server_version

__all__ = ["end_of_log", "executed"]


def executed(server: MysqlServer) -> GtidSet:
    """All that it has executed."""
    [(mode, gtids)] = server.sql("SELECT @@GLOBAL.gtid_mode, @@GLOBAL.gtid_executed")
    if mode == "ON":
        return GtidSet.parse(gtids.replace("\n", ""))
    return file_positions.all_before(server.uuid, end_of_log(server))


def end_of_log(server: MysqlServer) -> Coordinates:
    """Where its log ends."""
    [(version,)] = server.sql("SELECT VERSION()")
    old = server_version(version) < (8, 4)
    [(file, offset, *_)] = server.sql(f"SHOW {'MASTER' if old else 'BINARY LOG'} STATUS")
    return Coordinates(file, int(offset))
