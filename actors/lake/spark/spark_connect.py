"""A Spark that others run, reached through a Spark Connect server.

This process has no JVM to start or to kill. A session's statements continue for a while after its client is gone. What
they may still commit is in the lake once all the same (`actors.lake.delta.delta_connect`), except statements that
change columns. So the number of a session is put into the journal before its first use. The next client, on whichever
machine, first ends the session of that number, with everything that it is doing.

Nothing is retried here. If the server is gone or busy, the caller fails, and its next start reads the state of the lake
first.

Source: Spark Connect overview; `spark_connect_service` protocol (`Interrupt`, `ReleaseSession`, `CloneSession`).
"""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any, Final, cast

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from actors.journal.files import Files, journal_errors
from actors.runtime.redaction import safe_message
from pipeline.config.secret import without_secrets
from pipeline.config.settings import SESSION_SETTINGS, SparkSettings
from pipeline.errors import Definite, Transient
from pipeline.lake.files.known_versions import check_pair

# The journal's file that has the number of the last session.
KEPT_SESSION: Final = "connect-session"

# How long (seconds) the client waits for the server to end a session.
SESSION_ENDS_WITHIN_S = 10.0

# How a server answers that doesn't know a session: it has restarted, or the session has ended.
_UNKNOWN = ("INVALID_HANDLE.", "NO_ACTIVE_SESSION")

# The same, and the answer of a closed channel: gRPC's states and Spark's conditions.
_LOST = (*_UNKNOWN, "UNAVAILABLE", "CANCELLED", "DEADLINE_EXCEEDED", "INVALID_CURSOR.")

# How Delta's jar tells its version in a statement.
_DELTA_VERSION: Final = "java_method('io.delta.package', 'VERSION')"


class ConnectSpark:
    """A session at a Spark Connect server."""

    def __init__(self, session: SparkSession, url: str) -> None:
        self.session = session
        self._client: Any = cast("Any", session).client
        self._shown = without_secrets(url)

    def progress(self) -> Mapping[str, object]:
        """Returns nothing: a server reports progress only to those who wait for a call."""
        return {}

    def lost(self, error: Exception) -> str | None:
        """Returns why a call failed, if the server doesn't answer or doesn't know the session any more."""
        return f"the Spark Connect server at {self._shown} can't be reached" if is_lost(error) else None

    def stop(self) -> None:
        """Ends the session, and leaves the server running."""
        self.session.stop()

    def kill(self) -> None:
        """Ends the session with everything that it is doing. Calls that wait for it fail."""
        # A server that doesn't answer would block here.
        ending = Thread(target=self.session.stop, daemon=True)
        ending.start()
        ending.join(SESSION_ENDS_WITHIN_S)
        if ending.is_alive():
            self._client.close()


def is_connect_session(session: object) -> bool:
    """Returns whether it is a session at a Spark Connect server. PySpark's types don't show it."""
    return not isinstance(session, SparkSession)


def is_lost(error: Exception) -> bool:
    """Returns whether an error is one of the connection to the server, or shows that the server has restarted."""
    code = getattr(error, "getGrpcStatusCode", lambda: None)()
    return any(sign in f"{code} {error}" for sign in _LOST)


def check_client() -> None:
    """Raises Definite if PySpark lacks what Spark Connect needs."""
    try:
        import pyspark.sql.connect.session  # noqa: F401 - only those who use it have all that it imports
    except ImportError as error:
        raise Definite(
            f"spark.master is a Spark Connect URL, and PySpark can't do that here ({error}): install tidemark[connect]"
        ) from error


def connect(settings: SparkSettings, files: Files, folder: Path | None = None) -> ConnectSpark:
    """Opens a session at the server that `spark.master` names; its number is kept in these files of the journal.

    `folder`: where an earlier version has kept it, on this machine.

    Raises Definite if the server can't write to Delta, or isn't known to do so as Tidemark does. Raises Transient if it
    can't be reached.
    """
    check_client()
    url = settings.master
    former = None if folder is None else folder / KEPT_SESSION
    with journal_errors(files.shown):
        predecessors = (_read(files), None if former is None else _read_former(former))
    number = str(uuid.uuid4())
    try:
        for predecessor in filter(None, predecessors):
            _end(url, predecessor)
        with journal_errors(files.shown):
            files.put(KEPT_SESSION, number.encode())
        if former is not None:
            former.unlink(missing_ok=True)
        return ConnectSpark(_open(settings, number), url)
    except PySparkException as error:
        if is_lost(error):
            raise Transient(
                f"the Spark Connect server at {without_secrets(url)} can't be reached ({safe_message(error)})"
            ) from error
        raise


@contextmanager
def second_session(session: SparkSession, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """Another session at the same server, with these additional settings, until the block ends."""
    origin: Any = session
    other = origin.cloneSession()
    client = other.client
    client.set_retry_policies([])
    try:
        for name, value in settings.items():
            other.conf.set(name, value)
        yield other
    finally:
        # PySpark 4.2 can't stop a clone. If the server is gone, the session has ended.
        with suppress(PySparkException):
            client.release_session()
        client.close()


def _read(files: Files) -> str | None:
    with suppress(FileNotFoundError):
        return files.read(KEPT_SESSION).decode()
    return None


def _read_former(kept: Path) -> str | None:
    """Returns the number in such a file, unless a kill has left only a part of it."""
    with suppress(FileNotFoundError, ValueError):
        return str(uuid.UUID(kept.read_text()))
    return None


def _session(url: str, number: str) -> SparkSession:
    from pyspark.sql.connect.session import SparkSession as Remote

    base = url if "/;" in url else url.rstrip("/") + "/"
    session: Any = Remote(f"{base};session_id={number}")
    session.client.set_retry_policies([])
    return cast("SparkSession", session)


def _end(url: str, number: str) -> None:
    """Ends a session with everything that it is doing, unless the server has ended it."""
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
        for name, value in {**SESSION_SETTINGS, **settings.conf}.items():
            _set(session, name, value)
    except (PySparkException, Definite):
        session.stop()
        raise
    return session


def _look_at(session: SparkSession, url: str) -> None:
    server = f"the Spark Connect server at {without_secrets(url)}"
    if "DeltaSparkSessionExtension" not in str(session.conf.get("spark.sql.extensions", "")):
        raise Definite(
            f"{server} has no Delta: start it with Delta's jars, and with "
            "spark.sql.extensions and spark.sql.catalog.spark_catalog as Delta's documentation says"
        )
    check_pair(server, session.version, _delta_version(session), "start that server with these versions")


def _delta_version(session: SparkSession) -> str:
    """Returns the version of the server's Delta, as it tells it."""
    try:
        row = session.sql(f"SELECT {_DELTA_VERSION}").first()
    except AnalysisException:  # its Delta has no such class
        return "of an unknown version"
    assert row is not None
    return str(row[0])


def _set(session: SparkSession, name: str, value: str) -> None:
    try:
        session.conf.set(name, value)
    except AnalysisException as error:
        raise Definite(
            f"spark.conf: {name} can't be set at a Spark Connect server ({safe_message(error)}): set it where "
            "that is started"
        ) from error
