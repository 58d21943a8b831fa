"""Who may reach the HTTP server."""

import pytest

from pipeline.exposure import is_loopback, mistakes

TOKEN = "a" * 32


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("db.example", False),
        ("localhost.example", False),
    ],
)
def test_loopback_is_the_machine_itself(host: str, own: bool) -> None:
    assert is_loopback(host) is own


@pytest.mark.parametrize(
    ("host", "token", "read_token", "wrong"),
    [
        ("127.0.0.1", "", "", []),
        ("127.0.0.1", TOKEN, "", []),
        ("0.0.0.0", TOKEN, "b" * 16, []),
        ("0.0.0.0", "", "", ["host"]),
        ("db.example", "", "b" * 16, ["host", "read_token_file"]),
        ("127.0.0.1", "short", "", ["token_file"]),
        ("127.0.0.1", TOKEN + " ", "", ["token_file"]),
        ("127.0.0.1", "ä" * 32, "", ["token_file"]),
        ("0.0.0.0", TOKEN, TOKEN, ["read_token_file"]),
    ],
)
def test_what_is_wrong_is_told_by_its_key(host: str, token: str, read_token: str, wrong: list[str]) -> None:
    told = list(mistakes(host, token, read_token))
    assert [key for key, _, _ in told] == wrong
    assert not any(secret in text for text in map(str, told) for secret in (token, read_token) if secret)
