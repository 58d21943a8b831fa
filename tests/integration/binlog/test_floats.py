"""FLOAT and DOUBLE, bit by bit: what was written is what both paths read, over all exponents, signs and subnormals.

The server's text of a FLOAT has six digits, so nothing that goes through it would do.
"""

import random
from typing import Final

import numpy as np
import pyarrow as pa

from deploy.toolchain.mysql_server import MysqlServer
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.changes import ChangesVerified
from pipeline.schema.known_schemas import KnownSchemas
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId
from tests.servers.log import read_log
from tests.servers.source import connected, read_whole

COUNT: Final = 1000  # the most rows that `read_whole` reads


def some(width: type[np.float32 | np.float64], seed: int) -> list[float]:
    """Numbers of random bits and edges: zeros, the largest, the least that's normal, and the subnormals' ends."""
    info = np.finfo(width)
    least, normal, most = (float(each) for each in (info.smallest_subnormal, info.smallest_normal, info.max))
    edges = [0.0, least, float(np.nextafter(width(normal), width(0))), normal, most, 0.1, 1 / 3, 16777217.0]
    bits = np.frombuffer(random.Random(seed).randbytes(2 * COUNT * info.bits // 8), width)
    numbers = [*edges, *(-edge for edge in edges), *bits[np.isfinite(bits)].tolist()]
    return [float(width(number)) for number in numbers[:COUNT]]


def bits(values: pa.Array) -> list[bytes]:
    return [value.tobytes() for value in values.to_numpy()]


async def test_floats_are_exact_to_the_bit_on_both_paths(mysql: MysqlServer, database: str) -> None:
    mysql.sql("CREATE TABLE t (id INT PRIMARY KEY, f FLOAT NOT NULL, d DOUBLE NOT NULL)", database=database)
    singles, doubles = some(np.float32, 7), some(np.float64, 8)
    table = TableId(database, "t")
    async with connected(mysql, database) as source:
        schema = (await source.describe([table]))[table].schema
        position = GtidSet.parse(mysql.executed())
        rows = (f"({i}, {f:.17e}, {d:.17e})" for i, (f, d) in enumerate(zip(singles, doubles, strict=True)))
        mysql.sql(f"INSERT INTO t VALUES {', '.join(rows)}", database=database)
        selected = await read_whole(source, schema)
    account = mysql.create_capture_user(database)
    told = await read_log(
        mysql, account, TableFilter((rf"{database}\.t",)), position, KnownSchemas({}, GtidSet())
    )
    [logged] = [
        part.rows for changes in told if isinstance(changes, ChangesVerified) for part in changes.tables
    ]
    for read in (selected, logged):
        assert bits(read["f"]) == [np.float32(number).tobytes() for number in singles]
        assert bits(read["d"]) == [np.float64(number).tobytes() for number in doubles]
