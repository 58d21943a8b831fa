"""Writes certificate authorities as a Java trust store: `python -m deploy.toolchain.truststore BUNDLE STORE`.

BUNDLE is a file of PEM certificates. Needs cryptography, so it runs in the environment.
"""

import sys
from pathlib import Path

from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12Certificate, serialize_java_truststore
from cryptography.x509 import load_pem_x509_certificates

# Java won't read a store without one. It protects nothing: what is in there is public.
PASSWORD = "changeit"  # noqa: S105


def write(bundle: Path, store: Path) -> None:
    """Write every certificate of `bundle` into `store`, in the PKCS #12 form that Java trusts."""
    certificates = load_pem_x509_certificates(bundle.read_bytes())
    trusted = [PKCS12Certificate(certificate, None) for certificate in certificates]
    store.write_bytes(serialize_java_truststore(trusted, BestAvailableEncryption(PASSWORD.encode())))


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
