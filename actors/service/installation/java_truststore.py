"""Certificate authorities as a Java trust store: `python -m actors.service.installation.java_truststore BUNDLE STORE`.

BUNDLE is a file of PEM certificates. The toolchain runs it in the environment, since it needs cryptography.
"""

import sys
from pathlib import Path

from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12Certificate, serialize_java_truststore
from cryptography.x509 import load_pem_x509_certificates

from actors.service.installation.pinned_jars import TRUST_PASSWORD


def write_truststore(bundle: Path, store: Path) -> None:
    """Write every certificate of `bundle` into `store`, in the PKCS #12 form that Java trusts."""
    certificates = load_pem_x509_certificates(bundle.read_bytes())
    trusted = [PKCS12Certificate(certificate, None) for certificate in certificates]
    store.write_bytes(serialize_java_truststore(trusted, BestAvailableEncryption(TRUST_PASSWORD.encode())))


if __name__ == "__main__":
    write_truststore(Path(sys.argv[1]), Path(sys.argv[2]))
