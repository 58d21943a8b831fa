"""GTID sets mean to MySQL what they mean to us: its functions, its texts, its log and its dump protocol."""

import random
import struct
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pymysql.constants import COMMAND

from deploy.toolchain.mysql_server import GTIDS, GTIDS_56, MysqlServer
from pipeline.gtid.gtid_set import Gtid, GtidSet, Tsid
from tests.pipeline.gtid.test_gtid_set import DOUBTFUL, READ, REFUSED, scattered
from tests.servers.mysql import MysqlFactory

UUIDS = [f"{i:08x}-71ca-11e1-9e33-c80aa942956{i}" for i in range(4)]
TAGS = ["", "", "a", "a_", "a0", "b", "_", "long_tag_of_thirty_two_letters__"]
CASES = 400
CASES_IN_A_QUERY = 50

PREVIOUS_GTIDS_EVENT = 35
NON_BLOCKING = 1  # BINLOG_DUMP_NON_BLOCK: the dump ends with the log


def random_text(rng: random.Random) -> str:
    """A text that isn't canonical: sources come again, in any case; ranges touch, overlap or are empty."""
    pieces = []
    for _ in range(rng.randrange(6)):
        items = [rng.choice((str.upper, str.lower))(rng.choice(UUIDS))]
        for _ in range(rng.randrange(5)):
            if tag := rng.choice(TAGS):
                items.append(rng.choice((tag, tag.upper())))
            low = rng.randrange(1, 40)
            items.append(rng.choice((f"{low}", f"{low}-{low + rng.randrange(12)}", f" {low} - {low - 1}")))
        pieces.append(rng.choice((":", " : ")).join(items))
    return rng.choice((",", ",\n", " ,, ")).join(pieces)


