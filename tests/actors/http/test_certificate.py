"""Which certificate is served over real sockets, whom it lets in, and what is said of wrong files."""

import asyncio
import json
import math
import ssl
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import structlog
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from actors.http.certificate import certificate_findings
from actors.service import client
from pipeline.config.settings import HttpSettings, HttpTlsSettings, JournalSettings
from pipeline.errors import Definite
from pipeline.metrics import CERTIFICATE_END
from tests.actors.http.changes.journals import tapped
from tests.actors.http.served_actors import SHOP, Bench, served
from tests.servers.certificates import Authority

HOST = "127.0.0.1"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.found(tmp_path / "ca.pem")


@pytest.fixture
def tls(tmp_path: Path, authority: Authority) -> HttpTlsSettings:
    """A certificate for the server, with its key in the same file."""
    return HttpTlsSettings(vouched(authority, tmp_path / "server.pem"))


def vouched(authority: Authority, file: Path, valid_for: timedelta = timedelta(days=60)) -> Path:
    authority.vouch(file, HOST, valid_for).chmod(0o600)
    return file


def asked(url: str, trusted: Path, shown: Path | None = None) -> str:
    context = ssl.create_default_context(cafile=str(trusted))
    if shown is not None:
        context.load_cert_chain(shown)
    with urllib.request.urlopen(url, context=context, timeout=10) as answer:
        return str(answer.read().decode())


async def livez(bench: Bench, trusted: Path, shown: Path | None = None) -> str:
    return await asyncio.to_thread(asked, bench.server.url + "/livez", trusted, shown)


def serial(bench: Bench) -> int:
    """The number of the certificate that a new connection is served with."""
    host, port = bench.server.url.removeprefix("https://").split(":")
    pem = ssl.get_server_certificate((host, int(port)))
    return x509_serial(pem)


def x509_serial(pem: str) -> int:
    return x509.load_pem_x509_certificate(pem.encode()).serial_number


async def test_a_renewed_certificate_is_served_without_a_restart(
    tmp_path: Path, authority: Authority
) -> None:
    first, second = (vouched(authority, tmp_path / name) for name in ("first.pem", "second.pem"))
    tls = HttpTlsSettings(tmp_path / "server.pem", tmp_path / "server.key")
    for file in (tmp_path / "server.pem", tmp_path / "server.key"):
        file.write_bytes(first.read_bytes())
    async with served(tmp_path, settings=HttpSettings(tls=tls)) as bench:
        before = await asyncio.to_thread(serial, bench)
        assert before == x509_serial(_certificate_of(first))
        with structlog.testing.capture_logs() as logged:
            (tmp_path / "server.pem").write_text(_certificate_of(second))
            assert await asyncio.to_thread(serial, bench) == before
            assert await asyncio.to_thread(serial, bench) == before
        (line,) = logged
        assert line["event"] == "the certificate before is served"
        assert f"http.tls.key: {tmp_path / 'server.key'} isn't the key of" in line["error"]
        (tmp_path / "server.key").write_bytes(second.read_bytes())
        assert await asyncio.to_thread(serial, bench) == x509_serial(_certificate_of(second))
        (tmp_path / "server.key").unlink()
        assert await asyncio.to_thread(serial, bench) == x509_serial(_certificate_of(second))


def _certificate_of(file: Path) -> str:
    text = file.read_text()
    return text[text.index("-----BEGIN CERTIFICATE") :]


async def test_with_client_ca_nobody_comes_in_without_a_certificate(
    tmp_path: Path, tls: HttpTlsSettings
) -> None:
    clients = Authority.found(tmp_path / "clients.pem")
    known = vouched(clients, tmp_path / "known.pem")
    unknown = vouched(Authority.found(tmp_path / "others.pem"), tmp_path / "unknown.pem")
    tls = replace(tls, client_ca=clients.trusted, client_certificate=known)
    async with served(tmp_path, settings=HttpSettings(tls=tls)) as bench:
        for shown in (None, unknown):
            with pytest.raises(OSError, match=r"certificate required|unknown ca|reset|closed"):
                await livez(bench, tmp_path / "ca.pem", shown)
        assert await livez(bench, tmp_path / "ca.pem", known) == "alive\n"
        assert await by_command_line(tmp_path, tls) == "shop"


async def test_the_command_line_trusts_the_configured_certificate_alone(
    tmp_path: Path, authority: Authority
) -> None:
    tls = HttpTlsSettings(authority.vouch(tmp_path / "server.pem", "192.0.2.1"))  # its name isn't looked at
    other = HttpTlsSettings(vouched(authority, tmp_path / "other.pem"))
    async with served(tmp_path, settings=HttpSettings(tls=tls)):
        assert await by_command_line(tmp_path, tls) == "shop"
        with pytest.raises(client.NotRunning, match="certificate verify failed"):
            await by_command_line(tmp_path, other)


