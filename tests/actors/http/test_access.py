"""Who may do what, where it listens; and how often."""

from pathlib import Path

import pytest

from actors.http.access import Access, Allowance, Guard, TokenBucket
from actors.runtime.secret_files import read_secret
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
    bucket = TokenBucket(Allowance(3, 2.0), lambda: now)
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    now += 0.5
    assert [bucket.take() for _ in range(2)] == [True, False]
    now += 3600
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    now += 3600
    assert [bucket.take(1.5) for _ in range(3)] == [True, True, False]


def test_a_token_that_changes_in_its_file_holds_at_once(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(ALL)
    changing = Guard(HttpSettings("127.0.0.1", 0, read_secret(file)))
    file.write_text("c" * 33)
    assert changing.permitted(bearer("c" * 33)) is Access.CONTROL
    assert changing.permitted(bearer(ALL)) is Access.OPEN
    file.write_text("short")
    assert changing.permitted(bearer("c" * 33)) is Access.CONTROL
    file.unlink()
    assert changing.permitted(bearer("c" * 33)) is Access.CONTROL
    assert changing.permitted(bearer("")) is changing.permitted(bearer("short")) is Access.OPEN


@pytest.mark.parametrize(
    ("access", "said", "let_in"),
    [
        (Access.CONTROL, {"Origin": "https://evil.example"}, False),
        (Access.CONTROL, {"Origin": "null"}, False),
        (Access.CONTROL, {"Origin": "http://["}, False),
        (Access.CONTROL, {"Origin": "http://localhost:8321"}, True),
        (Access.CONTROL, {"Sec-Fetch-Site": "cross-site"}, False),
        (Access.CONTROL, {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate"}, False),
        (Access.CONTROL, {"Sec-Fetch-Site": "same-origin", "Origin": "https://proxy.example"}, True),
        (Access.CONTROL, {}, True),
        (Access.READ, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, False),
        (Access.READ, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, True),
        (Access.OPEN, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, True),
    ],
)
def test_a_page_of_another_site_is_not_let_in(access: Access, said: dict[str, str], let_in: bool) -> None:
    headers = {**bearer(ALL), "Host": "localhost:8321", **said}
    for guarded in (guard("127.0.0.1"), guard("127.0.0.1", "", ""), guard()):
        assert (guarded.refusal(access, "localhost", headers) is None) == let_in
