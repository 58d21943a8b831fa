"""A server's log as the product reads it, from the dump to the rows of proven schemas."""

from actors.source.binlog_dump import BinlogDump
from deploy.toolchain.mysql_server import Account, MysqlServer
from pipeline.binlog.slice import Slice
from pipeline.binlog.stream import LogStream
from pipeline.binlog.transaction_assembler import Given
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.changes import ChangesVerified, SchemaChanged
from pipeline.schema.known_schemas import KnownSchemas
from pipeline.schema.table_filter import TableFilter
from pipeline.snapshot.checkpoint import Checkpoint
from pipeline.verifier.state import FromVerifier
from pipeline.verifier.step import start, step
from tests.pipeline.verifier.answers import told
from tests.servers.source import settings


async def read_log(
    server: MysqlServer,
    account: Account,
    captured: TableFilter,
    position: GtidSet,
    known: KnownSchemas,
    keeps_statements: bool = False,
    keeps: TableFilter | None = None,
) -> list[FromVerifier]:
    """Returns all messages of the verifier about the log after the position, up to what the server has executed by
    now."""
    executed = GtidSet.parse(server.executed())
    dump = await BinlogDump.open(settings(server, account), position)
    stream = LogStream(
        captured.match, captured.may_match_in, position=position, keeps_statements=keeps_statements
    )
    state, news = start(captured, known, Checkpoint(position), keeps=keeps)
    said, ordinal = list(told(news)), 0
    try:
        while not executed <= position:
            await dump.receive()
            came: list[Given] = []
            while (frames := dump.frames()) is not None:
                came += stream.parse(frames)
            for given in [*came, *stream.take()]:
                first = ordinal if isinstance(given, Slice) and given.continues else 0
                message, ordinal = given.read(first) if isinstance(given, Slice) else (given, 0)
                state, verified = step(state, message)
                said += told(verified)
                for each in verified:
                    if isinstance(each, ChangesVerified):
                        position = each.transactions.added_to(position)
                    elif isinstance(each, SchemaChanged):
                        position = position.with_gtid(each.gtid)
    finally:
        dump.close()
    return said
