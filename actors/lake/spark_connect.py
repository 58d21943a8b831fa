"""A Spark that others run, behind a Spark Connect server.

There's no JVM of ours, so none to be started, and none to be killed. A session's statements run on for a while where
its client has gone. What they may still commit is in the lake once all the same (`actors.lake.delta_connect`), but for
those that change columns. So a session's number is kept in a file before it's used, and who comes next ends the session
of that number first, with all that it was doing.

Nothing is tried again here: whatever fails since the server is gone, or busy, is tried again by whoever reads first
what the lake says.

Source: Spark Connect overview; `spark_connect_service` protocol (`Interrupt`, `ReleaseSession`, `CloneSession`).
"""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any, cast

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from actors.runtime.redaction import safe_message
from pipeline.config.settings import SparkSettings
from pipeline.errors import Definite, Transient

# How long (seconds) the server may take to end a session before it's left to do so by itself.
ENDS_WITHIN = 10.0

# What a server says that doesn't know a session any more: it has begun anew, or the session has ended.
_UNKNOWN = ("INVALID_HANDLE.", "NO_ACTIVE_SESSION")

# The same, and what a channel says that's closed: gRPC's states and Spark's conditions.
_LOST = (*_UNKNOWN, "UNAVAILABLE", "CANCELLED", "DEADLINE_EXCEEDED", "INVALID_CURSOR.")

_OLDEST = 4  # of Spark's major versions

# Of each session, wherever it is.
SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    # Dates before 1582 are what the file says, and stay so.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    # A name may have a dollar and braces in it, and means no variable; nor is it a pattern.
    "spark.sql.variable.substitute": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
}


class ConnectSpark:
    """A session at a Spark Connect server."""

    def __init__(self, session: SparkSession, url: str) -> None:
        self.session = session
        self._client: Any = cast("Any", session).client
        self._url = url

    def progress(self) -> Mapping[str, object]:
        """Nothing: a server tells only those who wait for a call how far that is."""
        return {}

    def lost(self, error: Exception) -> str | None:
        """Why a call failed, if it did since the server doesn't answer, or doesn't know us any more."""
        return f"the Spark Connect server at {self._url} can't be reached" if is_lost(error) else None

    def stop(self) -> None:
        """End the session, and let the server be."""
        self.session.stop()

    def kill(self) -> None:
        """End the session with all that it's doing; calls that wait for it fail."""
        # A server that doesn't answer would keep us here.
        ending = Thread(target=self.session.stop, daemon=True)
        ending.start()
        ending.join(ENDS_WITHIN)
        if ending.is_alive():
            self._client.close()


def is_connect_session(session: object) -> bool:
    """Whether it's a session at a Spark Connect server, which PySpark's types don't tell."""
    return not isinstance(session, SparkSession)


def is_lost(error: Exception) -> bool:
    """Whether an error is one of the way to the server, or says that it has begun anew."""
    code = getattr(error, "getGrpcStatusCode", lambda: None)()
    return any(sign in f"{code} {error}" for sign in _LOST)


def check_client() -> None:
    """Raise Definite where PySpark lacks what it needs for Spark Connect."""
    try:
        import pyspark.sql.connect.session  # noqa: F401 - only those who use it have all that it imports
    except ImportError as error:
        raise Definite(
            f"spark.master is a Spark Connect URL, and PySpark can't do that here ({error}): install tidemark[connect]"
        ) from error


def connect(settings: SparkSettings, folder: Path) -> ConnectSpark:
    """Open a session at the server that `spark.master` names; `folder` is where its number is kept.

    Raises Definite where the server isn't one that can write to Delta, Transient where it can't be reached.
    """
    check_client()
    url = settings.master
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "connect-session"
    try:
        if kept.exists():
            _end(url, kept.read_text())
        number = str(uuid.uuid4())
        kept.write_text(number)
        return ConnectSpark(_open(settings, number), url)
    except PySparkException as error:
        if is_lost(error):
            raise Transient(
                f"the Spark Connect server at {url} can't be reached ({safe_message(error)})"
            ) from error
        raise


@contextmanager
def second_session(session: SparkSession, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """Another session at the same server with these settings as well, for as long as it's needed."""
    origin: Any = session
    other = origin.cloneSession()
    client = other.client
    client.set_retry_policies([])
    try:
        for name, value in settings.items():
            other.conf.set(name, value)
        yield other
    finally:
        # A clone of PySpark 4.2 can't be stopped. And a server that's gone has ended it by itself.
        with suppress(PySparkException):
            client.release_session()
        client.close()


def _session(url: str, number: str) -> SparkSession:
    from pyspark.sql.connect.session import SparkSession as Remote

    base = url if "/;" in url else url.rstrip("/") + "/"
    session: Any = Remote(f"{base};session_id={number}")
    session.client.set_retry_policies([])
    return cast("SparkSession", session)


def _end(url: str, number: str) -> None:
    """End a session with all that it's doing, unless the server has done so."""
    session = _session(url, number)
    try:
        session.interruptAll()
    except PySparkException as error:
        if not any(sign in str(error) for sign in _UNKNOWN):
            raise
    finally:
        session.stop()


def _open(settings: SparkSettings, number: str) -> SparkSession:
    session = _session(settings.master, number)
    try:
        _look_at(session, settings.master)
        for name, value in {**SETTINGS, **settings.conf}.items():
            _set(session, name, value)
    except PySparkException:
        session.stop()
        raise
    return session


def _look_at(session: SparkSession, url: str) -> None:
    if int(session.version.partition(".")[0]) < _OLDEST:
        raise Definite(
            f"the Spark Connect server at {url} is Spark {session.version}: use {_OLDEST}.0 or newer"
        )
    if "DeltaSparkSessionExtension" not in str(session.conf.get("spark.sql.extensions", "")):
        raise Definite(
            f"the Spark Connect server at {url} has no Delta: start it with Delta's jars, and with "
            "spark.sql.extensions and spark.sql.catalog.spark_catalog as Delta's documentation says"
        )


def _set(session: SparkSession, name: str, value: str) -> None:
    try:
        session.conf.set(name, value)
    except AnalysisException as error:
        raise Definite(
            f"spark.conf: {name} can't be set at a Spark Connect server ({safe_message(error)}): set it where "
            "that is started"
        ) from error
