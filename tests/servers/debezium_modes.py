"""Options of Debezium's connector, transformations and converters at random, and ours that say the same."""

from collections.abc import Collection
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from pipeline.config.column_rules import ColumnRule, HashAlgorithm, MessageKey
from pipeline.config.message_handling import (
    BinaryHandling,
    DecimalHandling,
    TimePrecision,
    UnsignedBigintHandling,
)
from pipeline.config.message_routes import TopicRoute
from pipeline.config.secret import Secret
from pipeline.config.settings import ConverterKind, HeaderConverterKind
from pipeline.config.unwrapping import DeleteHandling, Unwrap
from pipeline.schema.table_filter import TableFilter

# The names that random columns have, whatever their tables become (`altered_tables`).
_COLUMNS: Final = [f"{kind}{number}" for kind in ("c", "gc", "n", "r") for number in range(8)]
_ALWAYS: Final = ["id", "changes", "my_row_id"]
_TABLES: Final = r"shop[.]t\d\w*"


@dataclass
class Modes:
    """`options` are the connector's, and `variant` the transformations' and converters'; `form` is ours of both.

    `secret`: columns that are hashed, and `cut`: those that are cut. There a difference of values shows otherwise.
    """

    options: dict[str, str] = field(default_factory=dict)
    variant: dict[str, str] = field(default_factory=dict)
    form: dict[str, Any] = field(default_factory=dict)
    secret: frozenset[str] = frozenset()
    cut: frozenset[str] = frozenset()

    @property
    def avro(self) -> bool:
        """Whether messages are in Avro."""
        return "converter" in self.variant

    @property
    def schemas(self) -> bool:
        """Whether JSON has schemas."""
        return bool(self.form.get("schemas_enable"))

    @property
    def mixed(self) -> bool:
        """Whether a message's topic doesn't say of which table it is."""
        return "topic_routes" in self.form


def modes_of(some: Random) -> tuple[dict[str, str], dict[str, Any]]:
    """Options of Debezium's, and ours that say the same."""
    decimal = some.choice(list(DecimalHandling))
    time = some.choice(list(TimePrecision))
    unsigned = some.choice(list(UnsignedBigintHandling))
    binary = some.choice(list(BinaryHandling))
    tombstones, transactions = some.random() < 0.5, some.random() < 0.5
    skipped = some.choice(("none", "t", "none", "u"))
    options = {
        "decimal.handling.mode": decimal.value,
        "time.precision.mode": time.value,
        "bigint.unsigned.handling.mode": unsigned.value,
        "binary.handling.mode": binary.value,
        "tombstones.on.delete": str(tombstones).lower(),
        "provide.transaction.metadata": str(transactions).lower(),
        "skipped.operations": skipped,
    }
    form = {
        "decimal_handling_mode": decimal,
        "time_precision_mode": time,
        "bigint_unsigned_handling_mode": unsigned,
        "binary_handling_mode": binary,
        "tombstones_on_delete": tombstones,
        "provide_transaction_metadata": transactions,
        "skipped_operations": (skipped,),
    }
    return options, form


def all_modes_of(some: Random, no_keys: Collection[str]) -> Modes:
    """One of each kind of option. No key has the columns `no_keys`."""
    modes = Modes(*_split(modes_of(some)))
    _columns(modes, some)
    _keys(modes, some, no_keys)
    for way in (_route, _unwrap, _converter):
        way(modes, some)
    return modes


def _split(
    both: tuple[dict[str, str], dict[str, Any]],
) -> tuple[dict[str, str], dict[str, str], dict[str, Any]]:
    options, form = both
    return options, {}, form


