"""Reads the lake with what the program itself has just committed in it.

    connection = pymysql.connect(…, client_flag=SESSION_TRACK)
    with read_your_writes(connection, "http://127.0.0.1:8321") as written:
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO orders …")
        connection.commit()
    view = live_view(spark, lake, TableId("shop", "orders"), at=written)

The connection is PyMySQL's, or aiomysql's with `async with`. `written` also waits by itself, and says at which versions
of Delta's log another engine finds it. It needs nothing else of Tidemark's than its address.
"""

import json
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import urlencode

from actors.journal.service_connection import TRANSIENT_STATUSES, Trust, ask_service
from actors.source.session_tracker import SESSION_TRACK, TRACK_GTIDS, SessionTracker
from pipeline.errors import Definite, Transient
from pipeline.journal.applied.progress import Through
from pipeline.journal.request_parameters import WAIT_S
from pipeline.lake.live_view import Versions
from pipeline.schema.table_schema import TableId

__all__ = ["SESSION_TRACK", "NotApplied", "Written", "read_your_writes", "wait_until_applied"]

# How much longer (s) an answer is waited for than the service waits.
_GRACE_S: Final = 10.0


class NotApplied(Transient):
    """The transactions haven't come in time, or the service didn't answer."""


def wait_until_applied(
    service: str,
    gtid_set: str,
    *tables: TableId,
    through: Through = Through.LAKE,
    timeout_s: float = WAIT_S,
    token: str | None = None,
    tls: Trust = None,
) -> dict[str, Any]:
    """Waits until transactions can be read in these tables (in all, without any). Returns the answer of `GET /applied`.

    `service`, `token` and `tls`: as for `read_your_writes`. Raises NotApplied, and Definite where they can't come.
    """
    parameters = {"gtid_set": gtid_set, "through": through.value, "timeout_s": f"{timeout_s:g}"}
    if tables:
        parameters["tables"] = ",".join(table.quoted for table in tables)
    try:
        told, body = ask_service(
            service, f"/applied?{urlencode(parameters)}", timeout_s + _GRACE_S, token, tls
        )
        answer: Any = json.loads(body)
    except (OSError, HTTPException, ValueError) as error:
        raise NotApplied(f"{service} doesn't answer ({error})") from error
    said = answer.get("error", told.status) if isinstance(answer, dict) else told.status
    if told.status in TRANSIENT_STATUSES:
        raise NotApplied(f"{gtid_set} hasn't been applied: {said}")
    if told.status != HTTPStatus.OK or not isinstance(answer, dict):
        raise Definite(f"{gtid_set} can't be waited for: {said}")
    return answer


class Written:
    """What a connection has committed since it was entered."""

    def __init__(self, tracker: SessionTracker, service: str, token: str | None, tls: Trust) -> None:
        self._tracker = tracker
        self._service = service
        self._token = token
        self._tls = tls

    @property
    def gtid_set(self) -> str:
        """The transactions, as MySQL writes them; empty if nothing was committed.

        Raises Definite if the connection was made again within the block.
        """
        return self._tracker.committed.on_one_line

    def wait(
        self, *tables: TableId, through: Through = Through.LAKE, timeout_s: float = WAIT_S
    ) -> dict[str, Any]:
        """Waits until they can be read in these tables (in all, without any). Returns what `GET /applied` answers.

        Raises as `wait_until_applied` does.
        """
        return wait_until_applied(
            self._service,
            self.gtid_set,
            *tables,
            through=through,
            timeout_s=timeout_s,
            token=self._token,
            tls=self._tls,
        )

    def versions(self, table: TableId, timeout_s: float = WAIT_S) -> Versions | None:
        """The versions of a table at which its live view has them; None if nothing was committed.

        Raises as `wait` does, and Definite if the lake has nothing of the table.
        """
        if not self.gtid_set:
            return None
        at = self.wait(table, timeout_s=timeout_s)["tables"][str(table)]
        if at is None:
            raise Definite(
                f"the lake has nothing of {table}: nothing was ever written to it while it's captured"
            )
        return Versions(at["mirror"], at["changelog"])


class _Tracked:
    """A connection whose commits are collected: a context of both kinds."""

    def __init__(self, connection: Any, service: str, token: str | None, tls: Trust) -> None:
        self._connection = connection
        self._tracker = SessionTracker(connection)
        self._written = Written(self._tracker, service, token, tls)

    def __enter__(self) -> Written:
        with self._connection.cursor() as cursor:
            cursor.execute(TRACK_GTIDS)
        self._tracker.begin()
        return self._written

    def __exit__(self, *_: object) -> None:
        self._tracker.end()

    async def __aenter__(self) -> Written:
        async with self._connection.cursor() as cursor:
            await cursor.execute(TRACK_GTIDS)
        self._tracker.begin()
        return self._written

    async def __aexit__(self, *_: object) -> None:
        self._tracker.end()


def read_your_writes(connection: Any, service: str, token: str | None = None, tls: Trust = None) -> _Tracked:
    """Collects what is committed over a connection of PyMySQL's (`with`) or aiomysql's (`async with`).

    `service`: the address of Tidemark's HTTP server. `token`: its token for reading, if it needs one. `tls`: a file
    of certificates to trust, or a context. The connection must have the capability SESSION_TRACK, and no transaction
    under way. Its `session_track_gtids` stays OWN_GTID.
    """
    return _Tracked(connection, service, token, tls)
