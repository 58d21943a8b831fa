"""What the driver's errors become at the border of the program.

Transient where the connection or the server failed for now, Definite where the server refused, and will again.
"""

import errno
import os
import re
import socket
import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import pymysql

from actors.runtime.redaction import without_values
from pipeline.config.settings import ServerSettings
from pipeline.errors import Definite, Transient

# Errors of the server that say nothing about the statement, but that it may do later (Server Error Message Reference).
# Our statements only read, so the files that the server can't write for them are its temporary ones.
_PASSING: Final = frozenset(
    {
        1,  # EE_CANTCREATEFILE
        3,  # EE_WRITE: a temporary file, of a sort for instance, found no space
        5,  # EE_OUTOFMEMORY
        14,  # EE_CANT_CHSIZE
        20,  # EE_DISK_FULL
        23,  # EE_OUT_OF_FILERESOURCES
        27,  # EE_SYNC
        1004,  # ER_CANT_CREATE_FILE
        1021,  # ER_DISK_FULL
        1026,  # ER_ERROR_ON_WRITE
        1028,  # ER_FILSORT_ABORT: the server was stopped, or the query was ended, amid a sort
        1037,  # ER_OUTOFMEMORY
        1040,  # ER_CON_COUNT_ERROR
        1041,  # ER_OUT_OF_RESOURCES
        1042,  # ER_BAD_HOST_ERROR: the server can't find our address' name
        1053,  # ER_SERVER_SHUTDOWN
        1077,  # ER_NORMAL_SHUTDOWN
        1078,  # ER_GOT_SIGNAL
        1079,  # ER_SHUTDOWN_COMPLETE
        1080,  # ER_FORCING_CLOSE
        1114,  # ER_RECORD_FILE_FULL: a temporary table found no space
        1129,  # ER_HOST_IS_BLOCKED
        1135,  # ER_CANT_CREATE_THREAD
        1152,  # ER_ABORTING_CONNECTION
        1154,  # ER_NET_READ_ERROR_FROM_PIPE
        1158,  # ER_NET_READ_ERROR
        1159,  # ER_NET_READ_INTERRUPTED
        1160,  # ER_NET_ERROR_ON_WRITE
        1161,  # ER_NET_WRITE_INTERRUPTED
        1184,  # ER_NEW_ABORTING_CONNECTION
        1203,  # ER_TOO_MANY_USER_CONNECTIONS
        1206,  # ER_LOCK_TABLE_FULL
        1213,  # ER_LOCK_DEADLOCK
        1220,  # ER_ERROR_WHEN_EXECUTING_COMMAND: a file of the log was purged between two of our statements
        1226,  # ER_USER_LIMIT_REACHED
        1257,  # ER_ZLIB_Z_MEM_ERROR
        1297,  # ER_GET_TEMPORARY_ERRMSG
        1317,  # ER_QUERY_INTERRUPTED
        1412,  # ER_TABLE_DEF_CHANGED
        1461,  # ER_MAX_PREPARED_STMT_COUNT_REACHED
        1615,  # ER_NEED_REPREPARE
        1637,  # ER_TOO_MANY_CONCURRENT_TRXS
        1689,  # ER_LOCK_ABORTED
        1878,  # ER_TEMP_FILE_WRITE_FAILURE
        3015,  # ER_ENGINE_OUT_OF_MEMORY
        3024,  # ER_QUERY_TIMEOUT
        3032,  # ER_SERVER_OFFLINE_MODE: somebody serves the server, or it has left its group
        3168,  # ER_SERVER_ISNT_AVAILABLE
        3169,  # ER_SESSION_WAS_KILLED
        3572,  # ER_LOCK_NOWAIT
        4031,  # ER_CLIENT_INTERACTION_TIMEOUT
    }
)
# Errors of a file, which pass or don't by what the system said of it.
_FILE_ERRORS: Final = frozenset(
    {
        2,  # EE_READ
        13,  # EE_STAT
        15,  # EE_CANT_OPEN_STREAM
        29,  # EE_FILENOTFOUND, which MySQL 5.6 also says where it may open no more files
        1013,  # ER_CANT_GET_STAT
        1015,  # ER_CANT_LOCK
        1016,  # ER_CANT_OPEN_FILE
        1018,  # ER_CANT_READ_DIR
        1024,  # ER_ERROR_ON_READ
        1030,  # ER_GET_ERRNO
    }
)
_SYSTEM_ERROR: Final = re.compile(r"(?:errno:|Errcode:|Got error) (\d+)")
_SCARCE: Final = frozenset(
    {errno.EINTR, errno.EAGAIN, errno.ENOMEM, errno.ENFILE, errno.EMFILE, errno.ENOSPC}
)
# A temporary table that found no space has a damaged index. A file of a captured one has no such name.
_DAMAGED: Final = 1034  # ER_NOT_KEYFILE
_TEMPORARY_TABLE: Final = "/#sql"
_LOCKED: Final = 1205  # ER_LOCK_WAIT_TIMEOUT
_SKIPPED: Final = 1684  # ER_WARN_I_S_SKIPPED_TABLE, for the same reason in a transaction
# Errors of a login, which say that the account can't log in for now; a missing right has another one.
_ACCESS_DENIED: Final = frozenset(
    {
        1045,  # ER_ACCESS_DENIED_ERROR
        1130,  # ER_HOST_NOT_PRIVILEGED: also where the server can't find our host's name for now
        1698,  # ER_ACCESS_DENIED_NO_PASSWORD_ERROR
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


class TableGone(Definite):
    """The server shows no table of this name: there is none, or the user may not SELECT from it."""


class RightLacked(Definite):
    """The user may not do it."""


class AccessDenied(Transient):
    """The server doesn't take the account's login. Its password may be just being changed."""


class Locked(Transient):
    """Another session has a lock on what the statement needs, and kept it for longer than this one waits."""


class SourceUnready(Transient):
    """Nothing can be read from the server as long as it's in this state, which somebody has to end.

    Tables that are to be read wait for that, however long it takes.
    """


class AnotherServer(Transient):
    """A connection leads to another server than before: one has taken over, or there are several at the address.

    Nothing that was said of the one's log is so of the other's. Its coordinates are other points, and what has passed
    may not be there yet.
    """

    def __init__(self, settings: ServerSettings, expected: str | None, met: str) -> None:
        super().__init__(
            f"{settings.host}:{settings.port} led to the server {expected}, and now leads to {met}, which has "
            "another log"
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
    if not isinstance(code, int) or _passes(code, text):
        return Transient(f"{text} ({doing})")
    kind = StatementOutdated if code in _OUTDATED else RightLacked if code in _DENIED else Definite
    return kind(f"{text} (error {code} of the source; {doing})")


def raise_for_skipped(warnings: Iterable[tuple[str, int, str]], doing: str) -> None:
    """Raises Locked or Transient if a warning says that the answer lacks a table that the server couldn't open now.

    `warnings`: rows of SHOW WARNINGS.
    """
    for _, code, text in warnings:
        if code in (_LOCKED, _SKIPPED):
            raise Locked(f"the answer leaves out a table that another session has locked: {text} ({doing})")
        if _passes(code, text):
            raise Transient(f"the answer leaves out a table: {text} ({doing})")


def _passes(code: int, text: str) -> bool:
    """Whether the server's error says nothing about the statement."""
    if code in _FILE_ERRORS:
        told = _SYSTEM_ERROR.search(text)
        return told is not None and int(told[1]) in _SCARCE
    if code == _DAMAGED:
        return _TEMPORARY_TABLE in text
    return code in _PASSING or code in _CLIENT_ERRORS


def _reason(error: OSError) -> str:
    """Why there's no connection, in the system's words."""
    if isinstance(error, socket.gaierror):
        return f"no such host ({error.strerror})"
    return os.strerror(error.errno) if error.errno else str(error)
