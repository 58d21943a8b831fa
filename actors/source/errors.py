"""What the driver's errors become at the border of the program.

Transient where the connection or the server failed for now, Definite where the server refused, and will again.
"""

import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pymysql

from actors.runtime.redaction import without_values
from pipeline.config.settings import ServerSettings
from pipeline.errors import Definite, Transient

# Errors of the server that say nothing about the statement, but that it may do later (Server Error Message Reference).
_PASSING: Final = frozenset(
    {
        3,  # EE_WRITE: a temporary file, of a sort for instance, found no space
        20,  # EE_DISK_FULL
        1021,  # ER_DISK_FULL
        1026,  # ER_ERROR_ON_WRITE
        1028,  # ER_FILSORT_ABORT: the server was stopped, or the query was ended, amid a sort
        1037,  # ER_OUTOFMEMORY
        1040,  # ER_CON_COUNT_ERROR
        1041,  # ER_OUT_OF_RESOURCES
        1053,  # ER_SERVER_SHUTDOWN
        1077,  # ER_NORMAL_SHUTDOWN
        1080,  # ER_FORCING_CLOSE
        1129,  # ER_HOST_IS_BLOCKED
        1135,  # ER_CANT_CREATE_THREAD
        1158,  # ER_NET_READ_ERROR
        1159,  # ER_NET_READ_INTERRUPTED
        1160,  # ER_NET_ERROR_ON_WRITE
        1161,  # ER_NET_WRITE_INTERRUPTED
        1203,  # ER_TOO_MANY_USER_CONNECTIONS
        1213,  # ER_LOCK_DEADLOCK
        1226,  # ER_USER_LIMIT_REACHED
        1317,  # ER_QUERY_INTERRUPTED
        1412,  # ER_TABLE_DEF_CHANGED
        1615,  # ER_NEED_REPREPARE
        3024,  # ER_QUERY_TIMEOUT
        3168,  # ER_SERVER_ISNT_AVAILABLE
        3169,  # ER_SESSION_WAS_KILLED
        3572,  # ER_LOCK_NOWAIT
        4031,  # ER_CLIENT_INTERACTION_TIMEOUT
    }
)
_LOCKED: Final = 1205  # ER_LOCK_WAIT_TIMEOUT
# Errors of a login, which say that the account can't log in for now; a missing right has another one.
_ACCESS_DENIED: Final = frozenset(
    {
        1045,  # ER_ACCESS_DENIED_ERROR
        1862,  # ER_MUST_CHANGE_PASSWORD_LOGIN: the password has expired
        3118,  # ER_ACCOUNT_HAS_BEEN_LOCKED
        3955,  # ER_USER_ACCESS_DENIED_FOR_USER_ACCOUNT_BLOCKED_BY_PASSWORD_LOCK: after logins with another password
    }
)

_CANT_CONNECT: Final = 2003  # CR_CONN_HOST_ERROR, by which the driver says nothing of the reason

# Errors that say that the user lacks a right (Server Error Message Reference).
_DENIED: Final = frozenset(
    {
        1044,  # ER_DBACCESS_DENIED_ERROR
        1142,  # ER_TABLEACCESS_DENIED_ERROR
        1143,  # ER_COLUMNACCESS_DENIED_ERROR
        1227,  # ER_SPECIFIC_ACCESS_DENIED_ERROR
    }
)
# Errors that say that what the statement names isn't there any more.
_OUTDATED: Final = frozenset(
    {
        1049,  # ER_BAD_DB_ERROR: since MySQL 8.0 for a table of a database that is gone
        1054,  # ER_BAD_FIELD_ERROR
        1146,  # ER_NO_SUCH_TABLE
        1176,  # ER_KEY_DOES_NOT_EXIST
    }
)
# Errors that quote the value that they are about, which may be a row's key.
_QUOTING: Final = frozenset(
    {
        1064,  # ER_PARSE_ERROR
        1292,  # ER_TRUNCATED_WRONG_VALUE
        1300,  # ER_INVALID_CHARACTER_STRING
        1366,  # ER_TRUNCATED_WRONG_VALUE_FOR_FIELD
        1411,  # ER_WRONG_VALUE_FOR_TYPE
        1525,  # ER_WRONG_VALUE
        1690,  # ER_DATA_OUT_OF_RANGE
        3141,  # ER_INVALID_JSON_TEXT_IN_PARAM
        3854,  # ER_CANNOT_CONVERT_STRING
        3988,  # ER_IMPOSSIBLE_STRING_CONVERSION
    }
)
# The client library's own errors (CR_…): of the connection, not of the statement.
_CLIENT_ERRORS: Final = range(2000, 3000)


class StatementOutdated(Definite):
    """The table isn't what the statement was made for any more."""


class RightLacked(Definite):
    """The user may not do it."""


class AccessDenied(Transient):
    """The server doesn't take the account's login. Its password may be just being changed."""


class Locked(Transient):
    """Another session has a lock on what the statement needs, and kept it for longer than this one waits."""


class AnotherServer(Transient):
    """A connection leads to another server than before: one has taken over, or there are several at the address.

    Nothing that was said of the one's log is so of the other's: its coordinates are other places, and what has passed
    may not be there yet.
    """

    def __init__(self, settings: ServerSettings, expected: str | None, met: str) -> None:
        super().__init__(
            f"{settings.host}:{settings.port} led to the server {expected}, and now leads to {met}, whose log has "
            "other places"
        )


@contextmanager
def translate_errors(doing: str) -> Iterator[None]:
    """Turns the driver's errors into ours; the message has `doing`."""
    try:
        yield
    except TimeoutError as error:
        raise Transient(f"the source didn't answer in time: {doing}") from error
    except (pymysql.Error, OSError) as error:
        raise _judge(error, doing) from error


def _judge(error: Exception, doing: str) -> Transient | Definite:
    if isinstance(error.__cause__, ssl.SSLCertVerificationError):
        return Definite(f"the source's certificate can't be trusted ({error.__cause__}); see to source.tls")
    code, *words = error.args if isinstance(error, pymysql.Error) else (None,)
    text = " ".join(str(word) for word in words) or str(error)
    if code in _QUOTING:
        text = without_values(text)
    if code == _CANT_CONNECT and isinstance(error.__cause__, OSError):
        text += f": {_reason(error.__cause__)}"
    if code in _ACCESS_DENIED:
        return AccessDenied(f"{text} (error {code} of the source; {doing})")
    if code == _LOCKED:
        return Locked(f"{text} ({doing})")
    passing = not isinstance(code, int) or code in _PASSING or code in _CLIENT_ERRORS
    if passing:
        return Transient(f"{text} ({doing})")
    kind = StatementOutdated if code in _OUTDATED else RightLacked if code in _DENIED else Definite
    return kind(f"{text} (error {code} of the source; {doing})")


def _reason(error: OSError) -> str:
    """Why there's no connection, in the system's words."""
    if isinstance(error, socket.gaierror):
        return f"no such host ({error.strerror})"
    return os.strerror(error.errno) if error.errno else str(error)
