"""The JSON of the service's answers, as JSON Schema (2020-12, as OpenAPI 3.1 has it).

The schemas are complete: no object has fields beyond the described ones, except each actor's own report in `/status`,
which is for people.
"""

from typing import Any, Final

from pipeline.journal.applied.progress import Through
from pipeline.lake.verification.runs import FindingKind, LakeVerdict
from pipeline.messages.topology import ActorName
from pipeline.signals.outcomes import Outcome
from pipeline.signals.signal import SIGNAL_TYPES

JsonSchema = dict[str, Any]


def _object(**properties: JsonSchema) -> JsonSchema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _all_of(name: str) -> JsonSchema:
    return {"$ref": f"#/components/schemas/{name}"}


def _list(items: JsonSchema) -> JsonSchema:
    return {"type": "array", "items": items}


def _map(values: JsonSchema) -> JsonSchema:
    return {"type": "object", "additionalProperties": values}


def _or_null(schema: JsonSchema) -> JsonSchema:
    kind = schema.get("type")
    return (
        {**schema, "type": [kind, "null"]} if isinstance(kind, str) else {"oneOf": [schema, {"type": "null"}]}
    )


def _described(schema: JsonSchema, text: str) -> JsonSchema:
    return {**schema, "description": text}


JSON_STRING: Final[JsonSchema] = {"type": "string"}
BOOL: Final[JsonSchema] = {"type": "boolean"}
COUNT: Final[JsonSchema] = {"type": "integer", "minimum": 0}
NUMBER: Final[JsonSchema] = {"type": "number"}
ANY: Final[JsonSchema] = {"type": "object"}

_POSITION = _described(JSON_STRING, "A GTID set: the transactions that have wholly passed.")
_DATABUS_SCN = _described(
    COUNT, "The SCN as Databus' paths have it: with the journal's generation in its high bits."
)
_SECONDS = _described(NUMBER, "Seconds.")
_MS = _described(COUNT, "Milliseconds since the epoch.")
_SOURCE = _described(_or_null(JSON_STRING), "The server whose log is read: host:port.")
_LOG = _described(_or_null(JSON_STRING), "File and offset in the source's binlog.")

# What's counted alike of a snapshot and of a table of one.
_COUNTS: Final[dict[str, JsonSchema]] = {
    "rows": _described(COUNT, "Rows emitted."),
    "given_up": _described(COUNT, "Rows that a change superseded."),
    "expected": _described(COUNT, "Rows by the server's own estimate."),
    "ranges": COUNT,
    "ranges_done": COUNT,
    "windows": _described(COUNT, "Windows that are open."),
    "rows_per_second": _or_null(NUMBER),
    "left_seconds": _described(_or_null(NUMBER), "An estimate."),
}
_TABLE_STATE: Final[JsonSchema] = {
    "type": "string",
    "enum": ["waiting", "chunking", "repairing", "completed", "stopped", "failed"],
}

_SNAPSHOT_TABLE = _object(
    database=JSON_STRING, table=JSON_STRING, state=_TABLE_STATE, chunks=COUNT, **_COUNTS
)
# What a table has only in some states, or only of a verification.
_SNAPSHOT_TABLE["properties"] |= {
    "walk_version": JSON_STRING,
    "first": BOOL,
    "reason": JSON_STRING,
    "batches": _described(COUNT, "Of a repair, those that have passed."),
    "reread": _described(COUNT, "Rows that a repair compares."),
    "result": _or_null(_all_of("VerificationResult")),
}
_VERIFICATION = _object(
    since=_described(COUNT, "The SCN that it began after."),
    narrowed=_described(_list(_list(JSON_STRING)), "The tables of which it reads only some rows."),
)
_VERIFICATION["properties"] |= {"repairs": BOOL}
_SNAPSHOT = _object(
    id=JSON_STRING,
    state={"type": "string", "enum": ["waiting", "running", "paused", "completed", "stopped", "failed"]},
    blocking=BOOL,
    consistent=BOOL,
    priority={"type": "integer"},
    verification=_described(_or_null(_VERIFICATION), "Null of a snapshot."),
    **_COUNTS,
    tables=_list(_SNAPSHOT_TABLE),
)
_SNAPSHOT["properties"] |= {"end_number": _described(COUNT, "Rises from one end of a snapshot to the next.")}
_JUDGED: Final[dict[str, JsonSchema]] = {
    "verdict": _described(
        {"type": "string", "enum": [verdict.value for verdict in LakeVerdict]},
        "Whether the lake has the rows of the source; `unjudged` if not all could be judged, and `reason` says why.",
    ),
    "rows": _described(COUNT, "Rows read and compared."),
    "found": _described(
        {
            "type": "object",
            "properties": {kind.value: COUNT for kind in FindingKind},
            "additionalProperties": False,
        },
        "Rows that differ, by how they do; a kind of which there is none is left out.",
    ),
    "position": _described(JSON_STRING, "The GTID set at which it holds."),
    "reason": _described(JSON_STRING, "Why not all could be judged, or empty."),
    "at": _described(NUMBER, "When it was judged, in seconds since the epoch."),
}

