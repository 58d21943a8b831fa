"""Text that is never shown.

Passwords and tokens are `Secret`s. Secrets can also be where anything may stand: in Spark's own settings, and in the
URI of a place. Spark's settings are judged by their names, as Spark itself does it (spark.redaction.regex).

Source: Spark 4.2's documentation, "Configuration", and "client-connection-string.md" (the parameters of a Spark Connect
URL).
"""

import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final


@dataclass(frozen=True, slots=True)
class Secret:
    """Text that is never shown: printing it gives stars. `file`: where it was read, to be read again when it's used."""

    value: str
    file: PurePath | None = None

    def __repr__(self) -> str:
        return "********"

    __str__ = __repr__


NO_SECRET: Final = Secret("")

STARS: Final = str(NO_SECRET)

_SECRET_NAME: Final = re.compile(
    r"secret|password|passphrase|token|credential|(access|account|private)[.]?key", re.IGNORECASE
)
_USER_OF_URI: Final = re.compile(r"(?<=://)[^/@]*(?=@)")
_SECRET_OF_URI: Final = re.compile(r"([?&][^=&]*(?:secret|password|token|key)[^=&]*=)[^&]*", re.IGNORECASE)
# Any other parameter is a token, or becomes a header, which may be one.
_OF_SPARK_CONNECT: Final = re.compile(r"(;(?!(?:use_ssl|user_id|user_agent|session_id)=)[^=;]*=)[^;]*")


def is_secret_setting(name: str) -> bool:
    """Returns whether a setting of Spark's with this name may be a secret."""
    return "." in name and _SECRET_NAME.search(name) is not None


def without_secrets(text: str) -> str:
    """Returns a text that may be a URI, without who may use it."""
    if "://" not in text:
        return text
    if text.startswith("sc://"):
        text = _OF_SPARK_CONNECT.sub(rf"\1{STARS}", text)
    return _SECRET_OF_URI.sub(rf"\1{STARS}", _USER_OF_URI.sub(STARS, text))
