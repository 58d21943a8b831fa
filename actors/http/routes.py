"""The routes of the service over HTTP: one definition, which routes requests and makes `/openapi.json`.

    python -m actors.http.routes > docs/openapi.json

The service has no other route, so the document lacks none.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from actors.http.access import Access
from actors.http.json_schemas import SCHEMAS
from pipeline.journal.request_parameters import LONGEST_WAIT_S, WAIT_S
from pipeline.kafka.databus.stream_query import LARGEST

JSON_TYPE: Final = "application/json"


@dataclass(frozen=True, slots=True)
class ApiResponse:
    """An answer's meaning, and its content: the name of its schema, or else what type it is of."""

    meaning: str
    schema: str | None = None
    content: str = JSON_TYPE


@dataclass(frozen=True, slots=True)
class QueryParameter:
    """A parameter after the path's `?`."""

    meaning: str
    type: str = "string"
    required: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """A method and a path, what they return, who may use them, and the possible answers, by status.

    `body`: the name of the schema of the request's body. `parameters`: those in the path, and `query` those after it.
    Refusals (401, 403, …) follow from `access`.
    """

    name: str
    method: str
    path: str
    summary: str
    access: Access
    answers: Mapping[int, ApiResponse]
    body: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, QueryParameter] = field(default_factory=dict)

    @property
    def methods(self) -> tuple[str, ...]:
        """Returns the method, and HEAD where probes and proxies use it instead of GET: what is open answers at once."""
        also_head = self.method == "GET" and self.access is Access.OPEN
        return (self.method, "HEAD") if also_head else (self.method,)


def _get(
    path: str, name: str, summary: str, answer: ApiResponse, access: Access = Access.READ, **parameters: str
) -> Route:
    answers = {200: answer}
    if parameters:
        answers[404] = ApiResponse("There's none of this name.", "Error")
    return Route(name, "GET", path, summary, access, answers, parameters=parameters)


_PLACE_REFUSED: Final = {
    400: ApiResponse("A parameter is wrong.", "Error"),
    409: ApiResponse("The journal doesn't have the place, or not yet.", "Error"),
    410: ApiResponse("The changes after the place have gone from the journal.", "Error"),
    503: ApiResponse("The journal has nothing yet, or can't be read.", "Error"),
}

_NO_SOURCE: Final = ApiResponse("A source isn't captured, or its version has gone.", "Error")
_SOURCE: Final = {"source": "Its number or name."}
_DATABUS: Final = {400: _PLACE_REFUSED[400], 503: _PLACE_REFUSED[503]}