def batched(cases: list[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    for start in range(0, len(cases), CASES_IN_A_QUERY):
        yield cases[start : start + CASES_IN_A_QUERY]


@pytest.mark.parametrize("version", ["mysql_factory", "mysql56_factory"])
def test_what_sessions_own_is_read_as_the_server_writes_it(
    request: pytest.FixtureRequest, version: str
) -> None:
    """Of several sources, and with tags where there are any: no separator is between one's thread and the next one."""
    factory: MysqlFactory = request.getfixturevalue(version)
    old = version == "mysql56_factory"
    server = factory(GTIDS_56 if old else GTIDS)
    owned = [f"{uuid}:{number}" for uuid in UUIDS for number in ("5", "9", *(() if old else ("a:3", "b:4")))]
    with ExitStack() as sessions:
        for gtid in owned:
            session = sessions.enter_context(closing(server.connect()))
            session.cursor().execute(f"SET GTID_NEXT = '{gtid}'")
        [(text,)] = server.sql("SELECT @@GLOBAL.gtid_owned")
    assert text.count("#") == len(owned)
    assert GtidSet.parse_owned(text) == GtidSet.parse(",".join(owned))


def test_sets_are_what_the_server_says(mysql: MysqlServer) -> None:
    rng = random.Random(20)
    cases = [(random_text(rng), random_text(rng)) for _ in range(CASES)]
    # Of random sets few contain one another, so let some.
    cases += [(a, f"{a},{b}") for a, b in cases]
    one = (
        "SELECT GTID_SUBTRACT('{a}', ''), GTID_SUBTRACT('{a},{b}', ''), GTID_SUBTRACT('{a}', '{b}'), "
        "GTID_SUBTRACT('{a}', GTID_SUBTRACT('{a}', '{b}')), GTID_SUBSET('{a}', '{b}')"
    )
    contained = 0
    for batch in batched(cases):
        answers = mysql.sql(" UNION ALL ".join(one.format(a=a, b=b) for a, b in batch))
        for (a, b), answer in zip(batch, answers, strict=True):
            x, y = GtidSet.parse(a), GtidSet.parse(b)
            assert (str(x), str(x | y), str(x - y), str(x & y), int(x <= y)) == answer, (a, b)
            contained += x <= y
    assert CASES <= contained < 2 * CASES


def test_membership_is_what_the_server_says(mysql: MysqlServer) -> None:
    rng = random.Random(21)
    cases = []
    for _ in range(CASES):
        gtid = Gtid(Tsid(rng.choice(UUIDS), rng.choice(TAGS)), rng.randrange(1, 50))
        cases.append((str(gtid), ",".join(random_text(rng) for _ in range(3))))
    inside = 0
    for batch in batched(cases):
        answers = mysql.sql(" UNION ALL ".join(f"SELECT GTID_SUBSET('{g}', '{s}')" for g, s in batch))
        for (gtid_text, text), (answer,) in zip(batch, answers, strict=True):
            assert (Gtid.parse(gtid_text) in GtidSet.parse(text)) == bool(answer), (gtid_text, text)
            inside += answer
    assert 0 < inside < CASES


def canonical_text(mysql: MysqlServer, text: str) -> str:
    with closing(mysql.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT GTID_SUBTRACT(%s, '')", (text,))
        [(canonical,)] = cursor.fetchall()
        return str(canonical)


@pytest.mark.parametrize(("text", "canonical"), READ)
def test_texts_that_we_read_are_read_by_the_server(mysql: MysqlServer, text: str, canonical: str) -> None:
    assert canonical_text(mysql, text) == canonical


@pytest.mark.parametrize("text", [text for text, _ in REFUSED])
def test_texts_that_we_refuse_are_refused_by_the_server(mysql: MysqlServer, text: str) -> None:
    with pytest.raises(pymysql.err.MySQLError, match="Malformed GTID set"):
        canonical_text(mysql, text)


@pytest.mark.parametrize("text", [text for text, _ in DOUBTFUL])
def test_leading_zeros_are_read_by_this_server_and_not_by_us(mysql: MysqlServer, text: str) -> None:
    """A set with such numbers isn't the same one to each version."""
    assert canonical_text(mysql, text) == text.replace("010", "10")


def test_sets_of_a_million_intervals_are_what_the_server_says(mysql: MysqlServer) -> None:
    a, b = scattered(1, 1_000_000), scattered(2, 1_000_000)
    assert canonical_text(mysql, str(a)) == str(a)
    with closing(mysql.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT GTID_SUBTRACT(%s, %s)", (str(a), str(b)))
        [(difference,)] = cursor.fetchall()
        assert difference == str(a - b)
        cursor.execute("SELECT GTID_SUBSET(%s, %s)", (str(a), str(b)))
        assert cursor.fetchall() == ((int(a <= b),),) == ((0,),)
        cursor.execute("SELECT GTID_SUBSET(%s, %s)", (difference, str(a)))
        assert cursor.fetchall() == ((int(a - b <= a),),) == ((1,),)


@pytest.fixture
def server(mysql_factory: MysqlFactory) -> MysqlServer:
    """A server that logs all that clients send, and has a table to write to."""
    server = mysql_factory({**GTIDS, "general_log": "ON"})
    server.sql("CREATE DATABASE d", "CREATE TABLE d.t (a INT)")
    return server


def commit(server: MysqlServer, gtid_next: str) -> None:
    server.sql(f"SET gtid_next = '{gtid_next}'", "INSERT INTO d.t VALUES (1)")


def previous_gtids(log: Path) -> bytes:
    """The body of a binary log's PREVIOUS_GTIDS event, without its checksum."""
    data, at = log.read_bytes(), 4
    while True:
        _, kind, _, size = struct.unpack_from("<IBII", data, at)
        if kind == PREVIOUS_GTIDS_EVENT:
            return data[at + 19 : at + size - 4]
        at += size


@pytest.mark.parametrize("tagged", [False, True])
def test_the_binary_form_is_the_one_in_the_servers_log(server: MysqlServer, tagged: bool) -> None:
    for gtid_next in (f"{UUIDS[1]}:7", f"{UUIDS[1]}:8", f"{UUIDS[1]}:3", f"{UUIDS[0]}:5", "AUTOMATIC"):
        commit(server, gtid_next)
    if tagged:
        for gtid_next in (f"{UUIDS[1]}:{TAGS[-1]}:2", f"{UUIDS[3]}:a_:9", "AUTOMATIC:b", "AUTOMATIC:b"):
            commit(server, gtid_next)
    server.sql("FLUSH BINARY LOGS")
    [(file, *_)] = server.sql("SHOW BINARY LOG STATUS")
    [(base,)] = server.sql("SELECT @@log_bin_basename")
    body = previous_gtids(Path(base).with_name(file))
    assert GtidSet.decode(body) == GtidSet.parse(server.executed())
    assert GtidSet.decode(body).encode() == body


def dump(server: MysqlServer, position: GtidSet) -> int:
    """Ask for the log after a position (COM_BINLOG_DUMP_GTID), read to its end; how many packets came."""
    encoded = position.encode()
    connection: Any = server.connect()  # PyMySQL's raw commands are private, and so without types
    with closing(connection):
        connection.query("SET @source_binlog_checksum = 'CRC32'")
        request = struct.pack("<HIIQI", NON_BLOCKING, 4711, 0, 4, len(encoded)) + encoded
        connection._execute_command(COMMAND.COM_BINLOG_DUMP_GTID, request)
        packets = 0
        while not connection._read_packet().is_eof_packet():
            packets += 1
        return packets


@pytest.mark.parametrize(
    "text",
    ["", f"{UUIDS[0]}:1-5", f"{UUIDS[0]}:1-5:8:11-12,{UUIDS[3]}:7", f"{UUIDS[0]}:a:1-3:b:7,{UUIDS[2]}:2:_:9"],
)
def test_a_dump_request_says_to_the_server_what_it_says_to_us(server: MysqlServer, text: str) -> None:
    position = GtidSet.parse(text)
    dump(server, position)
    [logged] = [command.text for command in server.logged() if command.kind.startswith("Binlog Dump")]
    assert logged.endswith(f"GTIDs: '{position}'")


def test_a_dump_leaves_out_what_the_position_holds(server: MysqlServer) -> None:
    for gtid_next in ("AUTOMATIC", "AUTOMATIC:b", f"{UUIDS[0]}:a:3"):
        commit(server, gtid_next)
    all_of_it = GtidSet.parse(server.executed())
    everything, nothing = dump(server, GtidSet()), dump(server, all_of_it)
    without_one = dump(server, all_of_it - GtidSet.parse(f"{UUIDS[0]}:a:3"))
    assert nothing < without_one < everything
