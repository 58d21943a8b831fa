"""What a history is made of: its steps as plain data and as text, and a rough model of the tables that it makes.

The model knows just enough to make statements that mostly pass. What the server refuses does no harm: it changes
nothing, and later statements that count on it are refused as well.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from random import Random
from typing import Final, assert_never


class Version(StrEnum):
    """The server's version."""

    NEW = "9.7"
    OLD = "5.6"


class Metadata(StrEnum):
    """binlog_row_metadata; a 5.6 knows none and is as MINIMAL."""

    FULL = "FULL"
    MINIMAL = "MINIMAL"


class Captured(StrEnum):
    """Which tables of its database a history's service captures."""

    ALL = "all"
    PLAIN = "but _"  # all whose name doesn't begin with an underscore


class Act(StrEnum):
    """What's done besides statements."""

    CAUGHT_UP = "caught up"
    SHORT = "5 ms"
    LONG = "80 ms"
    REST = "rest"
    EXECUTE = "signal execute"
    RECAPTURE = "signal recapture"
    RESTART_SERVICE = "restart service"
    KILL_SERVICE = "kill service"
    RESTART_SERVER = "restart server"
    KILL_SERVER = "kill server"
    RESET_LOG = "reset log"
    NEW_JOURNAL = "new journal"
    PURGE_LOG = "purge log"
    POWER_CUT = "power cut"
    OLDER_JOURNAL = "older journal"
    RESTORE_TABLE = "restore table"
    OTHER_PIPELINE = "other pipeline"


@dataclass(frozen=True, slots=True)
class Sql:
    """A statement in one of the history's sessions. `{db}` and `{DB}` are its database, and that in capitals."""

    text: str
    session: int = 0


Step = Sql | Act


@dataclass(frozen=True, slots=True)
class History:
    """A sequence of steps, and the world that they're done in.

    `calm`: no statement of it makes any table's rows others unlogged, so that no mirror may begin anew. `summer`: its
    sessions have the server's own time zone, which has summer time, and UTC otherwise.
    """

    version: Version
    metadata: Metadata
    captured: Captured
    steps: tuple[Step, ...]
    seed: str = ""
    calm: bool = False
    summer: bool = False

    def __str__(self) -> str:
        more = f"{' calm' if self.calm else ''}{' summer' if self.summer else ''}"
        head = f"# {self.version} {self.metadata} {self.captured}{more}"
        return "\n".join([f"{head} | {self.seed}", *map(written, self.steps), ""])


def written(step: Step) -> str:
    """A step as a line of text."""
    match step:
        case Sql(text, session):
            return f"{session}> " + text.replace("\n", "⏎")
        case Act():
            return f"~ {step}"
        case _:
            assert_never(step)


_HEAD: Final = re.compile(r"# (9\.7|5\.6) (FULL|MINIMAL) (all|but _)( calm)?( summer)?(?: \| (.*))?")
_SQL: Final = re.compile(r"(\d)> (.*)")


def parsed(text: str) -> History:
    """The history that was written so; lines that begin with two dashes are remarks."""
    head, *lines = [line for line in text.splitlines() if line.strip() and not line.startswith("--")]
    told = _HEAD.fullmatch(head)
    assert told, head
    steps: list[Step] = []
    for line in lines:
        if sql := _SQL.fullmatch(line):
            steps.append(Sql(sql[2].replace("⏎", "\n"), int(sql[1])))
        else:
            steps.append(Act(line.removeprefix("~ ")))
    return History(
        Version(told[1]),
        Metadata(told[2]),
        Captured(told[3]),
        tuple(steps),
        told[6] or "",
        bool(told[4]),
        bool(told[5]),
    )


# The tables


class Group(StrEnum):
    """Types whose values become each other's."""

    NUMBER = "number"
    TEXT = "text"
    DAY = "day"
    BYTES = "bytes"
    LABEL = "label"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Kind:
    """A type by its text, and literals of it. `old`: whether MySQL 5.6 has it; `key`: whether a key may be of it."""

    text: str
    group: Group
    values: tuple[str, ...]
    key: bool = True
    old: bool = True