ROUTES: Final[tuple[Route, ...]] = (
    _get("/", "page", "The page", ApiResponse("HTML", content="text/html"), Access.OPEN),
    _get(
        "/page/{file}",
        "file",
        "What the page is made of",
        ApiResponse("A file", content="*/*"),
        Access.OPEN,
        file="Its name.",
    ),
    _get("/openapi.json", "openapi", "This document", ApiResponse("OpenAPI 3.1", "Anything"), Access.OPEN),
    _get(
        "/livez",
        "livez",
        "Whether the event loop turns",
        ApiResponse("It does.", content="text/plain"),
        Access.OPEN,
    ),
    Route(
        "readyz",
        "GET",
        "/readyz",
        "Whether the log is streaming and Spark is up; lag is no reason",
        Access.OPEN,
        {200: ApiResponse("Ready.", "Ready"), 503: ApiResponse("Not ready.", "Ready")},
    ),
    _get("/metrics", "metrics", "Prometheus' text format", ApiResponse("Metrics", content="text/plain")),
    _get("/status", "status", "All that the service says of itself", ApiResponse("The status", "Status")),
    _get(
        "/position",
        "position",
        "How far it is in the log, the journal and the lake",
        ApiResponse("Where", "Position"),
    ),
    Route(
        "applied",
        "GET",
        "/applied",
        "Wait until transactions have come so far that a reader sees them",
        Access.READ,
        {
            200: ApiResponse("All of them have come.", "Applied"),
            400: ApiResponse("A parameter is wrong.", "Error"),
            409: ApiResponse("They can't come.", "Error"),
            503: ApiResponse("The service is stopping.", "Error"),
            504: ApiResponse("They haven't come in time.", "NotYetApplied"),
        },
        query={
            "gtid_set": QueryParameter("The transactions, as MySQL writes a GTID set.", required=True),
            "through": QueryParameter("How far they have to come: journal, lake (the default) or kafka."),
            "tables": QueryParameter(
                "The tables that will be read, as database.table, with commas between them; all if none is named."
            ),
            "timeout_s": QueryParameter(
                f"How long to wait, in seconds; {WAIT_S:g} by default, at most {LONGEST_WAIT_S:g}.", "number"
            ),
        },
    ),
    Route(
        "changes",
        "GET",
        "/changes",
        "Follow the changes in the journal, from a place on (docs/relay.md)",
        Access.READ,
        {
            200: ApiResponse(
                "Lines of JSON (application/x-ndjson), or Arrow's IPC streams "
                "(application/vnd.apache.arrow.stream). A client continues with the last checkpoint that it got. "
                "The last line, or the metadata of the last batch, has `complete` if all through `through` has come.",
                content="application/x-ndjson",
            ),
            404: ApiResponse("A table isn't captured.", "Error"),
            **_PLACE_REFUSED,
        },
        query={
            "tables": QueryParameter(
                "The tables, as database.table, with commas between them; all if none is named."
            ),
            "since": QueryParameter(
                "The place after which the changes begin: now (the default), earliest, a checkpoint, an SCN, or a "
                "GTID set as MySQL writes it."
            ),
            "through": QueryParameter(
                "The place with which they end: now, an SCN or a GTID set. Without one they have no end."
            ),
            "key_range": QueryParameter(
                "Only keys in this range of the key's first column: 100..200, 100.. or ..200."
            ),
            "key_modulo": QueryParameter(
                "Only keys with these remainders: 4:1,3 is 1 and 3 of 4. Texts and bytes are divided by their CRC32."
            ),
            "format": QueryParameter("json (the default) or arrow."),
            "compression": QueryParameter(
                "How the buffers of Arrow's batches are compressed: none (the default), lz4 or zstd."
            ),
        },
    ),
    Route(
        "translate",
        "GET",
        "/translate",
        "Translate a place in the journal into an SCN, a GTID set and a checkpoint (docs/relay.md)",
        Access.READ,
        {200: ApiResponse("The place.", "Translation"), **_PLACE_REFUSED},
        query={
            "since": QueryParameter(
                "The place: an SCN, a GTID set as MySQL writes it, a checkpoint, now or earliest.",
                required=True,
            )
        },
    ),
    Route(
        "bootstrap",
        "GET",
        "/bootstrap",
        "Where to read the lake, and with which checkpoint to continue at /changes (docs/relay.md)",
        Access.READ,
        {
            200: ApiResponse("The versions and the checkpoint.", "Bootstrap"),
            400: ApiResponse("A parameter is wrong.", "Error"),
            404: ApiResponse("A table isn't captured.", "Error"),
            409: ApiResponse("The lake doesn't get all of a table by itself, or there is no lake.", "Error"),
            503: ApiResponse("The lake doesn't have all of a table yet.", "Error"),
        },
        query={
            "tables": QueryParameter(
                "The tables, as database.table, with commas between them; all if none is named."
            )
        },
    ),
    Route(
        "journal_names",
        "GET",
        "/journal/names",
        "The names in a folder of the journal, for Spark's data source (docs/spark.md)",
        Access.READ,
        {
            200: ApiResponse("The names.", "JournalNames"),
            400: ApiResponse("It is no such folder.", "Error"),
            503: ApiResponse("The journal can't be read.", "Error"),
        },
        query={"folder": QueryParameter("claims, first, manifest or schemas.", required=True)},
    ),
    Route(
        "journal_file",
        "GET",
        "/journal/file",
        "A part of a file of the journal, as the header Range wants it, for Spark's data source",
        Access.READ,
        {
            206: ApiResponse("The bytes; there may be fewer.", content="application/octet-stream"),
            400: ApiResponse("It is no name of a file.", "Error"),
            404: ApiResponse("There is no such file, or retention has removed it.", "Error"),
            416: ApiResponse("The file has no such bytes.", "Error"),
            503: ApiResponse("The journal can't be read.", "Error"),
        },
        query={"name": QueryParameter("The file's name in the journal.", required=True)},
    ),
    Route(
        "databus_sources",
        "GET",
        "/sources",
        "Databus: the captured tables, as sources with a number each (docs/relay.md)",
        Access.READ,
        _DATABUS | {200: ApiResponse("The sources.", "DatabusSources")},
    ),
    Route(
        "databus_register",
        "GET",
        "/register",
        "Databus: the Avro schemas of sources, by version",
        Access.READ,
        _DATABUS | {200: ApiResponse("The schemas.", "DatabusSchemas"), 404: _NO_SOURCE},
        query={
            "sources": QueryParameter("Numbers or names, with commas between them; all without it."),
            "version": QueryParameter("Only this version; all that the journal has without it."),
        },
    ),
    Route(
        "databus_stream",
        "GET",
        "/stream",
        "Databus: the events after a checkpoint, as many as there is room for",
        Access.READ,
        {
            200: ApiResponse(
                "Lines of JSON, or a container file of Avro (application/avro).", content="application/json"
            ),
            404: _NO_SOURCE,
            **_PLACE_REFUSED,
        },
        query={
            "sources": QueryParameter("Numbers or names, with commas between them; or else `subs`."),
            "subs": QueryParameter('Subscriptions in JSON: [{"logicalPartition": {"source": {"id": 7}}}].'),
            "checkPoint": QueryParameter('{"windowScn": 345, "windowOffset": -1}, in JSON.'),
            "checkPointMult": QueryParameter(
                "Instead of it: a checkpoint for each physical partition, of which the journal is one (0), in JSON."
            ),
            "streamFromLatestScn": QueryParameter("true begins with what comes next, without a checkPoint."),
            "size": QueryParameter(f"The most bytes of events, at most {LARGEST}.", "integer", required=True),
            "output": QueryParameter("json or binary.", required=True),
            "filters": QueryParameter(
                "The keys of each source, in JSON: partitionType is RANGE, MOD or NONE (docs/relay.md)."
            ),
            "key_range": QueryParameter("As in /changes."),
            "key_modulo": QueryParameter("As in /changes."),
        },
    ),
    Route(
        "databus_inbound",
        "GET",
        "/containerStats/inbound/events/total",
        "Databus: what has come into the journal",
        Access.READ,
        _DATABUS | {200: ApiResponse("Counts and SCNs.", "DatabusInbound")},
    ),
    Route(
        "databus_inbound_sources",
        "GET",
        "/containerStats/inbound/events/sources",
        "Databus: the numbers of the sources that are counted",
        Access.READ,
        _DATABUS | {200: ApiResponse("The numbers.", "DatabusNumbers")},
    ),
    Route(
        "databus_inbound_source",
        "GET",
        "/containerStats/inbound/events/source/{source}",
        "Databus: what has come into the journal of one source",
        Access.READ,
        _DATABUS | {200: ApiResponse("A count.", "DatabusCount"), 404: _NO_SOURCE},
        parameters=_SOURCE,
    ),
    Route(
        "databus_outbound",
        "GET",
        "/containerStats/outbound/events/total",
        "Databus: what was sent to those who read changes",
        Access.READ,
        _DATABUS | {200: ApiResponse("Counts.", "DatabusOutbound")},
    ),
    Route(
        "databus_outbound_sources",
        "GET",
        "/containerStats/outbound/events/sources",
        "Databus: the numbers of the sources that are counted",
        Access.READ,
        _DATABUS | {200: ApiResponse("The numbers.", "DatabusNumbers")},
    ),
    Route(
        "databus_outbound_source",
        "GET",
        "/containerStats/outbound/events/source/{source}",
        "Databus: what was sent of one source to those who read changes",
        Access.READ,
        _DATABUS | {200: ApiResponse("A count.", "DatabusCount"), 404: _NO_SOURCE},
        parameters=_SOURCE,
    ),
    Route(
        "databus_buffer",
        "GET",
        "/bufferInfo",
        "Databus: from which SCN to which one the journal has changes",
        Access.READ,
        _DATABUS | {200: ApiResponse("SCNs and times (ms).", "DatabusBuffer")},
    ),
    _get(
        "/freshness",
        "freshness",
        "Lag and freshness, now and in the last minutes",
        ApiResponse("How fresh", "Freshness"),
    ),
    _get(
        "/snapshots",
        "snapshots",
        "Snapshots and verifications under way, and the last that ended",
        ApiResponse("Snapshots", "Snapshots"),
    ),
    _get(
        "/snapshots/{id}",
        "snapshot",
        "One snapshot or verification",
        ApiResponse("The snapshot", "Snapshot"),
        id="The id of its signal.",
    ),
    _get("/tables", "tables", "The captured tables", ApiResponse("Tables", "Tables")),
    _get("/tables/{table}", "table", "One table", ApiResponse("The table", "Table"), table="database.table"),
    _get("/events", "events", "What happened last", ApiResponse("Events", "Events")),
    _get(
        "/live",
        "live",
        "All that the page shows, as server-sent events: one `begin` (schema Begin), then a `step` (Step) each second",
        ApiResponse("Events", content="text/event-stream"),
    ),
    _get("/signals", "signals", "How far the last signals have come", ApiResponse("Signals", "Signals")),
    _get(
        "/signals/{id}",
        "signal_state",
        "How far a signal has come, by whichever channel it came",
        ApiResponse("Its state", "SignalState"),
        id="The signal's id.",
    ),
    Route(
        "signal",
        "POST",
        "/signals",
        "Send a signal, and wait for its answer; sent again with the same id it's taken once",
        Access.CONTROL,
        {
            200: ApiResponse("It has taken effect, durably.", "Accepted"),
            409: ApiResponse("It has no effect.", "Rejected"),
            413: ApiResponse("It's too long.", "Error"),
            415: ApiResponse("It doesn't say that it's JSON.", "Error"),
            422: ApiResponse("It isn't a signal.", "Error"),
            503: ApiResponse("It wasn't answered: send it again with the same id.", "Error"),
        },
        body="Signal",
    ),
)

