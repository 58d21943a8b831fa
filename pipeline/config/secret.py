"""Text that is never shown."""

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