async def test_the_command_line_follows_changes_by_tls(tmp_path: Path, tls: HttpTlsSettings) -> None:
    http = HttpSettings(tls=tls)
    async with tapped(tmp_path, http) as tap:
        tap.commit(2)
        tap.seal()
        settings = replace(SHOP, journal=JournalSettings(str(tmp_path / "journal")), http=http)
        asked = {"since": "earliest", "through": "now"}
        told = b"".join([data async for data in client.follow_changes(settings, asked)])
        assert sum("row" in json.loads(line) for line in told.splitlines()) == 4


async def by_command_line(folder: Path, tls: HttpTlsSettings) -> str:
    settings = replace(SHOP, journal=JournalSettings(str(folder / "journal")), http=HttpSettings(tls=tls))
    code, _ = await asyncio.to_thread(client.post, settings, "/signals", {})
    assert code == 422  # it's no signal
    status = await asyncio.to_thread(client.get, settings, "/status")
    return str(status["name"])


def test_of_a_good_pair_nothing_is_said(tls: HttpTlsSettings) -> None:
    assert list(certificate_findings(tls)) == []


def wrong_files(folder: Path, authority: Authority) -> Iterator[tuple[HttpTlsSettings, str]]:
    good = vouched(authority, folder / "good.pem")
    other = vouched(authority, folder / "other.pem")
    none = folder / "none.pem"
    none.write_text("nothing")
    locked = folder / "locked.key"
    locked.write_bytes(
        ec.generate_private_key(ec.SECP256R1()).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
        )
    )
    absent = folder / "absent.pem"
    old = vouched(authority, folder / "old.pem", timedelta(days=-1))
    soon = vouched(authority, folder / "soon.pem", timedelta(days=3, hours=1))
    shown = vouched(authority, folder / "shown.pem")
    shown.chmod(0o604)
    yield (
        HttpTlsSettings(absent),
        f"error: http.tls.certificate: {absent} can't be read (No such file or directory)",
    )
    yield HttpTlsSettings(none), f"error: http.tls.certificate: {none} has no certificate in PEM"
    yield HttpTlsSettings(good, absent), f"error: http.tls.key: {absent} can't be read"
    yield HttpTlsSettings(good, other), f"error: http.tls.key: {other} isn't the key of {good}"
    yield HttpTlsSettings(good, locked), f"error: http.tls.key: {locked} has no key in PEM that can be read"
    yield HttpTlsSettings(good, none), f"error: http.tls.key: {none} has no key in PEM that can be read"
    yield (
        HttpTlsSettings(good, client_ca=none),
        f"error: http.tls.client_ca: {none} has no certificate in PEM",
    )
    yield (
        HttpTlsSettings(good, client_ca=good, client_certificate=absent),
        f"error: http.tls.client_certificate: {absent} can't be read",
    )
    yield (
        HttpTlsSettings(old),
        f"warning: http.tls.certificate: clients refuse {old} (certificate has expired)",
    )
    yield HttpTlsSettings(soon), f"warning: http.tls.certificate: {soon} ends in 3 days"
    yield (
        HttpTlsSettings(shown),
        f"warning: http.tls.certificate: every user of this machine may read {shown}",
    )


def test_wrong_files_are_named(tmp_path: Path, authority: Authority) -> None:
    for tls, wrong in wrong_files(tmp_path, authority):
        (found,) = certificate_findings(tls)
        assert f"{found.severity}: {found.wrong}".startswith(wrong), found
        assert found.remedy


def test_a_certificate_that_ends_is_named_two_weeks_before(tls: HttpTlsSettings) -> None:
    now = datetime.now(UTC)
    assert list(certificate_findings(tls, now + timedelta(days=45))) == []
    assert len(list(certificate_findings(tls, now + timedelta(days=47)))) == 1


async def test_a_service_with_wrong_files_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(Definite, match=r"http.tls.certificate: .* can't be read"):
        async with served(tmp_path, settings=HttpSettings(tls=HttpTlsSettings(tmp_path / "absent.pem"))):
            pass


async def test_the_end_of_the_certificate_is_measured_of_a_renewed_one_and_of_one_that_has_ended(
    tmp_path: Path, authority: Authority
) -> None:
    tls = HttpTlsSettings(vouched(authority, tmp_path / "server.pem", timedelta(days=3)))
    async with served(tmp_path, settings=HttpSettings(tls=tls)) as bench:
        assert _measured_end(bench) == _end_of(tmp_path / "server.pem")
        vouched(authority, tmp_path / "server.pem", timedelta(days=60))
        assert _measured_end(bench) == _end_of(tmp_path / "server.pem")
        vouched(authority, tmp_path / "server.pem", timedelta(days=-1))
        assert _measured_end(bench) == _end_of(tmp_path / "server.pem") < datetime.now(UTC).timestamp()
    async with served(tmp_path) as bench:
        assert math.isnan(_measured_end(bench))


def _measured_end(bench: Bench) -> float:
    text = bench.metrics.text().decode()
    (line,) = (line for line in text.splitlines() if line.startswith(CERTIFICATE_END.name))
    return float(line.rpartition(" ")[2])


def _end_of(file: Path) -> float:
    return x509.load_pem_x509_certificate(_certificate_of(file).encode()).not_valid_after_utc.timestamp()
