"""Who may do what, where it listens; and how often."""

import pytest

from actors.http.access import Access, Guard, TokenBucket
from pipeline.config.settings import HttpSettings, Secret

ALL, READ = "a" * 32, "b" * 32


def guard(host: str = "0.0.0.0", token: str = ALL, read_token: str = READ) -> Guard:
    return Guard(HttpSettings(host, 0, Secret(token), Secret(read_token)))


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize(
    ("said", "given"),
    [
        ({}, Access.OPEN),
        (bearer(ALL), Access.CONTROL),
        (bearer(READ), Access.READ),
        (bearer(""), Access.OPEN),
        (bearer(ALL + "a"), Access.OPEN),
        (bearer(ALL[:-1]), Access.OPEN),
        (bearer("\udce4" * 32), Access.OPEN),
        ({"Authorization": f"bearer  {ALL} "}, Access.CONTROL),
        ({"Authorization": f"Basic {ALL}"}, Access.OPEN),
        ({"Authorization": ALL}, Access.OPEN),
    ],
)
def test_what_a_token_gives(said: dict[str, str], given: Access) -> None:
    assert guard().permitted(said) is given


def test_without_tokens_nothing_is_a_token() -> None:
    nobody = guard("127.0.0.1", "", "")
    assert nobody.permitted(bearer("")) is nobody.permitted({}) is Access.OPEN
    assert nobody.required(Access.CONTROL) is Access.OPEN


def test_loopback_wants_a_token_for_signals_alone_and_a_host_of_its_own() -> None:
    own = guard("127.0.0.1")
    assert (own.required(Access.READ), own.required(Access.CONTROL)) == (Access.OPEN, Access.CONTROL)
    for host in ("evil.example", "10.0.0.1", None):
        refusal = own.refusal(Access.OPEN, host, bearer(ALL))
        assert refusal is not None
        assert refusal.status == 403
    assert own.refusal(Access.READ, "localhost", {}) is None


def test_beyond_loopback_any_host_will_do() -> None:
    assert guard().refusal(Access.READ, "tidemark.internal", bearer(READ)) is None


def test_a_bucket_gives_so_many_at_once_and_then_so_many_a_second() -> None:
    now = 100.0
    bucket = TokenBucket(2.0, 3, lambda: now)
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    now += 0.5
    assert [bucket.take() for _ in range(2)] == [True, False]
    now += 3600
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