_BUSY: Final = ApiResponse("Too many at once, or too many follow already; `Retry-After` says when.", "Error")


def openapi() -> dict[str, Any]:
    """The OpenAPI document."""
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tidemark",
            "version": "1",
            "description": (
                "A running pipeline: how far it is, and signals to it. Errors are JSON with the key `error`. "
                "Which requests need a token depends on where the service listens: docs/rest.md."
            ),
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": {**SCHEMAS, "Anything": {"type": "object"}},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    answers = {
        **route.answers,
        500: ApiResponse("A mistake of the service's; its log has the story.", "Error"),
    }
    answers[403] = ApiResponse("The request names a foreign host, or the token may only read.", "Error")
    if route.access is not Access.OPEN:
        answers[401] = ApiResponse("A token is needed.", "Error")
        answers[429] = _BUSY
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "responses": {str(status): _response(answers[status]) for status in sorted(answers)},
    }
    if route.access is not Access.OPEN:
        operation["security"] = [{"token": []}, {}]
    if route.parameters:
        operation["parameters"] = [
            {"name": name, "in": "path", "required": True, "description": told, "schema": {"type": "string"}}
            for name, told in route.parameters.items()
        ]
    if route.query:
        operation["parameters"] = [
            {
                "name": name,
                "in": "query",
                "required": each.required,
                "description": each.meaning,
                "schema": {"type": each.type},
            }
            for name, each in route.query.items()
        ]
    if route.body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {JSON_TYPE: {"schema": _reference(route.body)}},
        }
    return operation


def _response(answer: ApiResponse) -> dict[str, Any]:
    schema = {"type": "string"} if answer.schema is None else _reference(answer.schema)
    return {"description": answer.meaning, "content": {answer.content: {"schema": schema}}}


def _reference(schema: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{schema}"}


def openapi_text() -> str:
    """The document as it's served and kept."""
    return json.dumps(openapi(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(openapi_text())
