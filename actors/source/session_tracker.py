"""The GTIDs of what a program commits over its own connection, by PyMySQL or aiomysql.

MySQL reports them in the OK packet of the statement that commits. Both drivers read such a packet and drop that part.
So the packets of this one connection are looked at as the driver reads them. Nothing is sent that the program doesn't
send, but for one `SET SESSION session_track_gtids`.

Source: PyMySQL 1.1 and 1.2, connections.py; aiomysql 0.3, connection.py.
"""

from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from typing import Any, Final

from pymysql.constants import CLIENT

from pipeline.errors import Definite
from pipeline.gtid.gtid_set import GtidSet
from pipeline.source.ok_packet import committed_gtids

# What `client_flag` has to have, for the server to report anything.
SESSION_TRACK: Final = CLIENT.SESSION_TRACK

TRACK_GTIDS: Final = "SET SESSION session_track_gtids = OWN_GTID"

_PACKET: Final = "_read_packet"
# They return when a statement has been answered. The last packet that was read is then OK, or the end of rows.
_ANSWERS: Final = ("_read_query_result", "_read_ok_packet")


_MADE_AGAIN: Final = (
    "the connection was made again while its commits were collected, and MySQL doesn't report those of its new "
    "session: wait for what the server has executed (`tidemark wait` without --gtid), and begin another block after a "
    "reconnection"
)


class SessionTracker:
    """Collects what is committed over a connection between `begin` and `end`, in `committed`."""

    def __init__(self, connection: Any) -> None:
        if not connection.client_flag & SESSION_TRACK:
            raise Definite(
                "the server doesn't tell this connection what it commits: connect with client_flag=SESSION_TRACK"
            )
        self._committed = GtidSet()
        self._connection = connection
        self._session: object = None
        self._made_again = False
        self._packet = b""
        self._before: dict[str, Any] = {}

    @property
    def committed(self) -> GtidSet:
        """What was committed. Raises Definite if the connection was made again meanwhile."""
        self._look_at_session()
        if self._made_again:
            raise Definite(_MADE_AGAIN)
        return self._committed

    def begin(self) -> None:
        """Look at the packets from here on."""
        self._session = self._connection.server_thread_id
        for name in (_PACKET, *_ANSWERS):
            self._before[name] = vars(self._connection).get(name)
            seen = self._see_packet if name == _PACKET else self._see_answer
            setattr(self._connection, name, _followed(getattr(self._connection, name), seen))

    def end(self) -> None:
        """Look at no more packets."""
        self._look_at_session()
        self._session = None
        for name, before in self._before.items():
            if before is None:
                delattr(self._connection, name)
            else:
                setattr(self._connection, name, before)

    def _look_at_session(self) -> None:
        # Both drivers make this tuple in each handshake. After a restart of the server the number in it may come again.
        if self._session is not None and self._connection.server_thread_id is not self._session:
            self._made_again = True

    def _see_packet(self, packet: Any) -> None:
        self._packet = packet.get_all_data()

    def _see_answer(self, _: object) -> None:
        if self._packet[:1] == b"\0":
            self._committed |= committed_gtids(self._packet)


def _followed(call: Callable[..., Any], seen: Callable[[Any], None]) -> Callable[..., Any]:
    """The function, or the coroutine function, whose results are seen as well."""

    def plain(*args: Any, **kwargs: Any) -> Any:
        result = call(*args, **kwargs)
        seen(result)
        return result

    async def awaited(*args: Any, **kwargs: Any) -> Any:
        awaiting: Awaitable[Any] = call(*args, **kwargs)
        result = await awaiting
        seen(result)
        return result

    return awaited if iscoroutinefunction(call) else plain
