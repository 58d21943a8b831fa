"""Everyone reads the same rows of a benchmark's log: else their rates would say nothing."""

from collections.abc import Iterator
from dataclasses import replace
from multiprocessing import resource_tracker

import pytest

from bench import _debezium, _readers
from bench._logs import DOCUMENTS, ELEVEN, ONE, PARTS, SIXTY, Log, Table, server, write, write_diffs
from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.gtid.coordinates import Coordinates

ROWS = 4_000  # several events in a transaction


@pytest.fixture(scope="module")
def mysql(parts: Parts) -> Iterator[MysqlServer]:
    with server(parts) as running:
        yield running


@pytest.fixture(scope="module")
def log(mysql: MysqlServer) -> Log:
    """The server's log until a test writes another one."""
    return write(mysql, ELEVEN, ROWS, transaction=1_000)


def test_a_log_has_the_rows_and_images_that_it_tells(mysql: MysqlServer, log: Log) -> None:
    assert (log.rows, log.images) == (ROWS, ROWS + ROWS // 5)
    assert mysql.sql("SELECT COUNT(*) FROM bench.eleven") == [(ROWS - ROWS // 5,)]


def test_the_raw_socket_gives_the_whole_log(log: Log) -> None:
    assert _readers.raw_socket(log, ROWS) > 0  # it counts the bytes itself
    with pytest.raises(AssertionError, match="bytes came"):
        _readers.raw_socket(replace(log, end=Coordinates(log.end.file, 10 * log.end.offset)), ROWS)


def test_tidemark_reads_every_image_and_none_of_another_table(log: Log) -> None:
    assert _readers.tidemark(log, ROWS) > 0  # it counts the images itself
    assert _readers.tidemark_uncaptured(log, ROWS) > 0
    with pytest.raises(AssertionError, match="row images came"):
        _readers.tidemark(replace(log, images=log.images + 1), ROWS)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_mysql_replication_reads_the_first_rows(log: Log) -> None:
    assert _readers.mysql_replication(log, 1_000) > 0
    assert _readers.mysql_replication(log, ROWS) > 0


@pytest.fixture(scope="module")
def _tracker() -> None:
    """multiprocessing's own child, which stays as long as the interpreter does."""
    resource_tracker.ensure_running()


@pytest.mark.usefixtures("_tracker")
def test_a_reading_in_a_process_of_its_own_gives_its_rate(log: Log) -> None:
    raw, ours = _readers.readings([_readers.raw_socket, _readers.tidemark], log, ROWS, times=2)
    assert raw.rate > 0 and ours.rate > 0 and 0 < raw.processor_us < 1e6


@pytest.mark.parametrize(
    ("table", "transaction"), [(ONE, 1_000), (SIXTY, 1_000), (DOCUMENTS, 1_000), (ELEVEN, 1)]
)
def test_every_table_can_be_filled_and_read(mysql: MysqlServer, table: Table, transaction: int) -> None:
    written = write(mysql, table, 1_000, transaction)
    assert _readers.tidemark(written, 1_000) > 0


def test_a_log_of_diffs_has_two_images_of_each_document(mysql: MysqlServer) -> None:
    written = write_diffs(mysql, ROWS, transaction=1_000)
    assert (written.rows, written.images, written.table) == (ROWS, 2 * ROWS, PARTS.name)
    assert _readers.tidemark(written, ROWS) > 0  # it counts the images itself


def test_debeziums_rate_is_told_from_behind_its_warming_up() -> None:
    told = [(100, 0), (200, 4_000_000_000), (600, 5_000_000_000), (1000, 6_000_000_000)]
    marks = [_debezium.Mark(*mark) for mark in told]
    assert _debezium._rate(marks) == 400  # 800 rows in the 2 s after the first 200
