"""The certificate authorities that downloads trust: the machine's own list, else Debian's package of them.

A small Debian has none. Neither has a Java that was only unpacked, since the installation script of a package
makes its list; and Debian's pip has no list of its own either.
"""

import os
import shutil
from pathlib import Path

from deploy.toolchain import debian
from deploy.toolchain.cache import ensure, root

CHOICES = ("SSL_CERT_FILE", "PIP_CERT")
OF_MACHINE = Path("/etc/ssl/certs/ca-certificates.crt")


def setup() -> Path:
    """Return a file of PEM certificates."""
    chosen = [Path(value) for name in CHOICES if (value := os.environ.get(name))]
    if found := next((bundle for bundle in [*chosen, OF_MACHINE] if bundle.is_file()), None):
        return found
    folder = root() / "authorities"
    bundle = folder / "bundle.pem"

    def build() -> None:
        apt = debian.Apt.of_host(folder / "apt")
        debian.unpack(apt.fetch_alone("ca-certificates"), folder / "package")
        certificates = sorted(folder.glob("package/usr/share/ca-certificates/mozilla/*.crt"))
        bundle.write_text("".join(certificate.read_text() for certificate in certificates))
        for used in ("apt", "package"):
            shutil.rmtree(folder / used)

    ensure("certificate authorities", folder, build)
    return bundle
