"""A journal in an object store that carries requests out when the service has long given them up."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

import pyarrow.parquet as pq
import pytest

from actors.journal.store import JournalReader
from deploy.toolchain.mysql_server import MysqlServer
from pipeline.journal.entry import FileKind
from tests.servers.late_puts import LatePuts
from tests.servers.service import pipeline, running


@pytest.fixture
def late(s3: str) -> Iterator[LatePuts]:
    with LatePuts(int(dict(parse_qsl(urlsplit(s3).query))["endpoint_override"].rpartition(":")[2])) as proxy:
        yield proxy


def through(s3: str, proxy: LatePuts) -> str:
    place = urlsplit(s3)
    query = {**dict(parse_qsl(place.query)), "endpoint_override": f"127.0.0.1:{proxy.port}"}
    return place._replace(query=urlencode(query)).geturl()


def ids(journal: JournalReader) -> list[int]:
    """The keys of all changes, in their order."""
    found = list[int]()
    for entry in journal.entries(0, journal.last_segment()):
        for file in entry.files:
            assert file.kind is FileKind.CHANGES
            with journal.files.filesystem.open_input_file(journal.file(entry.segment, file.path)) as opened:
                found += pq.read_table(opened).column("id").to_pylist()
    return found


async def test_what_the_store_carries_out_late_changes_no_segment(
    mysql: MysqlServer, database: str, s3: str, late: LatePuts, tmp_path: Path
) -> None:
    """Neither an entry that seemed to fail, nor a file of one; and a start finds the journal whole."""
    mysql.sql(f"CREATE TABLE {database}.t (id INT PRIMARY KEY)")
    settings = pipeline(mysql, tmp_path, database)
    settings = replace(settings, journal=replace(settings.journal, path=through(s3, late)))
    for part in ("manifest/", "segments/"):
        async with running(settings) as service:
            await service.begun()
            first = 10 if part == "manifest/" else 20
            for n in range(first, first + 3):
                mysql.sql(f"INSERT INTO {database}.t VALUES ({n})")
            await service.caught_up(mysql)
            await service.sealed()
            late.held.clear()
            late.holds = part.encode()
            mysql.sql(f"INSERT INTO {database}.t VALUES ({first + 3})")
            await service.until(lambda: service.supervisor.failures, "the store fails")
            mysql.sql(f"INSERT INTO {database}.t VALUES ({first + 4}), ({first + 5})")
            late.holds = b""
            await service.caught_up(mysql)
            await service.sealed()
            late.pass_on()
            mysql.sql(f"INSERT INTO {database}.t VALUES ({first + 6})")
            await service.caught_up(mysql)
            await service.sealed()
            await service.stop()
    async with running(settings) as service:
        await service.begun()
    assert ids(JournalReader(s3)) == [*range(10, 17), *range(20, 27)]
