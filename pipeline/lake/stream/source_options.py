"""The options of Spark's data source `tidemark`, and what each of them may be."""

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

from pipeline.config.settings import NAME, NAME_WORDS
from pipeline.config.validation import Mistake
from pipeline.errors import Definite
from pipeline.gtid.gtid_set import GtidSet, MalformedGtid
from pipeline.journal.consumer_names import SERVICE_CONSUMERS
from pipeline.schema.table_names import MalformedTableName, not_captured, parse_table, parse_tables
from pipeline.schema.table_schema import TableId

# How many bytes of the journal's files a micro-batch has, unless an option says it.
BYTES_PER_TRIGGER: Final = 1 << 30

_OPTIONS: Final = (
    "journal",
    "table",
    "tables",
    "from",
    "through",
    "schemaSegment",
    "restartedThrough",
    "maxRowsPerTrigger",
    "maxBytesPerTrigger",
    "consumer",
)
_SIZES: Final = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_SIZE: Final = re.compile(r"([0-9]+)([kmgt]?)b?", re.IGNORECASE)

_Value = TypeVar("_Value")


class WrongOption(Definite):
    """Options of the data source, or the schema that it was given, are wrong; the text has a line for each mistake."""

    def __init__(self, *mistakes: Mistake) -> None:
        super().__init__("\n".join(map(str, mistakes)))


class StreamBegin(StrEnum):
    """Where a stream may begin without naming a place: with the journal, or with what comes next."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What to read.

    `several`: the rows of all `tables` come as one stream of structs. `begins`: an SCN, which is read too, or a GTID
    set, whose transactions aren't. `through`: an SCN, or a GTID set outside of which nothing is read. `columns_at`: the
    segment whose end has the columns to read with, None for the last one. `restarted_through`: the stream continues
    where tables begin again, through this segment. `rows` and `bytes`: the most in a micro-batch. `consumer`: the name
    under which the journal keeps segments for the stream.
    """

    journal: str
    tables: tuple[TableId, ...]
    several: bool = False
    begins: int | GtidSet | StreamBegin = StreamBegin.EARLIEST
    through: int | GtidSet | None = None
    columns_at: int | None = None
    restarted_through: int = 0
    rows: int | None = None
    bytes: int | None = BYTES_PER_TRIGGER
    consumer: str | None = None


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    """Returns what the options say, whose names are in any case. Raises WrongOption with all mistakes."""
    reading = _Reading({key.lower(): value for key, value in given.items()})
    reading.check_names(given)
    options = SourceOptions(
        journal=reading.read("journal", _text) or "",
        tables=reading.tables(),
        several=reading.has("tables"),
        begins=reading.read("from", _begin) or StreamBegin.EARLIEST,
        through=reading.read("through", _place),
        columns_at=reading.read("schemaSegment", _number),
        restarted_through=reading.read("restartedThrough", _number) or 0,
        rows=reading.read("maxRowsPerTrigger", _number),
        bytes=reading.bytes(),
        consumer=reading.read("consumer", _consumer),
    )
    if reading.mistakes:
        raise WrongOption(*reading.mistakes)
    return options


def check_read_once(options: SourceOptions) -> None:
    """Raises WrongOption if an option is for streams only.

    A consumer is: after a read, Spark never says that its rows have arrived.
    """
    if options.consumer is not None:
        raise WrongOption(
            Mistake(
                "consumer",
                "spark.read has no progress, so the journal would keep all segments from here on",
                "use spark.readStream, or leave the option out",
            )
        )


def unknown_tables(wanted: Iterable[TableId], known: Collection[TableId], shown: str) -> WrongOption | None:
    """Returns the error for tables that a journal has no columns of; None if it has them all."""
    mistakes = [
        Mistake("table", f"{table} is no captured table of the journal in {shown}", hint)
        for table, hint in not_captured(wanted, known)
    ]
    return WrongOption(*mistakes) if mistakes else None


