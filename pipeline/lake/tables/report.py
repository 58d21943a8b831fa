"""What a version of a lake table reports about itself."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pipeline.lake.tables.columns import generation_of
from pipeline.lake.tables.properties import Property
from pipeline.lake.tables.spark_sql import literal
from pipeline.schema.table_schema import TableSchema, from_json


@dataclass(frozen=True, slots=True)
class Rebuilding:
    """A generation of a mirror that is being filled, as the mirror reports it. It is its own if it only lacks
    constants.

    `segment`: the last one that brought changes to the complete mirror that readers see meanwhile. That mirror is the
    source at the segment's end. None if the first snapshot fills the mirror itself, or if the mirror only lacks
    constants. `since`: when that began (s since the epoch).
    """

    generation: int
    segment: int | None
    since: float

    @staticmethod
    def read(text: str) -> "Rebuilding":
        """Parses what `text` returns."""
        return Rebuilding(**json.loads(text))

    @property
    def text(self) -> str:
        """Returns it as a table property."""
        return json.dumps({"generation": self.generation, "segment": self.segment, "since": self.since})


@dataclass(frozen=True, slots=True)
class Constant:
    """The column `name` has this value, as text, in all rows from before a segment."""

    name: str
    value: str
    segment: int

    def sql(self, type_: str) -> str:
        """Returns the value with this type, in Spark's SQL."""
        return f"CAST({literal(self.value)} AS {type_})"


def constants_text(constants: Iterable[Constant]) -> str:
    """Returns constants as a table property, which is empty for none."""
    return json.dumps([[each.name, each.value, each.segment] for each in constants]) if constants else ""


def without_constants(schema: TableSchema, constants: Iterable[Constant]) -> TableSchema:
    """Returns the schema without these columns. None of these is in its key."""
    names = {each.name for each in constants}
    left = [i for i, column in enumerate(schema.columns) if column.name not in names]
    return TableSchema(
        schema.table, tuple(schema.columns[i] for i in left), tuple(left.index(i) for i in schema.key)
    )


@dataclass(frozen=True, slots=True)
class TableReport:
    """What a version of a lake table reports: its properties, and how far each application has committed."""

    properties: Mapping[str, str]
    applications: Mapping[str, int]

    @property
    def schema(self) -> TableSchema | None:
        """Returns the source's schema that its rows have, None if it has none yet."""
        whole = self.whole_schema
        return whole and without_constants(whole, self.constants)

    @property
    def whole_schema(self) -> TableSchema | None:
        """Returns the source's schema that it has, with the columns that its rows lack."""
        text = self.properties.get(Property.SCHEMA)
        return None if text is None else from_json(json.loads(text))

    @property
    def constants(self) -> tuple[Constant, ...]:
        """Returns the columns of the source that its rows lack."""
        text = self.properties.get(Property.CONSTANTS)
        return tuple(Constant(*each) for each in json.loads(text)) if text else ()

    @property
    def widened(self) -> bool:
        """Returns whether a column got a wider type: only a reader with Delta's type widening takes the table then."""
        return self.properties.get("delta.enableTypeWidening") == "true"

    @property
    def since(self) -> int:
        """Returns the segment that this schema came with."""
        return int(self.properties.get(Property.SINCE, 0))

    @property
    def pin(self) -> str | None:
        """Returns the column that texts of the live view are bound to, None if it has none."""
        return self.properties.get(Property.PIN)

    @property
    def rebuilding(self) -> Rebuilding | None:
        """Returns the generation that is being filled, None if the mirror is complete."""
        text = self.properties.get(Property.REBUILDING)
        return Rebuilding.read(text) if text else None

    @property
    def filling_since(self) -> float | None:
        """Since when (s since the epoch) a mirror's newest generation is being filled, None if it is complete.

        A mirror of an old version has no such property, and may be either: 0.
        """
        if self.rebuilding is not None:
            return self.rebuilding.since
        return None if self.pin is not None else 0.0

    @property
    def stopped(self) -> str | None:
        """Returns why it gets nothing more, in the lake or from capture; None or empty if it isn't stopped."""
        in_lake, in_capture = (self.properties.get(p) for p in (Property.STOPPED, Property.CAPTURE_STOPPED))
        return in_lake or in_capture

    @property
    def first(self) -> bool:
        """Returns whether its first snapshot is filling this mirror, so that it has never been complete."""
        return self.pin is None and self.rebuilding is not None

    @property
    def frozen(self) -> bool:
        """Returns whether it is a complete mirror that stays as it is, while a later generation is filled beside it."""
        filled = self.rebuilding
        return self.pin is not None and filled is not None and filled.generation != self.generation

    def outlived(self, changelog: "TableReport | None") -> bool:
        """Returns whether this mirror is older than its changelog, which lacks changes then: somebody has removed the
        one before. Each generation of a mirror gives the changelog a pin first.
        """
        return self.pin is not None and (changelog is None or changelog.pin is None)

    @property
    def generation(self) -> int:
        """Returns a mirror's generation. A complete mirror has it in its pin."""
        return self.mark("generation") if self.pin is None else generation_of(self.pin)

    @property
    def merged(self) -> int:
        """Returns the segment through which a mirror has merged all changes."""
        return max(self.mark("merged"), self._swapped)

    @property
    def rows(self) -> int:
        """Returns the segment through which a mirror has all rows of snapshots. A swap brings them."""
        return max(self.mark("rows"), self._swapped)

    @property
    def _swapped(self) -> int:
        return int(self.properties.get(Property.MERGED, 0))

    @property
    def after(self) -> int:
        """Returns the segment through which all tables had everything when this one was last delivered."""
        return max(self.mark("after"), int(self.properties.get(Property.AFTER, 0)))

    @property
    def altering(self) -> bool:
        """Returns whether its columns are between two schemas."""
        return bool(self.properties.get(Property.ALTERING))

    def mark(self, name: str) -> int:
        """Returns how far one of the marks of the journal that feeds it has come (`actors.lake.lake`)."""
        return self.applications.get(self.application(name), 0)

    def application(self, name: str) -> str:
        """Returns the application whose version is one of the marks of the journal that feeds it."""
        return f"{self.properties.get(Property.JOURNAL)}/{name}"
