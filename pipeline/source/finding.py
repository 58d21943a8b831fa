"""What a check finds before capture starts. It imports nothing, since the command line starts with it."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """Whether capture can run at all, and whether it costs what may surprise people."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about the server that is not as capture needs it; `remedy` is a statement, an option or a step."""

    severity: Severity
    wrong: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.wrong}; {self.remedy}"