_SMALL: Final = tuple(map(str, range(1, 13)))
_WORDS: Final = ("'a'", "'A'", "'b '", "''", "'admin'", "'ADMIN'", "'x\\\\y'", "'ß'", "'7'")
_PADDED: Final = ("CONCAT('a', REPEAT(' ', 300))", "REPEAT('xy', 40)", "'b'")
_DAYS: Final = (
    "'2024-02-29'", "'1000-01-01'", "'9999-12-31'", "'0000-00-00'", "'2020-00-00'", "'2020-01-00'", "'0000-03-01'",
)  # fmt: skip
_TIMES: Final = ("'2024-02-29 10:00:00'", "'2021-06-01 23:59:59.999999'", "'2030-12-31 00:00:01'")

KINDS: Final = (
    Kind("INT", Group.NUMBER, _SMALL),
    Kind("INT", Group.NUMBER, _SMALL),
    Kind("BIGINT", Group.NUMBER, (*_SMALL, "-5", "9223372036854775807")),
    Kind("BIGINT UNSIGNED", Group.NUMBER, (*_SMALL, "18446744073709551615")),
    Kind("SMALLINT", Group.NUMBER, _SMALL),
    Kind("TINYINT UNSIGNED", Group.NUMBER, _SMALL),
    Kind("DECIMAL(10,2)", Group.NUMBER, ("1.25", "0", "-3.5", "7")),
    Kind("DECIMAL(50,5)", Group.NUMBER, ("1.25", "0", "-3.5", "7")),
    Kind("FLOAT", Group.NUMBER, ("0.1", "1.23456", "0", "-2.5"), key=False),
    Kind("DOUBLE", Group.NUMBER, ("0.1", "1.23456", "0", "-2.5")),
    Kind("FLOAT(7,3)", Group.NUMBER, ("0.1", "1.2345"), key=False),
    Kind("VARCHAR(20)", Group.TEXT, _WORDS),
    Kind("VARCHAR(20)", Group.TEXT, _WORDS),
    Kind("VARCHAR(400)", Group.TEXT, (*_WORDS, *_PADDED), key=False),
    Kind("VARCHAR(10) COLLATE utf8mb4_bin", Group.TEXT, _WORDS),
    Kind("CHAR(5)", Group.TEXT, _WORDS),
    Kind("VARCHAR(8) CHARACTER SET latin1", Group.TEXT, _WORDS),
    Kind("VARCHAR(8) CHARACTER SET utf16", Group.TEXT, _WORDS),
    Kind("VARCHAR(8) CHARACTER SET sjis", Group.TEXT, ("x'5C'", "x'815F'", "'a'", "'A'", "'表'")),
    Kind("TEXT", Group.TEXT, (*_WORDS, *_PADDED), key=False),
    Kind("DATE", Group.DAY, _DAYS),
    Kind("DATETIME", Group.DAY, (*_TIMES, *_DAYS)),
    Kind("DATETIME(6)", Group.DAY, _TIMES),
    Kind("TIMESTAMP NULL", Group.DAY, _TIMES),
    Kind("TIME(2)", Group.OTHER, ("'10:11:12.34'", "'-838:59:59'", "0")),
    Kind("YEAR", Group.OTHER, ("0", "2024", "1901")),
    Kind("BIT(1)", Group.BYTES, ("0", "1")),
    Kind("BIT(10)", Group.BYTES, ("0", "5", "1023")),
    Kind("VARBINARY(9)", Group.BYTES, ("x'00ff'", "''", "'a'")),
    Kind("BINARY(4)", Group.BYTES, ("x'00ff'", "'a'")),
    Kind("BLOB", Group.BYTES, ("x'fffe'", "''", "REPEAT('b', 300)"), key=False),
    Kind("ENUM('a','b','x,y')", Group.LABEL, ("'a'", "'b'", "2")),
    Kind("ENUM('😀','b')", Group.LABEL, ("1", "'b'")),
    Kind("ENUM('b','a') CHARACTER SET latin1", Group.LABEL, ("'a'", "'b'")),
    Kind("SET('p','q','ß')", Group.LABEL, ("'p'", "''", "'p,ß'", "5")),
    Kind("JSON", Group.OTHER, ("'[1, 1.0]'", '\'{"a": "ß"}\'', "'{}'"), key=False, old=False),
    Kind("POINT", Group.OTHER, ("POINT(1, 2)",), key=False),
)

