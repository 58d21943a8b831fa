"""Who may reach the HTTP server."""

from pathlib import PurePath

import pytest

from pipeline.config.http_access import is_loopback, mistakes
from pipeline.config.settings import HttpSettings, Secret
from pipeline.config.validation import contradictions

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
        ("127.0.0.1", None, None, []),
        ("127.0.0.1", TOKEN, None, []),
        ("127.0.0.1", "", None, ["token_file"]),
        ("127.0.0.1", TOKEN, "", ["read_token_file"]),
        ("0.0.0.0", TOKEN, "b" * 16, []),
        ("0.0.0.0", None, None, ["host"]),
        ("0.0.0.0", "", None, ["host", "token_file"]),
        ("db.example", None, "b" * 16, ["host", "read_token_file"]),
        ("127.0.0.1", "short", None, ["token_file"]),
        ("127.0.0.1", TOKEN + " ", None, ["token_file"]),
        ("127.0.0.1", "ä" * 32, None, ["token_file"]),
        ("0.0.0.0", TOKEN, TOKEN, ["read_token_file"]),
    ],
)
def test_what_is_wrong_is_told_by_its_key(
    host: str, token: str | None, read_token: str | None, wrong: list[str]
) -> None:
    told = list(mistakes(host, token, read_token))
    assert [key for key, _, _ in told] == wrong
    assert not any(secret in text for text in map(str, told) for secret in (token, read_token) if secret)


def test_an_empty_file_is_not_the_same_as_none() -> None:
    """It would open what the user meant to close."""
    assert list(contradictions(HttpSettings())) == []
    empty = HttpSettings(token=Secret("", PurePath("token")))
    assert [mistake.key for mistake in contradictions(empty)] == ["token_file"]
