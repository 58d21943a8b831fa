"""Certificates of a test's own, for servers on this machine."""

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

__all__ = ["Authority", "certificate"]

DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority for servers; `trusted` is the file (PEM) by which a client trusts it."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    trusted: Path

    @staticmethod
    def found(file: Path) -> "Authority":
        """A new one."""
        key = ec.generate_private_key(ec.SECP256R1())
        name, now = _name(file.stem), datetime.now(UTC)
        made = (
            _begun(name, name, key.public_key(), (now - 10 * DAY, now + DAY))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        file.write_bytes(made.public_bytes(Encoding.PEM))
        return Authority(made, key, file)

    def vouch(
        self, file: Path, address: str, valid_for: timedelta = DAY, valid_in: timedelta = -10 * DAY
    ) -> Path:
        """Write a key and a certificate for the server at this address; return the file.

        It's valid from `valid_in` through `valid_for`, both from now on.
        """
        key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        made = (
            _begun(
                self.certificate.subject,
                _name(file.stem),
                key.public_key(),
                (now + min(valid_in, valid_for - DAY), now + valid_for),
            )
            .add_extension(_address(address), critical=False)
            .add_extension(authority, critical=False)
            .sign(self.key, hashes.SHA256())
        )
        file.write_bytes(_pem(key) + made.public_bytes(Encoding.PEM))
        return file


def certificate(folder: Path, address: str) -> None:
    """Write one for this address: `server.pem` with its key, and `ca.pem` to trust."""
    Authority.found(folder / "ca.pem").vouch(folder / "server.pem", address)


def _begun(
    issuer: x509.Name,
    subject: x509.Name,
    key: ec.EllipticCurvePublicKey,
    valid: tuple[datetime, datetime],
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder(issuer, subject, key, x509.random_serial_number())
        .not_valid_before(valid[0])
        .not_valid_after(valid[1])
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _address(address: str) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