# What a column of a group may become besides what's above.
OTHERS: Final = {
    Group.NUMBER: ("FLOAT8(10,2)", "FLOAT4(6,1)", "DOUBLE(9,1)", "VARCHAR(30)", "MEDIUMINT", "REAL"),
    Group.TEXT: ("TINYTEXT", "MEDIUMTEXT", "VARCHAR(9)", "VARCHAR(30)", "VARCHAR(12) COLLATE utf8mb4_bin"),
    Group.DAY: ("VARCHAR(40)", "DATETIME(3)", "TIMESTAMP(6) NULL"),
    Group.BYTES: ("VARBINARY(30)", "MEDIUMBLOB"),
    Group.LABEL: ("ENUM('a','b','x,y','new')", "SET('p','q','ß','new')", "VARCHAR(20)", "ENUM('b','a')"),
    Group.OTHER: ("VARCHAR(80)",),
}
# Of a type those that hold all of its values as they are.
WIDER: Final = {
    "SMALLINT": "INT",
    "INT": "BIGINT",
    "TINYINT UNSIGNED": "SMALLINT UNSIGNED",
    "VARCHAR(20)": "VARCHAR(40)",
    "VARCHAR(9)": "VARCHAR(30)",
    "VARBINARY(9)": "VARBINARY(30)",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column. `made`: how it's generated, if it is."""

    name: str
    kind: Kind
    nullable: bool = True
    made: str = ""

    @property
    def definition(self) -> str:
        """Its definition, with its name."""
        text = f"{quoted(self.name)} {self.kind.text}{self.made}"
        return text if self.nullable or self.made else f"{text.removesuffix(' NULL')} NOT NULL"


@dataclass(frozen=True, slots=True)
class Table:
    """A table as the history believes it to be."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    engine: str = ""
    database: str = ""
    partitioned: bool = False
    extra: tuple[str, ...] = ()

    @property
    def quoted(self) -> str:
        """Its name in a statement."""
        return (f"`{self.database}`." if self.database else "") + quoted(self.name)

    @property
    def given(self) -> list[Column]:
        """The columns that a row gives values for."""
        return [column for column in self.columns if not column.made]

    def called(self, name: str) -> "Table":
        """The same table by another name."""
        return replace(self, name=name)

    def creation(self, absent: str = "") -> str:
        """The statement that makes it."""
        parts = [column.definition for column in self.columns]
        parts += [f"PRIMARY KEY ({', '.join(map(quoted, self.key))})"] if self.key else []
        return f"CREATE TABLE {absent}{self.quoted} ({', '.join([*parts, *self.extra])}){self.engine}"


@dataclass(slots=True)
class World:
    """What a generator knows: the tables by their names, and which session has which XA transaction prepared.

    `summer`: as of the history. `instants`: whether tables may have a TIMESTAMP.
    """

    some: Random
    version: Version
    hostile: bool
    summer: bool = False
    instants: bool = True
    tables: dict[str, Table] = field(default_factory=dict)
    prepared: list[str] = field(default_factory=list)
    numbers: int = 0

    @property
    def old(self) -> bool:
        """Whether the server is an old one."""
        return self.version is Version.OLD

    def number(self) -> int:
        """A new number."""
        self.numbers += 1
        return self.numbers


def quoted(name: str) -> str:
    """A name as it's written in a statement."""
    return "`" + name.replace("`", "``") + "`"


def row(some: Random, columns: Sequence[Column]) -> str:
    """A row of literals."""
    return f"({', '.join(value(some, column) for column in columns)})"


def value(some: Random, column: Column) -> str:
    """A literal for a column."""
    if not column.kind.values or (column.nullable and some.random() < 0.15):
        return "NULL"
    return some.choice(column.kind.values)