_WINDOW: Final[dict[str, JsonSchema]] = {
    "snapshot": JSON_STRING,
    "table": JSON_STRING,
    "range": {"type": "integer"},
    "state": {"type": "string", "enum": ["reading", "reconciling"]},
    "rows": COUNT,
}
_LIFE: Final[dict[str, JsonSchema]] = {
    "state": {"type": "string", "enum": ["starting", "running", "restarting", "ended", "absent"]},
    "last_failure": _or_null(JSON_STRING),
    "restarts": COUNT,
    "mailbox": _object(depth=COUNT, capacity=COUNT),
    "progress_at": _described(
        _or_null(NUMBER), "When it last got on with its work, in seconds since the epoch."
    ),
}
# Where the journal or a consumer is.
_REACHED: Final[dict[str, JsonSchema]] = {
    "through": {"type": "string", "enum": [through.value for through in Through]},
    "position": _POSITION,
    "segment": COUNT,
    "scn": _described(COUNT, "The number of the last thing in the stream there."),
}
_ACTORS = {name.value for name in ActorName}
_CONSUMERS = _map(_object(segment=COUNT, behind=COUNT))
_OUTCOME: Final[JsonSchema] = {"type": "string", "enum": [outcome.value for outcome in Outcome]}

_SIGNAL_STATE: Final[JsonSchema] = {
    "type": "object",
    "properties": {"id": JSON_STRING, "outcome": _OUTCOME, "detail": JSON_STRING, "reason": JSON_STRING},
    "required": ["id", "outcome"],
    "additionalProperties": False,
}

