"""Everything that a start needs, as one list of checks (`tidemark check`)."""

import asyncio
import dataclasses
import fcntl
import os
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pyarrow import fs

from actors.http.certificate import certificate_findings
from actors.http.connections import listening_remedy
from actors.journal.store import JournalReader
from actors.journal.writer_epochs import NoJournal
from actors.kafka.broker_check import check_topics
from actors.lake.filesystem import lake_filesystem
from actors.lake.spark import spark_session
from actors.lake.spark.java import java_program
from actors.runtime.filesystem import list_folder
from actors.runtime.metrics import Metrics
from actors.runtime.state_folder import local_folder
from actors.service.capture_start import choose_beginning
from actors.signals.kafka import check_broker
from actors.source.binlog_dump import replica_uuid
from actors.source.connection import Source
from actors.source.failover import Servers, list_servers
from actors.source.preflight import NOTHING_MATCHES, preflight
from actors.source.server_facts import find_replicas
from pipeline.config.http_access import is_loopback
from pipeline.config.s3_environment import LOG_STORE_JAR, log_store_setting
from pipeline.config.settings import LakeSettings, Secret, ServerSettings, Settings, SparkSettings
from pipeline.errors import Definite, TidemarkError
from pipeline.journal.entry import Entry
from pipeline.source.finding import Finding, Severity

# The oldest Java that Spark 4 runs on (Spark 4.2 documentation, "Downloading").
OLDEST_JAVA: Final = 17


async def find_mistakes(settings: Settings) -> list[Finding]:
    """Returns all that is wrong on this machine, at the brokers, and at each server of the source."""
    return [finding for check in CHECKS async for finding in check(settings)]


async def check_machine(settings: Settings) -> AsyncIterator[Finding]:
    """This machine."""
    for finding in local_findings(settings):
        yield finding


def local_findings(settings: Settings) -> Iterator[Finding]:
    """Yields what is wrong on this machine: folders, and Java if there is a lake."""
    journal = local_folder(settings.journal.path, settings.name)
    yield from _folder("journal.path", journal)
    yield from _journal_in_use(journal)
    yield from _port(settings)
    yield from _signal_file(settings.signals.file)
    yield from _secrets(settings, "")
    yield from _certificates("source", settings.source)
    if settings.snapshot.source is not None:
        yield from _certificates("snapshot.source", settings.snapshot.source)
    if settings.http.tls is not None:
        yield from certificate_findings(settings.http.tls)
    elif not is_loopback(settings.http.host):
        wrong = f"http.host: at {settings.http.host} tokens and rows cross the network unencrypted"
        yield Finding(Severity.NOTE, wrong, "set [http.tls], unless something in front of it encrypts")
    if settings.lake is None:
        return
    if "://" in settings.lake.path:
        yield from lake_findings(settings.lake, settings.spark)
    else:
        yield from _folder("lake.path", Path(settings.lake.path))
    yield from java_findings()
    if (noexec := spark_session.noexec_folders(settings.spark, journal / "spark")) is not None:
        wrong = f"spark: Java may load no native libraries, for {noexec}, so that merges would fail"
        yield _error(
            wrong,
            "mount one of them with exec, or name another folder by -Djava.io.tmpdir (docs/operations.md)",
        )


def _error(wrong: str, remedy: str) -> Finding:
    return Finding(Severity.ERROR, wrong, remedy)


def _folder(key: str, path: Path) -> Iterator[Finding]:
    there = next(folder for folder in (path, *path.parents) if folder.exists())
    if not there.is_dir():
        yield _error(f"{key}: {there} is no folder", "give another path, or move that file away")
    elif os.statvfs(there).f_flag & os.ST_RDONLY:
        yield _error(
            f"{key}: {there} is on a read-only filesystem", "mount it writable, or give another path"
        )
    elif not os.access(there, os.W_OK | os.X_OK):
        yield _error(f"{key}: {there} can't be written to", "change its owner or its mode")


