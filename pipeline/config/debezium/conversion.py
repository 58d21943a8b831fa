"""A conversion of a connector's properties under way: what isn't dealt with yet, and what came of the rest."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeVar

from pipeline.config.debezium.properties import Otherwise, Pointless, Verdict, Withheld
from pipeline.errors import Definite

# Kafka Connect puts another value in such a place as it starts, and it alone knows which.
_PLACEHOLDER: Final = re.compile(r"\$\{[^}]*\}")

# Properties that keep data back. Only their values say which.
_KEEPS_BACK: Final = re.compile(
    r"(?:database|table)\.include\.list|snapshot\.include\.collection\.list|column\..+|skipped\.operations",
    re.DOTALL,
)

# The one secret that's part of a property's name: column.mask.hash.SHA-256.with.salt.SALT.
_SALT: Final = re.compile(r"(?<=\.with\.salt\.).+", re.DOTALL)

TomlValue = str | bool | int | float | Sequence["TomlValue"] | Mapping[str, "TomlValue"]

_Choice = TypeVar("_Choice", bound=StrEnum)


class NoteKind(StrEnum):
    """What's told of a property."""

    WITHHELD = "keeps data back, which would be seen here"
    OTHERWISE = "can't be taken over"
    TO_DO = "to do"
    POINTLESS = "has no meaning here"


@dataclass(frozen=True, slots=True)
class Note:
    """What became of a property, where its value doesn't say it all."""

    kind: NoteKind
    name: str
    why: str

    def __str__(self) -> str:
        return f"  {self.name}: {self.why}"


class NotTakenOver(Definite):
    """The connector can't be taken over; the message lists all properties that are in the way."""


@dataclass(slots=True)
class Conversion:
    """`properties`: those that aren't dealt with yet, by their present names. `keys`: ours, by their sections.

    `kept_from_topics`: the properties that keep data from who reads the topics, as `[kafka]` does now, too.
    """

    properties: dict[str, str]
    keys: dict[str, dict[str, TomlValue]] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    kept_from_topics: list[str] = field(default_factory=list)

    def take(self, name: str) -> str | None:
        """A property that's dealt with now; None where it isn't given, or only Kafka Connect knows its value.

        One that keeps data back, and whose value isn't known, refuses the connector.
        """
        given = self.properties.pop(name, None)
        if given is not None and _PLACEHOLDER.search(given):
            kind = NoteKind.WITHHELD if _KEEPS_BACK.fullmatch(name) else NoteKind.TO_DO
            self.tell(kind, name, "its value is a placeholder that only Kafka Connect can fill in")
            return None
        return given

    def number(self, name: str) -> int | None:
        """A property that's a whole number. Raises NotTakenOver."""
        given = self.take(name)
        if given is None:
            return None
        if not given.strip().isdecimal():
            raise NotTakenOver(f"{name}: its value isn't a whole number")
        return int(given)

    def choice(self, name: str, among: type[_Choice]) -> _Choice | None:
        """A property with a value of ours; the report names any other one."""
        given = self.take(name)
        if given is None:
            return None
        for each in among:
            if each.value == given.strip().lower() or each.value == given.strip():
                return each
        self.tell(NoteKind.OTHERWISE, name, f"choose from {', '.join(each.value for each in among)}")
        return None

    def switch(self, name: str) -> bool | None:
        """A property that's true or false; the report names any other value."""
        given = self.take(name)
        if given is None:
            return None
        if given.strip().lower() not in ("true", "false"):
            self.tell(NoteKind.OTHERWISE, name, "it's neither true nor false")
            return None
        return given.strip().lower() == "true"

    def put(self, section: str, key: str, value: TomlValue) -> None:
        """Give a key of ours its value."""
        self.keys.setdefault(section, {})[key] = value

    def add(self, section: str, key: str, value: TomlValue) -> None:
        """Add a value to a list."""
        listed = self.keys.setdefault(section, {}).get(key, ())
        assert isinstance(listed, Sequence)
        self.put(section, key, [*listed, value])

    def keep_from_topics(self, name: str) -> None:
        """Note that this property, which is taken over, keeps data back."""
        self.kept_from_topics.append(without_salt(name))

    def tell(self, kind: NoteKind, name: str, why: str) -> None:
        """Note what became of a property."""
        self.notes.append(Note(kind, without_salt(name), why))

    def judge(self, name: str, found: Verdict, given: str) -> None:
        """Tell what became of a property that has no key of ours."""
        match found:
            case Pointless(why):
                self.tell(NoteKind.POINTLESS, name, why)
            case Otherwise(why, so) | Withheld(why, so) if given.strip().lower() in so:
                self.tell(NoteKind.POINTLESS, name, f"it's so: {why}")
            case Otherwise(why):
                self.tell(NoteKind.OTHERWISE, name, why)
            case Withheld(why):
                self.tell(NoteKind.WITHHELD, name, why)


def without_salt(name: str) -> str:
    """A property's name without the secret that it may have in it."""
    return _SALT.sub("…", name)


def items_of(text: str) -> list[str]:
    """The items of a list that commas separate."""
    return [item.strip() for item in text.split(",") if item.strip()]
