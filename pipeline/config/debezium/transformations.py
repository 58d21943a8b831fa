"""The transformations that have a section of ours: Debezium's flat form, outbox and router, and Kafka's RegexRouter.

All others are judged by their class (`pipeline.config.debezium.properties`).

Source: Debezium 3.6's documentation, "New Record State Extraction", "Outbox Event Router", "Topic Routing"; Kafka 4.3's
documentation, "Kafka Connect", "Transformations".
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from pipeline.config.debezium.conversion import Conversion, NoteKind, TomlValue, items_of
from pipeline.config.debezium.tables import javas_class
from pipeline.config.message_routes import mistake_in_rewriting
from pipeline.config.outbox import Missing
from pipeline.config.unwrapping import DeleteHandling
from pipeline.schema.table_filter import mistake_in

_UNWRAP: Final = "io.debezium.transforms.ExtractNewRecordState"
_OUTBOX: Final = "io.debezium.transforms.outbox.EventRouter"
_ROUTER: Final = "io.debezium.transforms.ByLogicalTableRouter"
_REGEX_ROUTER: Final = "org.apache.kafka.connect.transforms.RegexRouter"
_TOPIC_MATCHES: Final = "org.apache.kafka.connect.transforms.predicates.TopicNameMatches"

_UNWRAP_LISTS: Final = {"add.fields": "add_fields", "add.headers": "add_headers"}
_UNWRAP_TEXTS: Final = {
    "add.fields.prefix": "add_fields_prefix",
    "add.headers.prefix": "add_headers_prefix",
    "route.by.field": "route_by_field",
}
# Debezium's options before 2.5, by what they say together: what becomes of a delete, and whether tombstones go.
_OLD_DELETES: Final = {
    ("drop", "true"): DeleteHandling.DROP,
    ("drop", "false"): DeleteHandling.TOMBSTONE,
    ("rewrite", "true"): DeleteHandling.REWRITE,
    ("rewrite", "false"): DeleteHandling.REWRITE_WITH_TOMBSTONE,
}
_OUTBOX_TEXTS: Final = {
    "table.field.event.id": "table_field_event_id",
    "table.field.event.key": "table_field_event_key",
    "table.field.event.payload": "table_field_event_payload",
    "table.field.event.timestamp": "table_field_event_timestamp",
    "table.field.event.schema.version": "table_field_event_schema_version",
    "table.field.additional.missing": "table_field_additional_missing",
    "table.json.payload.null.behavior": "table_json_payload_null_behavior",
    "table.op.invalid.behavior": "table_op_invalid_behavior",
    "route.by.field": "route_by_field",
    "route.topic.regex": "route_topic_regex",
    "route.topic.replacement": "route_topic_replacement",
}
# Debezium's option before `table.field.additional.missing`.
_OLD_MISSING: Final = "table.fields.additional.error.on.missing"
_OUTBOX_SWITCHES: Final = {
    "table.expand.json.payload": "table_expand_json_payload",
    "route.tombstone.on.empty.payload": "route_tombstone_on_empty_payload",
}
_OUTBOX_POINTLESS: Final = ("table.field.event.type", "tracing.span.context.field", "tracing.operation.name",
                            "tracing.with.context.field.only")  # fmt: skip

# What stands for the dot between two names: itself, or what stands for any character.
_DOT: Final = r"(?:\\\.|\[\.\]|\.)(?![*+?{])"
# A character of an expression, what a backslash makes of one, or a class of characters.
_TOKEN: Final = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|.", re.DOTALL)

Options = dict[str, str]


def transformations(work: Conversion) -> None:
    """Take over those of the list `transforms` that have a section of ours, in their order."""
    known: Mapping[str, Callable[[Conversion, str, Options], None]] = {
        _UNWRAP: _unwrap,
        _OUTBOX: _outbox,
        _ROUTER: _route,
        _REGEX_ROUTER: _route,
    }
    left = []
    for label in items_of(work.properties.get("transforms", "")):
        prefix = f"transforms.{label}."
        if (take := known.get(work.properties.get(f"{prefix}type", ""))) is None:
            left.append(label)
            continue
        names = [name for name in work.properties if name.startswith(prefix)]
        own = {name.removeprefix(prefix): work.properties.pop(name) for name in names}
        take(work, prefix, own)
        del own["type"]
        for name in own:
            work.tell(NoteKind.OTHERWISE, prefix + name, "there is no option for it")
    if "transforms" in work.properties:
        work.properties["transforms"] = ",".join(left)


def _unwrap(work: Conversion, prefix: str, own: Options) -> None:
    section = "kafka.unwrap"
    work.keys.setdefault(section, {})
    _condition(work, prefix, own)
    old = (own.pop("delete.handling.mode", None), own.pop("drop.tombstones", None))
    if (mode := own.pop("delete.tombstone.handling.mode", None)) is None and any(old):
        mode = _OLD_DELETES.get((old[0] or "drop", old[1] or "true"))
    if mode in list(DeleteHandling):
        work.put(section, "delete_tombstone_handling_mode", DeleteHandling(mode).value)
    elif mode is not None or any(old):
        why = f"choose from {', '.join(DeleteHandling)}"
        work.tell(NoteKind.OTHERWISE, f"{prefix}delete.tombstone.handling.mode", why)
    for name, key in _UNWRAP_LISTS.items():
        if given := items_of(own.pop(name, "")):
            work.put(section, key, given)
    for name, key in _UNWRAP_TEXTS.items():
        if (text := own.pop(name, None)) is not None:
            work.put(section, key, text)


def _route(work: Conversion, prefix: str, own: Options) -> None:
    renames = own["type"] == _ROUTER
    regex = own.pop("topic.regex" if renames else "regex", "")
    replacement = own.pop("topic.replacement" if renames else "replacement", "")
    if wrong := javas_class([regex]) or mistake_in_rewriting(regex, replacement):
        work.tell(NoteKind.OTHERWISE, f"{prefix}type", wrong)
        return
    _tell_javas_class(work, prefix, own, "key.field.regex")
    found: dict[str, TomlValue] = {"topic_regex": regex, "topic_replacement": replacement}
    if not renames:
        found["key_enforce_uniqueness"] = False
        if work.keys.get("kafka", {}).get("schemas_enable"):
            why = "the schemas are named for the new topic, as ByLogicalTableRouter names them"
            work.tell(NoteKind.OTHERWISE, f"{prefix}type", why)
    for name, key in (("key.field.name", "key_field_name"), ("key.field.regex", "key_field_regex"),
                      ("key.field.replacement", "key_field_replacement")):  # fmt: skip
        if name in own:
            found[key] = own.pop(name)
    if own.pop("key.enforce.uniqueness", "true").strip().lower() == "false":
        found["key_enforce_uniqueness"] = False
    own.pop("logical.table.cache.size", None)
    _condition(work, prefix, own)
    if work.keys.get("kafka", {}).get("topic_routes"):
        why = "a message takes the first route that matches; with Debezium it takes all, one after the other"
        work.tell(NoteKind.OTHERWISE, f"{prefix}type", why)
    if "kafka.unwrap" in work.keys:
        work.tell(NoteKind.OTHERWISE, f"{prefix}type", "messages are routed before they are made flat")
    work.add("kafka", "topic_routes", found)


def _tell_javas_class(work: Conversion, prefix: str, own: Options, name: str) -> None:
    """Leaves out an expression that Python would read otherwise than Java, and tells of it."""
    if wrong := javas_class([own.get(name, "")]):
        del own[name]
        work.tell(NoteKind.OTHERWISE, prefix + name, wrong)


def _outbox(work: Conversion, prefix: str, own: Options) -> None:
    found: dict[str, TomlValue] = {"tables": _outbox_tables(work, prefix, own)}
    _tell_javas_class(work, prefix, own, "route.topic.regex")
    for name, key in _OUTBOX_TEXTS.items():
        if name in own:
            given = own.pop(name)
            found[key] = given.strip().lower() if name.endswith((".missing", ".behavior")) else given
    for name, key in _OUTBOX_SWITCHES.items():
        if name in own:
            found[key] = own.pop(name).strip().lower() == "true"
    if (old := own.pop(_OLD_MISSING, None)) is not None:
        missing = Missing.ERROR if old.strip().lower() == "true" else Missing.IGNORE
        found.setdefault("table_field_additional_missing", missing.value)
    if placed := items_of(own.pop("table.fields.additional.placement", "")):
        found["table_fields_additional_placement"] = placed
    for name in _OUTBOX_POINTLESS:
        if name in own:
            own.pop(name)
            work.tell(NoteKind.POINTLESS, prefix + name, "nothing is traced, and no type is looked for")
    if found.get("table_expand_json_payload") and work.keys.get("kafka", {}).get("schemas_enable"):
        why = "an expanded payload has no schema here: set kafka.schemas_enable = false, or remove this"
        work.tell(NoteKind.OTHERWISE, f"{prefix}table.expand.json.payload", why)
    work.add("kafka", "outboxes", found)


def _outbox_tables(work: Conversion, prefix: str, own: Options) -> list[str]:
    """The tables whose topics the predicate means; all, if there is none."""
    predicate = own.pop("predicate", None)
    negated = own.pop("negate", "false").strip().lower() == "true"
    captured = work.keys.get("", {}).get("tables", [".*"])
    assert isinstance(captured, list | tuple)
    every = [str(pattern) for pattern in captured]
    if predicate is None:
        return every
    kind = work.properties.get(f"predicates.{predicate}.type")
    pattern = work.properties.get(f"predicates.{predicate}.pattern", "")
    kafka = work.keys.get("kafka", {})
    meant = _tables_of_topics(pattern, str(kafka.get("topic_prefix", "")))
    if kind == _TOPIC_MATCHES and kafka.get("topic_delimiter", ".") == "." and not negated and meant:
        return meant
    why = "it isn't known which tables it means: name the outboxes in `tables` of [[kafka.outboxes]]"
    work.tell(NoteKind.TO_DO, f"{prefix}predicate", why)
    return every


def _tables_of_topics(pattern: str, prefix: str) -> list[str]:
    """Returns expressions for the tables whose topics an expression matches; none if it isn't certain which these are.

    A topic is the prefix, a dot, the database, a dot and the table.
    """
    found: list[str] = []
    for topics in _alternatives(pattern):
        if not (tables := _of_alternative(topics, prefix)):
            return []
        found += tables
    return [] if mistake_in(found) or javas_class(found) else found


def _of_alternative(topics: str, prefix: str) -> list[str]:
    """Returns the same for an expression without alternatives, or with some in its groups alone."""
    if (named := re.match(rf"{re.escape(prefix)}{_DOT}", topics)) is not None:
        return [topics[named.end() :]]
    if not topics.startswith(".*") or topics[2:3] in ("?", "+"):
        return []
    rest = topics[2:]
    # What `.*` leaves must not reach into the prefix, or no expression for tables means the same.
    if (dot := re.match(_DOT, rest)) is not None:
        of_table = rest[dot.end() :]
        dots = len(re.findall(_DOT, of_table))
        return [topics] if not dots else [of_table, topics] if dots == 1 else []
    reaches = (begin := re.match(r"[\w-]+", rest)) is not None and begin[0] in prefix
    return [] if reaches or len(re.findall(_DOT, rest)) > 1 else [topics]


def _alternatives(pattern: str) -> list[str]:
    """Returns what `|` separates in an expression, outside of its groups and classes of characters."""
    depth, begin, found = 0, 0, []
    for token in _TOKEN.finditer(pattern):
        depth += {"(": 1, ")": -1}.get(token[0], 0)
        if token[0] == "|" and not depth:
            found.append(pattern[begin : token.start()])
            begin = token.end()
    return [*found, pattern[begin:]]


def _condition(work: Conversion, prefix: str, own: Options) -> None:
    """Tell that a transformation has a condition here that it doesn't have with us."""
    own.pop("negate", None)
    if own.pop("predicate", None) is not None:
        work.tell(NoteKind.OTHERWISE, f"{prefix}predicate", "it applies to the messages of all tables")