def _journal_in_use(journal: Path) -> Iterator[Finding]:
    try:
        with (journal / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = (journal / "lock").read_text() or "another process"
        yield _error(
            f"journal.path: {journal} is in use by {holder}", "stop that service, or give another path"
        )
    except OSError:
        return  # there's no journal yet, or its folder is reported


def _port(settings: Settings) -> Iterator[Finding]:
    host, port = settings.http.host, settings.http.port
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            with socket.socket(family, kind, protocol) as listening:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listening.bind(address)
                listening.listen()
    except OSError as error:
        wrong = f"http: {host}:{port} can't be listened on ({error.strerror})"
        yield _error(wrong, listening_remedy(error))


def _signal_file(file: os.PathLike[str] | None) -> Iterator[Finding]:
    if file is None:
        return
    yield from _folder("signals.file", Path(file).parent)
    for path in (Path(f"{os.fspath(file)}{suffix}") for suffix in ("", ".answers", ".place")):
        if path.is_symlink() or (path.exists() and not path.is_file()):
            yield _error(f"signals.file: {path} is no regular file", "remove it; links aren't followed")


def _secrets(section: Any, key: str) -> Iterator[Finding]:
    """The files of secrets that every user of this machine may read."""
    for field in dataclasses.fields(section):
        name = f"{key}.{field.name}" if key else field.name
        match getattr(section, field.name):
            case Secret(file=file) if file is not None and Path(file).stat().st_mode & 0o007:
                wrong = f"{name}_file: every user of this machine may read {file}"
                yield Finding(Severity.WARNING, wrong, f"run `chmod 600 {file}`")
            case given if dataclasses.is_dataclass(given) and not isinstance(given, Secret):
                yield from _secrets(given, name)


def _certificates(key: str, server: ServerSettings) -> Iterator[Finding]:
    if server.tls.ca is None:
        return
    remedy = "name a file with the authority's certificate"
    try:
        ssl.create_default_context(cafile=server.tls.ca)
    except ssl.SSLError:
        yield _error(f"{key}.tls.ca: {server.tls.ca} has no certificate in PEM", remedy)
    except OSError as error:
        yield _error(f"{key}.tls.ca: {server.tls.ca} can't be read ({error.strerror})", remedy)


# What Hadoop needs to reach a store, by how its URIs begin.
_STORES: Final = {
    "s3": ("spark.hadoop.fs.s3.impl", "hadoop-aws"),
    "s3a": ("spark.hadoop.fs.s3a.impl", "hadoop-aws"),
    "gs": ("spark.hadoop.fs.gs.impl", "gcs-connector"),
    "abfss": ("spark.hadoop.fs.abfss.impl", "hadoop-azure"),
}


def refuse_lake(lake: LakeSettings, spark: SparkSettings) -> None:
    """Raises Definite for a URI that Spark or pyarrow can't have a filesystem for, whatever is there."""
    for finding in _store_findings(lake, spark):
        raise Definite(f"{finding.wrong}; {finding.remedy}")


def lake_findings(lake: LakeSettings, spark: SparkSettings) -> Iterator[Finding]:
    """Yields why Spark or pyarrow can't reach the URI of a lake."""
    if wrong := list(_store_findings(lake, spark)):
        yield from wrong
        return
    try:
        filesystem, folder = lake_filesystem(lake.path)
        list_folder(filesystem, folder)  # without a complaint where there's no such folder
        bucket = folder.partition("/")[0]
        if bucket and filesystem.get_file_info(bucket).type is fs.FileType.NotFound:
            yield _error(f"lake.path: there is no {bucket} in the store", "make it, or correct the name")
    except TidemarkError as error:
        yield _error(str(error), "nothing could be delivered")
    except OSError as error:
        reason = (str(error).splitlines() or ["no reason is given"])[0]
        yield _error(
            f"lake.path: pyarrow can't list it: {reason}",
            "give credentials by the environment or the machine (AWS_ACCESS_KEY_ID, …), and the right to list",
        )


def _store_findings(lake: LakeSettings, spark: SparkSettings) -> Iterator[Finding]:
    """What is wrong with a URI and with the jars for it, without a look at what is there."""
    scheme, separator, inside = lake.path.partition("://")
    if not separator or scheme == "file":
        return
    if scheme not in _STORES:
        wrong = f"lake.path: {scheme}:// isn't supported"
        yield _error(wrong, f"give a folder, or a URI that begins with {', '.join(_STORES)}")
    elif "?" in inside:
        wrong = f"lake.path: {scheme}://{inside.partition('?')[0]} has options after it, which Spark knows nothing of"
        yield _error(wrong, "leave them out, and set AWS_ENDPOINT_URL_S3 and AWS_REGION for S3")
    elif scheme == "s3" and not spark.by_connect and _STORES["s3"][0] not in spark.conf:
        yield _error(
            "lake.path: Spark knows no s3://", f"write s3a://, or set {_STORES['s3'][0]} in [spark.conf]"
        )
    elif not spark.by_connect:
        yield from _jar_findings(scheme, spark)


def _jar_findings(scheme: str, spark: SparkSettings) -> Iterator[Finding]:
    setting, jar = _STORES[scheme]
    named = {path.name for path in _jar_files(spark)}
    elsewhere = (setting, "spark.jars.packages", "spark.driver.extraClassPath")
    s3 = jar == "hadoop-aws"
    add = "run `tidemark setup --s3`, or add the folder of `make setup-s3` to spark.jars"
    if not any(name in spark.conf for name in elsewhere) and not any(name.startswith(jar) for name in named):
        remedy = add if s3 else f"add {jar}-*.jar and what it needs to spark.jars"
        yield _error(f"lake.path: Spark needs {jar} for {scheme}://", remedy)
    elif s3 and LOG_STORE_JAR not in named and log_store_setting(scheme) not in spark.conf:
        wrong = f"lake.path: without {LOG_STORE_JAR} one writer in S3 may overwrite a commit of another one"
        yield _error(wrong, f"{add}; or set {log_store_setting(scheme)} to a class that excludes it")


def _jar_files(spark: SparkSettings) -> Iterator[Path]:
    for path in map(Path, spark.jars):
        yield from path.glob("*.jar") if path.is_dir() else (path,)


def java_findings() -> Iterator[Finding]:
    """Yields why Spark can't run on the Java of this machine."""
    remedy = f"install Java {OLDEST_JAVA} or newer, and set JAVA_HOME or PATH to it"
    java = java_program()
    if java is None or not Path(java).exists():
        yield Finding(Severity.ERROR, f"there's no Java at {java}" if java else "there's no Java", remedy)
        return
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = told.partition('version "')[2].partition('"')[0]
    if not version.partition(".")[0].isdigit() or int(version.partition(".")[0]) < OLDEST_JAVA:
        yield Finding(Severity.ERROR, f"Java is {version or 'of an unknown version'} at {java}", remedy)


async def check_jars(settings: Settings) -> AsyncIterator[Finding]:
    """PySpark and Spark's jars, if there is a lake."""
    try:
        if settings.lake is not None:
            spark_session.check_spark(settings.spark)
    except TidemarkError as error:
        yield Finding(Severity.ERROR, str(error), "nothing could be delivered")


async def check_brokers(settings: Settings) -> AsyncIterator[Finding]:
    """The brokers of the KafkaSink, and those of the signals' topic."""
    if settings.kafka is not None:
        for finding in await check_topics(settings.kafka, settings.name):
            yield finding
    if settings.signals.kafka is not None:
        for finding in await check_broker(settings.signals.kafka, settings.name):
            yield finding


async def check_servers(settings: Settings) -> AsyncIterator[Finding]:
    """Each server of the source: its configuration, the grants and the tables. Then whether capture can begin there."""
    fit = True
    for source in list_servers(settings.source):
        try:
            found = (await preflight(replace(settings, source=source))).findings
        except TidemarkError as error:
            found = (Finding(Severity.ERROR, str(error), "the rest of the source couldn't be looked at"),)
        named = f"{source.host}:{source.port}: " if settings.source.others else ""
        for finding in found:
            severity = Severity.ERROR if finding.remedy == NOTHING_MATCHES else finding.severity
            fit = fit and severity is not Severity.ERROR
            yield replace(finding, severity=severity, wrong=named + finding.wrong)
    if fit:
        async for finding in _beginning(settings):
            yield finding


async def _beginning(settings: Settings) -> AsyncIterator[Finding]:
    """Whether the source has what follows on the journal, by the decision of a start."""
    try:
        last = await asyncio.to_thread(last_sealed, settings)
        if last is None and settings.source.begin_after is None:
            return
        servers = Servers(settings, _replica_of_check(settings), Metrics())
        found = await servers.choose(None if last is None else last.checkpoint)
        choose_beginning(last, found, settings)
    except TidemarkError as error:
        yield _error(str(error), "until then a run ends with that")


def last_sealed(settings: Settings) -> Entry | None:
    """Returns the last segment of the journal, None before the first. Raises Definite or Transient if it can't be
    read."""
    try:
        return JournalReader(settings.journal.path).last_entry()
    except NoJournal:
        return None


def _replica_of_check(settings: Settings) -> str:
    """Returns as what a check reads the log: the source ends the connection of a service that reads as the same."""
    return f"check of {settings.name}"


async def check_server_id(settings: Settings) -> AsyncIterator[Finding]:
    """Whether another replica has our server_id, though each replica of a source needs one of its own."""
    server_id, ours = settings.source.server_id, str(replica_uuid(_replica_of_check(settings)))
    try:
        source = await Source.connect(settings.source)
        try:
            # The server may list the connection of a check for some seconds after its end.
            hosts = [host for host in await find_replicas(source, server_id) if ours not in host]
        finally:
            source.close()
    except TidemarkError:
        return  # the check of the servers has said why
    for host in hosts:
        yield _error(
            f"source.server_id: a replica is connected with {server_id} already: {host}",
            "give a number that no other replica has, unless that is this very pipeline",
        )


CHECKS: Final[tuple[Callable[[Settings], AsyncIterator[Finding]], ...]] = (
    check_machine,
    check_jars,
    check_brokers,
    check_servers,
    check_server_id,
)
