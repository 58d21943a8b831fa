"""A Chromium that the tests look at the page with: the machine's own, else Debian's headless shell in a prefix.

The prefix holds all that it needs but the C library, which is the machine's: the packages are of the machine's own
release, so that they fit. (Run through a loader of its own, as MySQL is, it would start its child processes by that
loader's name.) Its fonts are looked for in the prefix too, so that pages look the same on every machine of a release.
"""

import os
import shutil
import subprocess
from pathlib import Path

from deploy.toolchain import debian
from deploy.toolchain.cache import ToolchainError, digest, ensure, is_complete, megabytes, root, say

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell")
PACKAGES = ("chromium-headless-shell", "fonts-inter", "fonts-jetbrains-mono", "fonts-dejavu-core")

# The host's own, whatever else is in the prefix: they belong to its loader.
HOSTS = ("libc6_", "libc-bin_", "libcrypt1_")

WRAPPER = """#!/bin/sh
root=$(cd "$(dirname "$0")/.." && pwd)
export LD_LIBRARY_PATH={libraries} FONTCONFIG_FILE="$root/fonts.conf"
exec "$root/{program}" "$@"
"""

# fontconfig's own configuration names the host's folders.
FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
  <dir>{prefix}/usr/share/fonts</dir>
  <cachedir>{prefix}/var/cache/fontconfig</cachedir>
  <alias><family>sans-serif</family><prefer><family>Inter</family><family>DejaVu Sans</family></prefer></alias>
  <alias><family>monospace</family><prefer><family>JetBrains Mono</family></prefer></alias>
</fontconfig>
"""


def find() -> Path | None:
    """Return the browser to use: the PATH's, else the cache's; None if there is none."""
    for name in PROGRAMS:
        if own := shutil.which(name):
            return Path(own)
    return _program() if is_complete(folder()) else None


def folder() -> Path:
    """Return where a fetched browser lies, whether it is there yet or not."""
    return root() / f"browser-{digest(debian.architecture(), *PACKAGES, *HOSTS, WRAPPER, FONTS)}"


def setup() -> Path:
    """Return a browser, fetching one if the machine has none."""
    if found := find():
        return found

    def build() -> None:
        prefix = folder()
        apt = debian.Apt.of_host(prefix / "apt")
        if not apt.offers(PACKAGES[0]):
            raise ToolchainError(
                f"no Chromium on this machine, and no {PACKAGES[0]} in its release; install one"
            )
        archives = [path for path in apt.fetch(*PACKAGES) if not path.name.startswith(HOSTS)]
        say(
            f"browser: unpacking {len(archives)} packages, {megabytes(prefix / 'apt' / 'cache' / 'archives')}"
        )
        debian.unpack(archives, prefix)
        shutil.rmtree(prefix / "apt")
        _write_wrapper(prefix)
        version = subprocess.run([_program(), "--version"], text=True, capture_output=True, check=False)
        if version.returncode:
            raise ToolchainError(f"the browser fetched into {prefix} does not run: {version.stderr.strip()}")
        say(f"browser: {version.stdout.strip()}")

    ensure("browser", folder(), build)
    return _program()


def _program() -> Path:
    return folder() / "bin" / "chromium"


def _write_wrapper(prefix: Path) -> None:
    """Write bin/chromium: a script that runs the program with the prefix's libraries and fonts."""
    program = next(prefix.glob("usr/lib/chromium*/chromium-headless-shell"), None)
    if program is None:
        raise ToolchainError(f"the package {PACKAGES[0]} has no program of that name any more")
    places = sorted({library.parent for library in prefix.glob("usr/lib/*-linux-gnu*/**/*.so*")})
    places += sorted({library.parent for library in prefix.glob("lib/*-linux-gnu*/*.so*")})
    (prefix / "fonts.conf").write_text(FONTS.format(prefix=prefix))
    wrapper = prefix / "bin" / "chromium"
    wrapper.parent.mkdir(exist_ok=True)  # a package may have brought it
    wrapper.write_text(
        WRAPPER.format(
            libraries=":".join(f'"$root/{os.path.relpath(place, prefix)}"' for place in places),
            program=program.relative_to(prefix),
        )
    )
    wrapper.chmod(0o755)