def _columns(modes: Modes, some: Random) -> None:
    """Columns that are left out, masked, hashed or cut. No column has two of these."""
    names = some.sample(_COLUMNS, len(_COLUMNS))

    def taken(count: int) -> list[str]:
        return [names.pop() for _ in range(count)]

    left_out = taken(5)
    kept = [*_ALWAYS, *(name for name in _COLUMNS if name not in left_out)]
    match some.choice(("all", "exclude", "include")):
        case "exclude":
            modes.options["column.exclude.list"] = _pattern(left_out)
            modes.form["column_exclude_list"] = (_pattern(left_out),)
        case "include":
            modes.options["column.include.list"] = f"{_pattern(kept)},marker[.].*"
            modes.form["column_include_list"] = (_pattern(kept),)
    rules: list[ColumnRule] = []
    if some.random() < 0.5:
        length, masked = some.choice((0, 1, 12)), taken(4)
        modes.options[f"column.mask.with.{length}.chars"] = _pattern(masked)
        rules.append(ColumnRule((_pattern(masked),), mask_with_length=length))
    for version in (1, 2):
        if some.random() < 0.5:
            algorithm, hashed = some.choice(list(HashAlgorithm)), taken(4)
            named = "v2." if version == 2 else ""
            modes.options[f"column.mask.hash.{named}{algorithm}.with.salt.pepper"] = _pattern(hashed)
            salt = Secret("pepper")
            rules.append(ColumnRule((_pattern(hashed),), hash=algorithm, salt=salt, hash_version=version))
            modes.secret |= frozenset(hashed)
    if some.random() < 0.5:
        most, cut = some.choice((1, 9, 30)), taken(4)
        modes.options[f"column.truncate.to.{most}.chars"] = _pattern(cut)
        rules.append(ColumnRule((_pattern(cut),), truncate_to_length=most))
        modes.cut = frozenset(cut)
    modes.form["columns"] = tuple(rules)


def _pattern(names: list[str]) -> str:
    return rf"{_TABLES}[.]({'|'.join(names)})"


def _keys(modes: Modes, some: Random, no_keys: Collection[str]) -> None:
    """Keys of some tables' messages."""
    if some.random() < 0.5:
        return
    first = ("changes", *some.sample(("c0", "c1"), 1))
    second = some.sample(("my_row_id", "id", "c2", "n1"), 2)
    said = {
        table: tuple(name for name in names if name not in no_keys)
        for table, names in ((r"shop[.]t[01]\w*", first), (r"shop[.]t[23]\w*", second))
    }
    said = {table: names for table, names in said.items() if names}
    modes.options["message.key.columns"] = ";".join(f"{table}:{','.join(said[table])}" for table in said)
    modes.form["message_keys"] = tuple(MessageKey(TableFilter((table,)), said[table]) for table in said)


def _route(modes: Modes, some: Random) -> None:
    """Several tables in a topic. A table that is renamed away has a truncate there; so there are none."""
    if some.random() < 0.6:
        return
    regex, replacement = r"(.*)[.]t([0-5])\w*", "$1.some"
    unique = some.random() < 0.5
    modes.variant |= {
        "transforms": "route",
        "transforms.route.type": "io.debezium.transforms.ByLogicalTableRouter",
        "transforms.route.topic.regex": regex,
        "transforms.route.topic.replacement": replacement,
        "transforms.route.key.enforce.uniqueness": str(unique).lower(),
    }
    modes.form["topic_routes"] = (TopicRoute(regex, replacement, key_enforce_uniqueness=unique),)
    modes.options["skipped.operations"] = "t"
    modes.form["skipped_operations"] = ("t",)


def _unwrap(modes: Modes, some: Random) -> None:
    """Flat messages."""
    if some.random() < 0.6:
        return
    fields = ("op", "table", "source.ts_ms:at", "source.gtid", "source.pos", "source.row", "transaction.id")
    unwrap = Unwrap(
        some.choice(list(DeleteHandling)),
        add_fields=tuple(some.sample(fields, 3)),
        add_headers=tuple(some.sample(fields, 2)),
        add_fields_prefix=some.choice(("_", "__")),
    )
    before = modes.variant.get("transforms")
    modes.variant["transforms"] = "unwrap" if before is None else f"{before},unwrap"
    modes.variant |= {
        "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
        "transforms.unwrap.delete.tombstone.handling.mode": unwrap.delete_tombstone_handling_mode.value,
        "transforms.unwrap.add.fields": ",".join(unwrap.add_fields),
        "transforms.unwrap.add.headers": ",".join(unwrap.add_headers),
        "transforms.unwrap.add.fields.prefix": unwrap.add_fields_prefix,
    }
    modes.form["unwrap"] = unwrap


def _converter(modes: Modes, some: Random) -> None:
    """JSON with or without schemas, or Avro; headers of either kind."""
    match some.choice(("json", "schemas", "avro")):
        case "avro":
            modes.variant["converter"] = "avro"
            modes.options |= {"schema.name.adjustment.mode": "avro", "field.name.adjustment.mode": "avro"}
            modes.form |= {"converter": ConverterKind.AVRO, "schema_registry_url": "http://registry:1"}
        case "schemas":
            modes.options["converter.schemas.enable"] = "true"
            modes.form["schemas_enable"] = True
    if some.random() < 0.5:
        modes.variant["headers"] = "simple"
        modes.form["header_converter"] = HeaderConverterKind.SIMPLE
