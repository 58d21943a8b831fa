"""Everything that a start needs, as one list of checks (`tidemark check`)."""

import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from actors.kafka.broker_check import check_topics
from actors.lake import spark_session
from actors.runtime.state_folder import local_folder
from actors.signals.kafka import check_broker
from actors.source.failover import list_servers
from actors.source.preflight import preflight
from pipeline.config.settings import Settings
from pipeline.errors import TidemarkError
from pipeline.source.prerequisites import Finding, Severity

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
    yield from _folder("journal.path", local_folder(settings.journal.path, settings.name))
    if settings.lake is None:
        return
    if "://" not in settings.lake.path:
        yield from _folder("lake.path", Path(settings.lake.path))
    yield from _java()


def _folder(key: str, path: Path) -> Iterator[Finding]:
    there = next(folder for folder in (path, *path.parents) if folder.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        yield Finding(Severity.ERROR, f"{key}: {there} can't be written to", "change its owner or its mode")


def _java() -> Iterator[Finding]:
    remedy = f"install Java {OLDEST_JAVA} or newer, and set JAVA_HOME or PATH to it"
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
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
    """Each server of the source: its configuration, the grants and the tables."""
    for source in list_servers(settings.source):
        try:
            found = (await preflight(replace(settings, source=source))).findings
        except TidemarkError as error:
            found = (Finding(Severity.ERROR, str(error), "the rest of the source couldn't be looked at"),)
        named = f"{source.host}:{source.port}: " if settings.source.others else ""
        for finding in found:
            yield replace(finding, wrong=named + finding.wrong)


CHECKS: Final[tuple[Callable[[Settings], AsyncIterator[Finding]], ...]] = (
    check_machine,
    check_jars,
    check_brokers,
    check_servers,
)