SCHEMAS: Final[dict[str, JsonSchema]] = {
    "Error": _object(error=JSON_STRING),
    "Ready": _object(
        ready=BOOL, reasons=_described(_map(JSON_STRING), "By actor; empty for a client that may not read.")
    ),
    "Status": _object(
        name=JSON_STRING,
        ready=BOOL,
        position=_or_null(_POSITION),
        lag_seconds=_SECONDS,
        paused=_described(BOOL, "Whether snapshots are held up."),
        busy=_described(_or_null(JSON_STRING), "Why no chunk is asked of the source now."),
        no_room=_described(_or_null(JSON_STRING), "Why capture waits."),
        snapshots=_list(ANY),
        windows=_list(ANY),
        stopped=_described(_map(JSON_STRING), "Tables that can't be captured any more, and why."),
        keyless=_described(
            _list(JSON_STRING), "Tables without a primary key: only a blocking snapshot reads their rows."
        ),
        consumers=_CONSUMERS,
        late=_described(_list(JSON_STRING), "Tables that wait for a new generation of their mirrors."),
        rebuilding=_described(
            _map(NUMBER),
            "Tables whose newest mirror isn't complete, and since when, in seconds since the epoch. Their live "
            "views show the state before it, or aren't there yet.",
        ),
        delivered_position=_described(
            _or_null(_POSITION),
            "All changelogs have everything up to here, and all live views but those of `rebuilding`.",
        ),
        freshness_seconds=_or_null(_SECONDS),
        actors={
            "type": "object",
            "properties": dict.fromkeys(sorted(_ACTORS), ANY),
            "required": sorted(_ACTORS),
            "additionalProperties": False,
        },
    ),
    "Position": _object(
        position=_or_null(_POSITION),
        source=_SOURCE,
        log=_LOG,
        sealed_position=_or_null(_POSITION),
        sealed_segment=COUNT,
        delivered_position=_or_null(_POSITION),
        delivered_segment=COUNT,
    ),
    "Applied": _object(
        **_REACHED,
        tables=_described(
            _map(_or_null(_map(_or_null(COUNT)))),
            "Through the lake, the versions of each table's `mirror` and `changelog` in Delta's log at which a reader "
            "sees it. Null where the lake has nothing of the table.",
        ),
    ),
    "NotYetApplied": _object(
        error=_described(JSON_STRING, "What is waited for."),
        missing=_described(JSON_STRING, "The transactions that have still to come."),
        **_REACHED,
    ),
    "Translation": _object(
        scn=_described(COUNT, "Everything through this SCN is in the place, and nothing is lost after it."),
        gtid_set=_described(
            _or_null(JSON_STRING),
            "The transactions through this SCN, or fewer where rows without a GTID come next; null if no set says it.",
        ),
        beyond=_described(
            JSON_STRING,
            "Transactions of the given GTID set that may come again after `scn`; not after `checkpoint`.",
        ),
        checkpoint=_described(JSON_STRING, "The place exactly."),
        databus_scn=_DATABUS_SCN,
    ),
    "Bootstrap": _object(
        checkpoint=_described(JSON_STRING, "Continue at /changes with `since=` this."),
        scn=_described(
            COUNT, "All tables have everything through this SCN at these versions, and nothing after it."
        ),
        databus_scn=_DATABUS_SCN,
        position=_POSITION,
        segment=COUNT,
        tables=_described(
            _map(_or_null(_map(_or_null(COUNT)))),
            "The versions of each table's `mirror` and `changelog` in Delta's log; null where the lake has nothing "
            "of the table.",
        ),
    ),
    "JournalNames": _list(JSON_STRING),
    "DatabusSources": _list(_object(name=JSON_STRING, id=COUNT)),
    "DatabusSchemas": _list(
        _object(
            id=COUNT,
            name=JSON_STRING,
            version=_described(JSON_STRING, "The version in `?version=`."),
            schemaId=_described(
                JSON_STRING, "What events name the schema with: the MD5 of its text, in base64."
            ),
            schema=_described(
                JSON_STRING, "The Avro schema of rows. The present one of a source comes last."
            ),
            keySchema=_described(_or_null(JSON_STRING), "That of keys; null without a primary key."),
        )
    ),
    "DatabusInbound": _object(
        dimension=JSON_STRING,
        numDataEvents=_described(COUNT, "Rows sealed since the service began."),
        minWinScn=COUNT,
        maxWinScn=COUNT,
        sinceWinScn=COUNT,
        timestampMinScnEvent=_MS,
        timestampMaxScnEvent=_MS,
    ),
    "DatabusOutbound": _object(
        dimension=JSON_STRING,
        numDataEvents=_described(COUNT, "Rows sent since the service began."),
        sizeDataEvents=COUNT,
        numPeers=_described(COUNT, "Requests that read changes now."),
    ),
    "DatabusNumbers": _list(COUNT),
    "DatabusCount": _object(
        dimension=_described(JSON_STRING, "The source's number."),
        numDataEvents=_described(
            _or_null(COUNT),
            "Rows since the service began; null if too many tables are captured to count each.",
        ),
    ),
    "DatabusBuffer": _object(minScn=COUNT, maxScn=COUNT, timestampFirstEvent=_MS, timestampLatestEvent=_MS),
    "Point": _object(
        at=_described(NUMBER, "Seconds since the epoch."),
        lag=_SECONDS,
        freshness=_or_null(_SECONDS),
        transactions=_described(_or_null(NUMBER), "By the second, as the other rates."),
        changes=_or_null(NUMBER),
        snapshot_rows=_or_null(NUMBER),
    ),
    "Freshness": _object(
        lag_seconds=_described(NUMBER, "Age of the newest commit read from the log, when it was read."),
        freshness_seconds=_described(
            _or_null(NUMBER), "Age of the last batch's oldest change when it could be read in the lake."
        ),
        undelivered_seconds=_described(NUMBER, "How long the oldest segment has waited for the lake."),
        history=_described(_list(_all_of("Point")), "The last ten minutes, a point each second."),
    ),
    "Snapshot": _SNAPSHOT,
    "VerificationResult": _object(
        **_JUDGED,
        repaired=_described(
            _or_null(_object(**_JUDGED)), "The result of its repair; null if it has or needs none."
        ),
    ),
    "Snapshots": _object(snapshots=_list(_all_of("Snapshot"))),
    "Table": _object(
        table=_described(JSON_STRING, "database.table"),
        stopped=_described(_or_null(JSON_STRING), "Why it can't be captured any more."),
        keyless=BOOL,
        unread_rows=_described(COUNT, "Rows that are to be read again."),
        snapshot=_or_null(
            _object(
                id=JSON_STRING,
                state=_TABLE_STATE,
                reason=_or_null(JSON_STRING),
                **_COUNTS,
                map=_object(
                    filled=_described(
                        _list({"type": "number", "minimum": 0, "maximum": 1}),
                        "Of each cell the part that's done; a cell is a range, or several of many.",
                    ),
                    open=_described(_list(COUNT), "The cells with an open window."),
                ),
            )
        ),
        verification=_described(
            _or_null(
                _object(
                    id=JSON_STRING,
                    state=_TABLE_STATE,
                    **_COUNTS,
                    result=_described(
                        _or_null(_all_of("VerificationResult")),
                        "Null while it's under way. Once all rows are read they are compared.",
                    ),
                )
            ),
            "The one that's under way, or else the one with the newest result; null if none is known.",
        ),
        lake=_object(
            mirror={"type": ["string", "null"], "enum": ["filling", "ready", None]},
            pending_rows=_described(_or_null(COUNT), "Changes that the mirror hasn't merged yet."),
            late=BOOL,
            stopped=_or_null(JSON_STRING),
        ),
    ),
    "Tables": _object(tables=_list(_all_of("Table"))),
    "Signal": {
        "type": "object",
        "properties": {
            "id": JSON_STRING,
            "type": {"type": "string", "enum": list(SIGNAL_TYPES)},
            "data": ANY,
        },
        "required": ["type"],
        "additionalProperties": False,
        "description": "In Debezium's JSON; docs/signals.md has all types and fields.",
    },
    "Accepted": _object(id=JSON_STRING, outcome={"const": "accepted"}, detail=JSON_STRING),
    "Rejected": _object(id=JSON_STRING, outcome={"const": "rejected"}, error=JSON_STRING),
    "SignalState": _SIGNAL_STATE,
    "Signals": _object(signals=_described(_list(_all_of("SignalState")), "The newest last.")),
    "Event": _object(
        number=COUNT,
        at=_described(JSON_STRING, "ISO 8601, UTC."),
        level={"type": "string", "enum": ["debug", "info", "warning", "error", "critical"]},
        event=JSON_STRING,
        more=_map(JSON_STRING),
    ),
    "Events": _object(events=_described(_list(_all_of("Event")), "The oldest first.")),
    "Overview": _object(
        ready=BOOL,
        position=_or_null(_POSITION),
        delivered_position=_or_null(_POSITION),
        lag_seconds=_SECONDS,
        freshness_seconds=_or_null(_SECONDS),
        paused=BOOL,
        undelivered_seconds=_SECONDS,
        reasons=_map(JSON_STRING),
        busy=_or_null(JSON_STRING),
        no_room=_or_null(JSON_STRING),
        set_aside=_described(_or_null(JSON_STRING), "Which topics refuse their messages."),
        source=_SOURCE,
        log=_LOG,
        windows=_list(_object(**_WINDOW, age_seconds=_SECONDS)),
        journal=_object(segment=COUNT, bytes=COUNT),
        consumers=_CONSUMERS,
        actors=_map(_object(**_LIFE)),
    ),
    "Begin": _object(
        name=JSON_STRING,
        controlled=_described(BOOL, "Whether signals want a token."),
        overview=_all_of("Overview"),
        history=_list(_all_of("Point")),
        tables=_list(_all_of("Table")),
        events=_list(_all_of("Event")),
    ),
    "Step": _object(
        overview=_all_of("Overview"),
        point=_or_null(_all_of("Point")),
        tables=_described(_list(_all_of("Table")), "Those that have changed."),
        gone=_described(_list(JSON_STRING), "Those that aren't there any more."),
        events=_described(_list(_all_of("Event")), "Those that are new."),
    ),
}
