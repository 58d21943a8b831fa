"""A server has to prove its identity before it gets any data, on the connection for queries and on the one for the log.

And what a foreign server can get from us: no password, and no file.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path, PurePath

import pytest
from pymysql.constants import CLIENT, COMMAND

from actors.source.binlog_dump import BinlogDump
from actors.source.connection import Source
from deploy.toolchain.mysql_server import GTIDS, SMALL_AND_QUICK, Account, MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.config.settings import Secret, SourceSettings, TlsMode, TlsSettings
from pipeline.errors import Definite, TidemarkError
from pipeline.gtid.gtid_set import NO_GTIDS
from pipeline.source.statement import Statement
from tests.servers.certificates import DAY, Authority
from tests.servers.hostile import Hostile, hostile
from tests.servers.source import settings

Opened = Source | BinlogDump
Open = Callable[[SourceSettings], Awaitable[Opened]]

# Its letters aren't of latin1, which is what the driver would write it in.
GUARDED = Account("guarded", "пароль-canary")
WITHIN_S = 60.0


async def asking(settings: SourceSettings) -> Source:
    """The connection that statements go over."""
    return await Source.connect(settings)


async def following(settings: SourceSettings) -> BinlogDump:
    """The one that the log comes by."""
    return await BinlogDump.open(settings, NO_GTIDS)


both = pytest.mark.parametrize("opened", [asking, following])


class Guarded:
    """A server that admits no client without TLS, and whose certificate can be changed."""

    def __init__(self, server: MysqlServer, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.authority = Authority.found(folder / "authority.pem")
        self.show(self.authority.vouch(folder / "right.pem", server.host))

    def show(self, certificate: Path) -> None:
        """Have it prove itself by this one from now on; by none, where the file isn't there."""
        self.server.sql(
            f"SET GLOBAL ssl_cert = '{certificate}', ssl_key = '{certificate}', ssl_ca = '{self.authority.trusted}'",
            "ALTER INSTANCE RELOAD TLS" + ("" if certificate.exists() else " NO ROLLBACK ON ERROR"),
        )

    def settings(self, trusted: Path | None = None) -> SourceSettings:
        """The settings of capture if they say nothing of TLS except the authority."""
        return settings(self.server, GUARDED, tls=TlsSettings(ca=PurePath(trusted or self.authority.trusted)))


