"""Debian packages in a folder of their own, by the machine's own apt, with nothing of the host changed.

apt gets its own lists, status, cache and source list through a configuration file (apt.conf(5)); the host's
mirror, proxy and keys stay in force, its hooks do not. An empty status file makes apt take every dependency,
libc too. apt verifies signatures and checksums itself; both as root and as an ordinary user.
"""

from dataclasses import dataclass
from pathlib import Path

from actors.service.installation.pinned_jars import read_lock, sha256
from deploy.toolchain.cache import ToolchainError, run, say

KEYRINGS = [Path(f"/usr/share/keyrings/debian-archive-keyring.{kind}") for kind in ("gpg", "pgp")]

PRIVATE = """
Dir::Etc::SourceList "{folder}/sources.list";
Dir::Etc::SourceParts "{folder}/empty";
Dir::Etc::Preferences "{folder}/preferences";
Dir::Etc::PreferencesParts "{folder}/empty";
"""

CONFIGURATION = """
Dir::State::Lists "{folder}/lists";
Dir::State::Status "{folder}/status";
Dir::State::Extended_States "{folder}/extended_states";
Dir::Cache "{folder}/cache";
Dir::Log "{folder}";
APT::Install-Recommends "false";
APT::Keep-Downloaded-Packages "true";
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::Retries "3";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Pre-Invoke;
#clear DPkg::Post-Invoke;
#clear DPkg::Pre-Install-Pkgs;
#clear Acquire::IndexTargets::deb::DEP-11;
#clear Acquire::IndexTargets::deb::DEP-11-icons;
#clear Acquire::IndexTargets::deb::Contents-deb;
"""


@dataclass(frozen=True, slots=True)
class Apt:
    """apt-get with a state of its own in `folder`."""

    folder: Path

    @classmethod
    def of_host(cls, folder: Path) -> "Apt":
        """Make an apt with the host's own sources and fresh lists of them."""
        return cls._new(folder, CONFIGURATION)

    @classmethod
    def of_suite(cls, folder: Path, suite: str) -> "Apt":
        """Make an apt with another suite of the host's mirror as its one source."""
        signed = next((f" [signed-by={keyring}]" for keyring in KEYRINGS if keyring.exists()), "")
        folder.mkdir(parents=True)
        (folder / "sources.list").write_text(f"deb{signed} {_mirror()} {suite} main\n")
        return cls._new(folder, PRIVATE + CONFIGURATION)

    @classmethod
    def _new(cls, folder: Path, configuration: str) -> "Apt":
        for name in ("empty", "lists/partial", "cache/archives/partial"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        for name in ("status", "preferences"):
            (folder / name).touch()
        (folder / "apt.conf").write_text(configuration.format(folder=folder))
        apt = cls(folder)
        apt._get("update")
        return apt

    def _get(self, *arguments: str, cwd: Path | None = None) -> str:
        return run(["apt-get", "-c", self.folder / "apt.conf", "-qq", *arguments], cwd=cwd)

    def fetch(self, *packages: str) -> list[Path]:
        """Fetch the packages and all that they depend on."""
        self._get("install", "--yes", "--download-only", *packages)
        return sorted((self.folder / "cache" / "archives").glob("*.deb"))

    def fetch_alone(self, package: str) -> list[Path]:
        """Fetch one package without its dependencies."""
        archives = self.folder / "cache" / "archives"
        self._get("download", package, cwd=archives)
        return sorted(archives.glob("*.deb"))

    def offers(self, package: str) -> bool:
        """Tell whether the sources have the package."""
        return bool(run(["apt-cache", "-c", self.folder / "apt.conf", "madison", package]).strip())


def check(what: str, archives: list[Path], lock: Path) -> None:
    """Check fetched packages against a lock, and say how many of them it doesn't know."""
    pins = read_lock(lock)
    unknown = [archive.name for archive in archives if archive.name not in pins]
    for archive in archives:
        if (pinned := pins.get(archive.name)) and (found := sha256(archive)) != pinned:
            raise ToolchainError(f"{archive.name} has SHA-256 {found}, {lock.name} says {pinned}")
    if unknown:
        say(
            f"{what}: {len(unknown)} of {len(archives)} packages aren't those of {lock.name}, since the mirror has "
            "moved on, or this is another release or not amd64; taken as apt verified them"
        )


def unpack(archives: list[Path], prefix: Path) -> None:
    """Unpack packages into a prefix; their maintainer scripts are not run."""
    for archive in archives:
        run(["dpkg", "-x", archive, prefix])


def _mirror() -> str:
    """Return the address of the host's Debian mirror, as apt itself names it."""
    targets = run(["apt-get", "indextargets", "--format", "$(COMPONENT) $(REPO_URI)", "Created-By: Packages"])
    found = {
        uri
        for component, uri in (line.split(maxsplit=1) for line in targets.splitlines())
        if component == "main" and "security" not in uri
    }
    if not found:
        raise ToolchainError("apt has no source with a component `main`, so there is no Debian mirror to ask")
    return min(found, key=lambda uri: (not uri.rstrip("/").endswith("/debian"), uri))


def architecture() -> str:
    """Return the machine's Debian architecture, such as `amd64`."""
    return run(["dpkg", "--print-architecture"]).strip()
