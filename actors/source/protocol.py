"""aiomysql's connection, and all use of its insides, which no other module knows.

The driver logs in (TLS included) and runs small statements. Then its stream is a `ReceiveBuffer`: a SELECT's rows and
the log are received without the driver.

The client trusts the server no further than needed. A server can't make it continue without TLS where TLS is required.
It can't get the password in plain text or in a form that's easily reversed. It gets no file: LOCAL INFILE isn't offered
(the capability CLIENT_LOCAL_FILES). The protocol lets a server request a file after any statement all the same; then
the connection ends.

Source: MySQL 9.7 source documentation, "Prepared Statements"; aiomysql 0.3, connection.py.
"""

import socket
import struct
from typing import Any, Final

import aiomysql
from pymysql.constants import CLIENT, COMMAND
from pymysql.converters import escape_item
from pymysql.protocol import EOFPacketWrapper, FieldDescriptorPacket, MysqlPacket

from actors.source.receive_buffer import ReceiveBuffer
from pipeline.errors import Definite, Transient
from pipeline.source.result_columns import ResultColumn
from pipeline.source.result_set import RowPackets
from pipeline.source.statement import Statement, encoded

# COM_STMT_PREPARE_OK: a zero byte, the statement's number, its number of columns, and its number of parameters.
_PREPARED: Final = struct.Struct("<xIHH")
# How fast a silent or unreachable peer is noticed: seconds of silence until the first probe, and between two probes;
# milliseconds until a probe must be answered.
_SILENCE: Final = (
    (socket.TCP_KEEPIDLE, 5),
    (socket.TCP_KEEPINTVL, 5),
    (socket.TCP_USER_TIMEOUT, 10_000),
)

_NO_CURSOR: Final = 0  # all rows are sent at once

# How the server may ask us to log in. With the first, the password itself is sent through TLS, or encrypted for the
# server's RSA key; with the last, a digest of it. mysql_clear_password and mysql_old_password aren't among them.
_LOGINS: Final = ("caching_sha2_password", "sha256_password", "mysql_native_password")

_FILE_WANTED: Final = "the source requested a file of this machine (LOCAL INFILE), which Tidemark refuses"


class ProtocolConnection(aiomysql.Connection):  # type: ignore[misc]  # aiomysql has no types
    """A connection. Raises the driver's errors, OSError where it's lost, and ours for what the driver doesn't see."""

    _logging_in = False

    async def open(self, password: str) -> None:
        """Connect and log in."""
        # The driver writes it as latin1. The server compares bytes, and its own tools send UTF-8.
        self._password = password.encode().decode("latin1")
        await self._connect()
        line = self._writer.get_extra_info("socket")
        for option, value in _SILENCE:
            line.setsockopt(socket.IPPROTO_TCP, option, value)
        self._reader: Any = await ReceiveBuffer.instead_of(self._reader, self._writer)

    async def _request_authentication(self) -> None:
        """Logs in. The driver alone would do so without TLS if none is offered, even if only an attacker in between
        says so."""
        if self._ssl_context and not self.server_capabilities & CLIENT.SSL:
            raise Definite("the source offers no TLS; turn it on there, or see to source.tls")
        if self._server_auth_plugin not in ("", *_LOGINS):
            self._client_auth_plugin = _LOGINS[0]  # the server says what the account has, if it's another
        self._logging_in = True
        await super()._request_authentication()
        self._logging_in = False

    async def _read_packet(self, packet_type: type[MysqlPacket] = MysqlPacket) -> Any:
        """Read a packet, and refuse ways to log in that the driver would go along with."""
        packet = await super()._read_packet(packet_type)
        if self._logging_in and packet.is_auth_switch_request():
            wanted = packet.get_all_data()[1:].partition(b"\0")[0].decode("ascii", "replace")
            if wanted not in _LOGINS:
                raise Definite(
                    f"the source wants the login {wanted or 'of before MySQL 4.1'!r}, which would give the password "
                    f"away; give the account one of {', '.join(_LOGINS)}"
                )
        return packet

    def close(self) -> None:
        """Close at once: the end of TLS isn't agreed on with a server that may be silent."""
        if self._writer:
            self._writer.transport.abort()
        super().close()

    @property
    def disturbed(self) -> bool:
        """Returns whether unrequested bytes came, or the end."""
        return bool(self._reader.disturbed)

    def bound(self, statement: Statement) -> str:
        """The statement with the parameters in it, each written by the driver (sql_mode has to be empty)."""
        return statement.sql % tuple(
            escape_item(parameter, self._charset) for parameter in statement.parameters
        )

    async def small(self, statement: Statement) -> list[tuple[Any, ...]]:
        """All rows of a result, decoded by the driver."""
        try:
            await self.query(self.bound(statement))
        except RuntimeError as error:
            if "LOAD_LOCAL" in str(error):  # so the driver says that it has sent nothing
                raise Definite(_FILE_WANTED) from error
            raise
        return list(self._result.rows or ())

    @property
    def warned(self) -> bool:
        """Returns whether the last small result came with warnings."""
        return bool(self._result.warning_count)

    async def select(self, statement: Statement) -> tuple[tuple[ResultColumn, ...], RowPackets]:
        """Run a query by the binary protocol and read the head of its result; the rows follow, for `receive`.

        The parameters are bound: they go to the server beside the statement's text, never in it.
        """
        await self._execute_command(COMMAND.COM_STMT_PREPARE, statement.marked)
        number, count, parameters = _PREPARED.unpack_from((await self._answer()).get_all_data())
        await self._columns(parameters)
        await self._columns(count)  # none of EXPLAIN's, which come with its rows only
        execution = struct.pack("<IBI", number, _NO_CURSOR, 1) + encoded(statement.parameters)
        await self._execute_command(COMMAND.COM_STMT_EXECUTE, execution)
        # The commands are taken in their order, and this one isn't answered.
        await self._execute_command(COMMAND.COM_STMT_CLOSE, struct.pack("<I", number))
        head = await self._answer()
        columns = await self._columns(head.read_length_encoded_integer())
        if not columns:
            raise Definite("the source answers this statement with something else than rows")
        return (
            tuple(ResultColumn(c.type_code, c.flags, c.charsetnr, c.length, c.scale) for c in columns),
            RowPackets(self._next_seq_id),
        )

    async def _answer(self) -> Any:
        """The first packet of an answer."""
        head = await self._read_packet()
        if head.is_load_local_packet():
            raise Definite(_FILE_WANTED)
        return head

    async def _columns(self, count: int) -> list[Any]:
        """Returns the definitions of so many columns, and reads the packet after them if there are any."""
        columns = [await self._read_packet(FieldDescriptorPacket) for _ in range(count)]
        if columns:
            await self._read_packet()
        return columns

    async def command(self, code: int, payload: bytes) -> None:
        """Send a command; its answer isn't read."""
        await self._execute_command(code, payload)

    async def ok(self) -> None:
        """Read the packet that says that all went well; raises the server's error if it is one."""
        if not (await self._read_packet()).is_ok_packet():
            raise Definite("the source answers this command with something else than OK")

    async def receive(self, room: memoryview) -> int:
        """Put the next bytes of the stream into `room`, as many as are there."""
        filled: int = await self._reader.receive(room)
        if not filled:
            raise Transient("the connection to the source was lost")
        return filled

    def check_end(self, packet: bytes) -> None:
        """Reads the packet after the rows; raises the server's error if it is one."""
        end = MysqlPacket(packet, self._encoding)
        end.check_error()
        self.server_status = EOFPacketWrapper(end).server_status