@pytest.fixture(scope="module")
def once(parts: Parts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("tls")
    with MysqlServer(parts.mysql, folder / "mysql", {**SMALL_AND_QUICK, **GTIDS}) as server:
        server.create_capture_user(account=GUARDED)
        server.sql(f"ALTER USER {GUARDED.user} REQUIRE SSL")
        yield Guarded(server, folder)


@pytest.fixture
def guarded(once: Guarded) -> Guarded:
    once.show(once.folder / "right.pem")
    return once


@both
async def test_the_right_certificate(opened: Open, guarded: Guarded) -> None:
    (await opened(guarded.settings())).close()  # the server admits no client without TLS


@both
async def test_nothing_is_trusted_that_nobody_vouches_for(opened: Open, guarded: Guarded) -> None:
    another = Authority.found(guarded.folder / "another.pem")
    await refused(opened, guarded.settings(another.trusted), "certificate verify failed")
    await refused(opened, settings(guarded.server, GUARDED, tls=TlsSettings()), "certificate verify failed")


@both
async def test_a_certificate_for_another_host(opened: Open, guarded: Guarded) -> None:
    guarded.show(guarded.authority.vouch(guarded.folder / "elsewhere.pem", "127.0.0.2"))
    await refused(opened, guarded.settings(), "IP address mismatch")


@both
@pytest.mark.parametrize(
    ("valid", "why"),
    [
        ((-DAY, -10 * DAY), "certificate has expired"),
        ((20 * DAY, 10 * DAY), "certificate is not yet valid"),
        ((DAY, -10 * DAY), ""),
    ],
)
async def test_a_certificate_that_is_not_of_this_time(
    opened: Open, valid: tuple[timedelta, timedelta], why: str, tmp_path: Path
) -> None:
    """MySQL itself doesn't start with one, so that a server of our own shows it."""
    authority = Authority.found(tmp_path / "authority.pem")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(authority.vouch(tmp_path / "server.pem", "127.0.0.1", *valid))
    async with hostile(Hostile(tls=tls)) as server:
        trusting = TlsSettings(ca=PurePath(authority.trusted))
        settings = SourceSettings("127.0.0.1", "u", server.port, Secret("canary"), trusting, server_id=7)
        if why:
            await refused(opened, settings, why)
        else:
            (await opened(settings)).close()  # so it's the time alone that's refused
        await gone(server)
        assert bool(server.told) == (not why)


@both
@pytest.mark.parametrize("mode", [TlsMode.VERIFY, TlsMode.REQUIRED])
async def test_a_server_without_tls(opened: Open, mode: TlsMode, guarded: Guarded) -> None:
    guarded.show(guarded.folder / "nowhere.pem")
    with pytest.raises(Definite, match="the source offers no TLS"):
        await opened(settings(guarded.server, GUARDED, tls=TlsSettings(mode)))


async def refused(opened: Open, settings: SourceSettings, why: str) -> None:
    with pytest.raises(Definite, match=rf"certificate can't be trusted.*{why}.*source\.tls"):
        await opened(settings)


@both
async def test_who_offers_no_tls_is_not_told_who_we_are(opened: Open) -> None:
    async with hostile(Hostile()) as server:
        with pytest.raises(Definite, match="the source offers no TLS"):
            await opened(SourceSettings("127.0.0.1", "canary", server.port, server_id=7))
        await gone(server)
        assert server.told == []


# -- the password


@pytest.mark.parametrize("mode", [TlsMode.VERIFY, TlsMode.DISABLED])
async def test_the_first_login_shows_the_password_to_nobody_in_between(
    mode: TlsMode, guarded: Guarded
) -> None:
    """The server knows only its digest until it has seen it once (caching_sha2_password, full authentication)."""
    account = Account("open", GUARDED.password)
    guarded.server.create_capture_user(account=account)
    guarded.server.sql("FLUSH PRIVILEGES")  # it has seen none
    heard = bytearray()
    async with listening_in(guarded.server, heard) as port:
        tls = TlsSettings(mode, PurePath(guarded.authority.trusted) if mode is TlsMode.VERIFY else None)
        source = await Source.connect(settings(guarded.server, account, port=port, tls=tls))
        [(plugin,)] = guarded.server.sql(f"SELECT plugin FROM mysql.user WHERE user = '{account.user}'")
        assert plugin == "caching_sha2_password"
        source.close()
    assert (b"PUBLIC KEY" in heard) == (mode is TlsMode.DISABLED)  # then it's encrypted for the server's key
    assert account.password.encode() not in heard
    guarded.server.sql(f"DROP USER {account.user}")


@pytest.mark.parametrize(
    "server",
    [
        lambda: Hostile("mysql_clear_password"),
        lambda: Hostile("mysql_clear_password", b"mysql_clear_password\0"),
        lambda: Hostile(switch=b"mysql_clear_password\0"),
        lambda: Hostile(switch=b"mysql_clear_password"),
        lambda: Hostile(switch=b"mysql_old_password\0salt-of8\0"),
        lambda: Hostile(switch=b""),
        lambda: Hostile(switch=b"dialog\0"),
    ],
)
@both
async def test_no_password_for_who_wants_it_as_it_is(opened: Open, server: Callable[[], Hostile]) -> None:
    async with hostile(server()) as wanting:
        # A good login first makes no difference: the server never gets more than a digest.
        with suppress(TidemarkError):
            (await opened(unprotected(wanting))).close()
        await gone(wanting)
        assert len(wanting.told) == 1 or wanting.told[1][0] == COMMAND.COM_QUERY
        assert not any(b"canary" in told for told in wanting.told)


async def test_a_login_that_gives_the_password_away_is_refused_by_name() -> None:
    async with hostile(Hostile(switch=b"mysql_clear_password\0")) as wanting:
        with pytest.raises(Definite, match="'mysql_clear_password', which would give the password away"):
            await Source.connect(unprotected(wanting))
        await gone(wanting)


# -- files


@both
async def test_that_files_can_be_had_is_not_offered(opened: Open) -> None:
    async with hostile(Hostile()) as server:
        (await opened(unprotected(server))).close()
        await gone(server)
        assert server.capabilities & CLIENT.PROTOCOL_41
        assert not server.capabilities & CLIENT.LOCAL_FILES


@pytest.mark.parametrize(
    "trap",
    [
        b"\x03SET NAMES",
        b"\x03SELECT LOWER(@@GLOBAL.server_uuid)",
        b"\x03SELECT @@GLOBAL.gtid_executed",
        b"\x03SET @source_heartbeat_period",
        bytes([COMMAND.COM_STMT_PREPARE]),
        bytes([COMMAND.COM_STMT_EXECUTE]),
        bytes([COMMAND.COM_REGISTER_SLAVE]),
        bytes([COMMAND.COM_BINLOG_DUMP_GTID]),
    ],
)
async def test_a_server_that_asks_for_a_file_gets_nothing(trap: bytes) -> None:
    async with hostile(Hostile(trap=trap)) as server:
        with pytest.raises(TidemarkError):
            await all_that_capture_asks(unprotected(server))
        await gone(server)
        assert any(told.startswith(trap) for told in server.told)
        assert server.told_after_trap == []


async def all_that_capture_asks(settings: SourceSettings) -> None:
    """The log, one statement of each kind, and the first bytes that come."""
    dump = await BinlogDump.open(settings, NO_GTIDS)
    try:
        source = await Source.connect(settings)
        try:
            async with source.select(Statement("SELECT 1")):
                pass
        finally:
            source.close()
        await dump.receive()
        dump.frames()
    finally:
        dump.close()


def unprotected(server: Hostile) -> SourceSettings:
    """The settings of a client without TLS."""
    return SourceSettings(
        "127.0.0.1", "u", server.port, Secret("canary"), TlsSettings(TlsMode.DISABLED), server_id=7
    )


async def gone(server: Hostile) -> None:
    """Until the last client has left."""
    async with asyncio.timeout(WITHIN_S):
        await server.left.wait()


@asynccontextmanager
async def listening_in(server: MysqlServer, heard: bytearray) -> AsyncIterator[int]:
    """Returns the port of a listener in between, which forwards all data and remembers it."""

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(1 << 16):
            heard.extend(piece)
            writer.write(piece)
        writer.close()

    async def between(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            theirs, ours = await asyncio.open_connection(server.host, server.port)
            await asyncio.gather(pass_on(reader, ours), pass_on(theirs, writer))
        ended.set()

    ended = asyncio.Event()
    listener = await asyncio.start_server(between, "127.0.0.1", 0)
    yield listener.sockets[0].getsockname()[1]
    async with asyncio.timeout(WITHIN_S):
        await ended.wait()
    listener.close()
    await listener.wait_closed()


@pytest.mark.parametrize("mode", [TlsMode.REQUIRED, TlsMode.VERIFY])
async def test_a_server_without_tls_is_not_told_who_we_are(mysql56: MysqlServer, mode: TlsMode) -> None:
    assert mysql56.sql("SHOW VARIABLES LIKE 'have_ssl'") == [("have_ssl", "DISABLED")]
    with pytest.raises(Definite, match="offers no TLS"):
        await Source.connect(settings(mysql56, mysql56.create_capture_user(), tls=TlsSettings(mode)))
