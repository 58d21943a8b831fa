"""Coordinates of a log: a binlog file and an offset, ordered within one server."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Coordinates:
    """A point of one server's binary log: `file` as `binlog.000042`, `offset` in bytes, the end of an event."""

    file: str
    offset: int

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"

    def reaches(self, other: "Coordinates") -> bool:
        """Whether this point of the stream is at or after the other, which the server gave during this connection.

        A server that was restarted with another name for its log begins to count again. Its stream still has to read
        the old files. So a point in a file of another name isn't reached yet.
        """
        return self.counts_with(other) and (self.number, self.offset) >= (other.number, other.offset)

    def counts_with(self, other: "Coordinates") -> bool:
        """Whether the files of both have one name but for the number, so that their numbers are one sequence."""
        return self.file.rpartition(".")[0] == other.file.rpartition(".")[0]

    @property
    def number(self) -> int:
        """The number of its file; beyond a million they have more digits, so that names don't sort."""
        return int(self.file.rpartition(".")[2])