class _Reading:
    def __init__(self, given: Mapping[str, str]) -> None:
        self.mistakes: list[Mistake] = []
        self._given = given

    def has(self, key: str) -> bool:
        return key.lower() in self._given

    def check_names(self, given: Mapping[str, str]) -> None:
        known = {option.lower(): option for option in _OPTIONS}
        for name in sorted(given):
            if name.lower() == "path":
                self._wrong(name, "load() was given a path", 'call .option("journal", …).load() instead')
            elif name.lower() not in known:
                close = difflib.get_close_matches(name.lower(), known, 1)
                told = f"did you mean {known[close[0]]}?" if close else f"there are {', '.join(_OPTIONS)}"
                self._wrong(name, "there is no such option", told)
        if not self.has("journal"):
            self._wrong("journal", "it is missing", "give the path or the URI that [journal] has")

    def read(self, key: str, parse: Callable[[str], _Value]) -> _Value | None:
        text = self._given.get(key.lower())
        if text is None:
            return None
        try:
            return parse(text.strip())
        except _NotThis as error:
            self._wrong(key, error.wrong, error.remedy)
            return None

    def tables(self) -> tuple[TableId, ...]:
        if self.has("table") == self.has("tables"):
            wrong = "both are given" if self.has("table") else "both are missing"
            self._wrong(
                "table, tables", wrong, "give table = shop.orders, or tables = shop.orders, shop.items"
            )
            return ()
        found = self.read("table", _table) or self.read("tables", _tables) or ()
        if len(set(found)) < len(found):
            self._wrong("tables", "a table is named twice", "name each once")
        return found

    def bytes(self) -> int | None:
        if self.has("maxRowsPerTrigger") and self.has("maxBytesPerTrigger"):
            self._wrong("maxBytesPerTrigger", "maxRowsPerTrigger is given too", "give one of them")
        if self.has("maxBytesPerTrigger"):
            return self.read("maxBytesPerTrigger", _size)
        return None if self.has("maxRowsPerTrigger") else BYTES_PER_TRIGGER

    def _wrong(self, key: str, wrong: str, remedy: str) -> None:
        self.mistakes.append(Mistake(key, wrong, remedy))


class _NotThis(Exception):
    def __init__(self, wrong: str, remedy: str) -> None:
        super().__init__(wrong)
        self.wrong = wrong
        self.remedy = remedy


def _text(text: str) -> str:
    if not text:
        raise _NotThis("it is empty", "give the path or the URI that [journal] has")
    return text


def _table(text: str) -> tuple[TableId, ...]:
    try:
        return (parse_table(text),)
    except MalformedTableName as error:
        several = "," in text
        raise _NotThis(*_halves(error, "give several as the option tables" if several else None)) from error


def _tables(text: str) -> tuple[TableId, ...]:
    try:
        return parse_tables(text)
    except MalformedTableName as error:
        raise _NotThis(*_halves(error, None)) from error


def _halves(error: MalformedTableName, remedy: str | None) -> tuple[str, str]:
    wrong, _, told = str(error).partition("; ")
    return wrong, remedy or told


def _begin(text: str) -> int | GtidSet | StreamBegin:
    if text.lower() in set(StreamBegin):
        return StreamBegin(text.lower())
    return _place(text, "earliest, latest, ")


def _place(text: str, besides: str = "") -> int | GtidSet:
    remedy = f"give {besides}an SCN as 12345, or a GTID set as 3e11fa47-71ca-11e1-9e33-c80aa9429562:1-23"
    if text.isascii() and text.isdecimal() and int(text) > 0:
        return int(text)
    try:
        gtids = GtidSet.parse(text)
    except MalformedGtid as error:
        raise _NotThis(f"{text!r} is no place in the journal", remedy) from error
    if not gtids:
        raise _NotThis("the GTID set is empty", remedy)
    return gtids


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise _NotThis(f"{text!r} isn't a whole number above 0", "give one, as 100000")
    return int(text)


def _size(text: str) -> int:
    match = _SIZE.fullmatch(text)
    if match is None or int(match[1]) == 0:
        raise _NotThis(f"{text!r} isn't a number of bytes above 0", "give one, as 268435456 or 256m")
    return int(match[1]) << _SIZES[match[2].lower()]


def _consumer(text: str) -> str:
    if not NAME.fullmatch(text):
        raise _NotThis(f"{text!r} can't be a consumer's name", f"use {NAME_WORDS}")
    if text in SERVICE_CONSUMERS:
        raise _NotThis(f"{text!r} is the service's own consumer", "give a name of the stream's own")
    return text
