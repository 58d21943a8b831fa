"""The certificate of the HTTP server (`[http.tls]`): what it serves with, and how the command line knows it.

The files are read again when they change, since a certificate is renewed while the service runs. Certificate and key
change one after the other. While they don't fit, the pair before holds.

The command line has the same configuration. It trusts this certificate alone, whatever name is in it.
"""

import math
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePath
from typing import Final, NamedTuple

import structlog

from actors.runtime.secret_files import changed_at
from pipeline.config.settings import HttpTlsSettings
from pipeline.errors import Definite
from pipeline.source.finding import Finding, Severity

log = structlog.get_logger()

# A certificate that ends sooner is named by `tidemark check`: whoever renews it by hand has this time.
RENEW_BEFORE: Final = timedelta(days=14)

_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_END: Final = "-----END CERTIFICATE-----"
# OpenSSL's X509_V_FLAG_NO_CHECK_TIME, which Python has no name for.
_NO_CHECK_TIME: Final = ssl.VerifyFlags(0x200000)
_ENDS_AT: Final = "%b %d %H:%M:%S %Y GMT"


class _File(NamedTuple):
    """The key of the configuration, and the file that it names."""

    key: str
    path: PurePath

    def __str__(self) -> str:
        return f"{self.key}: {self.path}"


class ServedCertificate:
    """What new connections are served with. Raises Definite if the files can't be used."""

    def __init__(self, tls: HttpTlsSettings) -> None:
        self._tls = tls
        self._read_at = self._changed_at()
        self._context = server_context(tls)
        self._ends_at = _end_or_nan(tls)

    def context(self) -> ssl.SSLContext:
        """That of the files as they are now, or of the last ones that could be used."""
        changed = self._changed_at()
        if changed != self._read_at:
            self._read_at = changed
            try:
                self._context = server_context(self._tls)
                self._ends_at = _end_or_nan(self._tls)
            except Definite as error:
                log.warning("the certificate before is served", error=str(error))
        return self._context

    def ends_at(self) -> float:
        """Returns when the certificate ends that is served now, in s since the epoch; NaN if that is unknown."""
        self.context()
        return self._ends_at

    def _changed_at(self) -> tuple[object, ...]:
        tls = self._tls
        return tuple(changed_at(file) for file in (tls.certificate, tls.key, tls.client_ca))


def server_context(tls: HttpTlsSettings) -> ssl.SSLContext:
    """What a server with these files does at a handshake. Raises Definite, which names the key of the wrong one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A handshake costs the server more than the client, so one connection has one.
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    _load_pair(context, _certificate(tls), _key(tls))
    if tls.client_ca is not None:
        _trust(context, _File("http.tls.client_ca", tls.client_ca))
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def command_line_context(tls: HttpTlsSettings) -> ssl.SSLContext:
    """What trusts the service with these files, and nothing else. Raises Definite."""
    context = _trusting(_certificate(tls))
    if tls.client_certificate is not None:
        shown = _File("http.tls.client_certificate", tls.client_certificate)
        _load_pair(context, shown, shown)
    return context


def certificate_findings(tls: HttpTlsSettings, now: datetime | None = None) -> Iterator[Finding]:
    """Yields what is wrong with the files, and why clients would refuse the certificate."""
    try:
        server_context(tls)
        command_line_context(tls)
    except Definite as error:
        wrong, _, remedy = str(error).partition("; ")
        yield Finding(Severity.ERROR, wrong, remedy)
        return
    key = _key(tls)
    if Path(key.path).stat().st_mode & 0o007:
        wrong = f"{key.key}: every user of this machine may read {key.path}"
        yield Finding(Severity.WARNING, wrong, f"run `chmod 600 {key.path}`")
    try:
        ends = _handshake(tls)
    except ssl.SSLCertVerificationError as error:
        wrong = f"http.tls.certificate: clients refuse {tls.certificate} ({error.verify_message})"
        yield Finding(Severity.WARNING, wrong, "renew it")
        return
    left = ends - (now or datetime.now(UTC))
    if left < RENEW_BEFORE:
        wrong = f"http.tls.certificate: {tls.certificate} ends in {left.days} days"
        yield Finding(Severity.WARNING, wrong, "renew it; the service reads the files again")


def _end_or_nan(tls: HttpTlsSettings) -> float:
    """Returns when the certificate ends, or has ended. Clients may have other reasons to refuse it."""
    try:
        return _handshake(tls, at_any_time=True).timestamp()
    except ssl.SSLError:
        return math.nan


def _handshake(tls: HttpTlsSettings, *, at_any_time: bool = False) -> datetime:
    """Returns when the certificate ends, by a handshake in memory. Raises SSLCertVerificationError."""
    serving, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), _trusting(_certificate(tls))
    _load_pair(serving, _certificate(tls), _key(tls))
    if at_any_time:
        trusting.verify_flags |= _NO_CHECK_TIME
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = serving.wrap_bio(to_server, to_client, server_side=True)
    client = trusting.wrap_bio(to_client, to_server)
    for side in (client, server, client):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue  # the other one is next
    found = client.getpeercert()
    assert found is not None
    return datetime.strptime(str(found["notAfter"]), _ENDS_AT).replace(tzinfo=UTC)


def _certificate(tls: HttpTlsSettings) -> _File:
    return _File("http.tls.certificate", tls.certificate)


def _key(tls: HttpTlsSettings) -> _File:
    """Where the key is: in the certificate's file, if it has none of its own."""
    return _certificate(tls) if tls.key is None else _File("http.tls.key", tls.key)


def _trusting(certificate: _File) -> ssl.SSLContext:
    """A client that takes the first certificate of this file for the server's, and none that it has signed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    first, end, _ = _text(certificate).partition(_END)
    try:
        context.load_verify_locations(cadata=first[first.find(_BEGIN) :] + end)
    except ssl.SSLError as error:
        raise _none_in(certificate) from error
    return context


def _trust(context: ssl.SSLContext, authorities: _File) -> None:
    try:
        context.load_verify_locations(cadata=_text(authorities))
    except ssl.SSLError as error:
        raise _none_in(authorities) from error


def _load_pair(context: ssl.SSLContext, certificate: _File, key: _File) -> None:
    """Have a context identify itself by this certificate."""
    if _BEGIN not in _text(certificate):
        raise _none_in(certificate)
    _text(key)
    try:
        context.load_cert_chain(certificate.path, key.path, password=_no_passphrase)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            wrong = f"{key} isn't the key of {certificate.path}"
            raise Definite(f"{wrong}; name the two that were made together") from error
        wrong = (
            f"{key} has no key in PEM that can be read without a passphrase, or {certificate.path} is damaged"
        )
        raise Definite(f"{wrong}; name a key without a passphrase, which only this user may read") from error


def _text(file: _File) -> str:
    try:
        return Path(file.path).read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise Definite(f"{file} can't be read ({error.strerror}); see to its path and its mode") from error


def _none_in(file: _File) -> Definite:
    return Definite(f"{file} has no certificate in PEM; name a file that has one")


def _no_passphrase() -> str:
    """In the place of a question on the terminal."""
    return ""
