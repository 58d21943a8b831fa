"""Which of the driver's errors pass, and which don't."""

import socket
import ssl

import pymysql
import pytest

from actors.source.errors import (
    AccessDenied,
    AnotherServer,
    Locked,
    RightLacked,
    StatementOutdated,
    translate_errors,
)
from pipeline.config.settings import ServerSettings
from pipeline.errors import Definite, Transient


def unreached(cause: OSError) -> pymysql.Error:
    """What the driver raises where it gets no connection."""
    error = pymysql.err.OperationalError(2003, "Can't connect to MySQL server on 'db'")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [
        (pymysql.err.OperationalError(1205, "Lock wait"), Locked, r"^Lock wait \(asking\)$"),
        (pymysql.err.OperationalError(2013, "Lost"), Transient, r"^Lost \(asking\)$"),
        (
            unreached(ConnectionRefusedError(111, "Connect call failed")),
            Transient,
            "on 'db': Connection refused",
        ),
        (unreached(TimeoutError(110, "timed out")), Transient, "on 'db': Connection timed out"),
        (
            unreached(socket.gaierror(-2, "Name or service not known")),
            Transient,
            r"on 'db': no such host \(Name or",
        ),
        (ConnectionResetError("reset"), Transient, r"^reset \(asking\)$"),
        (TimeoutError(), Transient, "^the source didn't answer in time: asking$"),
        (
            pymysql.err.ProgrammingError(1146, "No table"),
            StatementOutdated,
            r"^No table \(error 1146 of the source",
        ),
        (
            pymysql.err.OperationalError(1525, "Incorrect DATE value: 'x'"),
            Definite,
            r"^Incorrect DATE value: '…'",
        ),
        (pymysql.err.OperationalError(1142, "No right"), RightLacked, r"^No right .error 1142 of the source"),
        (pymysql.err.OperationalError(1045, "Denied"), AccessDenied, r"^Denied \(error 1045 of the source"),
        (pymysql.err.OperationalError(1129, "Host blocked"), Transient, r"^Host blocked \(asking\)$"),
    ],
)
def test_an_error_of_the_driver_becomes_one_of_ours(
    error: Exception, kind: type[Exception], told: str
) -> None:
    with pytest.raises(kind, match=told) as raised, translate_errors("asking"):
        raise error
    assert type(raised.value) is kind


@pytest.mark.parametrize(
    ("code", "text", "kind", "told"),
    [
        (
            1028,
            "Sort aborted: Query execution was interrupted",
            Transient,
            r"^Sort aborted: Query execution was interrupted \(asking\)$",
        ),
        (1021, "Disk full", Transient, r"^Disk full \(asking\)$"),
        (1114, "The table '/tmp/#sql_1_0' is full", Transient, r"is full \(asking\)$"),
        (1030, "Got error 28 - 'No space left' from storage engine", Transient, "^Got"),
        (1030, "Got error 127 from storage engine", Definite, "error 1030 of the source"),
        (
            1016,
            "Can't open file: './d/t.frm' (errno: 24 - Too many open files)",
            Transient,
            r"^Can't open .* \(asking\)$",
        ),
        (1016, "Can't open file: 't' (errno: 145 - crashed)", Definite, "error 1016 of the source"),
        (29, "File './d/t.MYD' not found (Errcode: 24 - Too many open files)", Transient, r"\(asking\)$"),
        (29, "File './d/t.MYD' not found (Errcode: 2 - No such file)", Definite, "error 29 of the source"),
        (1034, "Incorrect key file for table '/tmp/#sql_1_0.MYI'", Transient, r"\(asking\)$"),
        (1034, "Incorrect key file for table 't'", Definite, "error 1034 of the source"),
        (1130, "Host 'db' is not allowed to connect", AccessDenied, "error 1130"),
    ],
)
def test_a_server_that_lacks_something_for_now_is_told_from_one_that_refuses(
    code: int, text: str, kind: type[Exception], told: str
) -> None:
    with pytest.raises(kind, match=told) as raised, translate_errors("asking"):
        raise pymysql.err.OperationalError(code, text)
    assert type(raised.value) is kind


def test_a_certificate_that_cannot_be_trusted_stays_so() -> None:
    untrusted = pymysql.err.OperationalError(2003, "Can't connect")
    untrusted.__cause__ = ssl.SSLCertVerificationError("self-signed")
    told = r"certificate can't be trusted.*self-signed.*source\.tls"
    with pytest.raises(Definite, match=told), translate_errors("connecting"):
        raise untrusted


def test_another_server_may_be_the_right_one_again() -> None:
    error = AnotherServer(ServerSettings("db.internal", "u"), "a", "b")
    assert isinstance(error, Transient)
    assert str(error).startswith("db.internal:3306 led to the server a, and now leads to b")
