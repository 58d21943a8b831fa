"""Coordinates of a log: a binlog file and an offset, ordered within one server."""

from dataclasses import dataclass

from pipeline.errors import InvariantBroken


@dataclass(frozen=True, slots=True)
class Coordinates:
    """A point of one server's binary log: `file` as `binlog.000042`, `offset` in bytes, the end of an event."""

    file: str
    offset: int

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"

    def reaches(self, other: "Coordinates") -> bool:
        """Whether this point is at or after the other. InvariantBroken if the two are of different logs."""
        if self.file.rpartition(".")[0] != other.file.rpartition(".")[0]:
            raise InvariantBroken(f"{self} and {other} are in different logs and can't be compared")
        return (self.number, self.offset) >= (other.number, other.offset)

    @property
    def number(self) -> int:
        """The number of its file; beyond a million they have more digits, so that names don't sort."""
        return int(self.file.rpartition(".")[2])
