"""The OpenAPI document: it's valid, complete, kept in docs, and what a real service answers is as it says."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import jsonschema
import pytest
from openapi_spec_validator import validate

from actors.http import routes as api
from actors.http.json_schemas import SCHEMAS
from deploy.toolchain.mysql_server import MysqlServer
from pipeline.config.settings import HttpSettings
from pipeline.messages.topology import ActorName as Name
from pipeline.schema.table_schema import TableId
from pipeline.signals.signal import SIGNAL_TYPES
from pipeline.snapshot.snapshot import (
    Chunking,
    Completed,
    Progress,
    Range,
    Repairing,
    Snapshot,
    SnapshotFailed,
    SnapshotStopped,
    SnapshotWaiting,
    TableSnapshot,
    Verification,
)
from pipeline.snapshot.snapshot import to_json as snapshot_to_json
from tests.actors.http.served_actors import served
from tests.servers.service import pipeline, running
from tests.servers.web import Web, web

ROOT = Path(__file__).parents[3]


def test_the_document_is_valid() -> None:
    validate(api.openapi())


def test_the_kept_document_is_the_served_one() -> None:
    kept = (ROOT / "docs" / "openapi.json").read_text(encoding="utf-8")
    assert kept == api.openapi_text(), "run `python -m actors.http.routes > docs/openapi.json`"


def test_every_route_is_in_docs() -> None:
    text = (ROOT / "docs" / "rest.md").read_text(encoding="utf-8")
    missing = [f"`{r.method} {r.path}`" for r in api.ROUTES if f"`{r.method} {r.path}`" not in text]
    assert missing == []


def test_every_schema_is_used() -> None:
    document = json.dumps(api.openapi())
    served = {"Begin", "Step"}  # over /live, which OpenAPI has no words for
    unused = [n for n in SCHEMAS if n not in served and f'"#/components/schemas/{n}"' not in document]
    assert unused == []


def conforms(schema: str, value: Any) -> None:
    """Raises where the value isn't as this schema of the document says."""
    whole = {"$ref": f"#/components/schemas/{schema}", "components": api.openapi()["components"]}
    jsonschema.Draft202012Validator(whole).validate(value)


def test_what_does_not_conform_is_found() -> None:
    conforms("Error", {"error": "x"})
    for wrong in ({}, {"error": 7}, {"error": "x", "more": 1}):
        with pytest.raises(jsonschema.ValidationError):
            conforms("Error", wrong)


JUDGED = {
    "verdict": "different",
    "rows": 3,
    "found": {"missing": 1},
    "position": "a:1-7",
    "reason": "",
    "at": 1796000000.0,
}
REPAIRED = {**JUDGED, "verdict": "equal", "found": {}}


async def test_each_state_of_a_verification_is_as_the_document_says(tmp_path: Path) -> None:
    states: list[TableSnapshot] = [
        SnapshotWaiting(),
        Chunking((Range(0, None, (7,)),), "walk", first=False, progress=Progress(ranges=1)),
        Repairing(Progress(rows=3), 1, 2),
        Completed(Progress(rows=3), 1, 2),
        SnapshotStopped(Progress()),
        SnapshotFailed("so", Progress()),
    ]
    tables = {TableId("shop", f"t{at}"): state for at, state in enumerate(states)}
    whole = Verification(7, frozenset(tables), repairs=True)
    snapshots = [
        Snapshot("v", tables, verification=whole),
        Snapshot("s", {TableId("shop", "t3"): Completed(Progress())}, end_number=1),
    ]
    results = {"shop.t3": {**JUDGED, "repaired": REPAIRED}, "shop.t4": {**JUDGED, "repaired": None}}
    async with served(tmp_path) as bench:
        bench.said[Name.WATERMARK_COORDINATOR] = {"snapshots": list(map(snapshot_to_json, snapshots))}
        bench.said[Name.SPARK_SINK] = {"verifications": {"v": results}}
        told = {"snapshots": bench.board.snapshots()}
        conforms("Snapshots", told)
        listed = {"tables": bench.board.tables()}
        conforms("Tables", listed)
    assert [each["result"] for each in told["snapshots"][0]["tables"]] == [
        results.get(str(table)) for table in tables
    ]
    assert [each["verification"]["state"] for each in listed["tables"]] == [each.wire for each in states]
    assert listed["tables"][3]["verification"]["result"] == results["shop.t3"]
    assert [each["snapshot"] is None for each in listed["tables"]] == [at != 3 for at in range(len(states))]


def test_each_type_of_signal_is_in_the_document() -> None:
    for type_ in SIGNAL_TYPES:
        conforms("Signal", {"type": type_})
    with pytest.raises(jsonschema.ValidationError):
        conforms("Signal", {"type": "explode"})


@asynccontextmanager
async def snapshotted(mysql: MysqlServer, database: str, folder: Path) -> AsyncIterator[Web]:
    """A service with a snapshot that's paused half-way, and a table of it that has failed, since it has no key."""
    mysql.sql(
        "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(20))",
        "INSERT INTO orders WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n WHERE i < 900) "
        "SELECT i, 'x' FROM n",
        "CREATE TABLE log (note VARCHAR(20))",
        database=database,
    )
    settings = pipeline(mysql, folder, database, rows_per_s=200)
    async with running(settings) as service, web(service, HttpSettings(), folder) as served:
        await service.begun()
        await service.execute("s1", rf"{database}\..*")
        await service.until(lambda: service.tables("s1")["orders"]["rows"], "some rows")
        await service.tell("pause-snapshot", "p")
        yield served


@pytest.mark.usefixtures("small_ranges")
async def test_every_answer_of_a_real_service_is_as_the_document_says(
    mysql: MysqlServer, database: str, tmp_path: Path
) -> None:
    async with snapshotted(mysql, database, tmp_path) as served:
        served.board.look(1.0, 1.0)
        served.board.look(2.0, 2.0)
        names = {
            "id": "s1",
            "table": f"{database}.orders",
            "file": "page.css",
            "source": f"{database}.orders",
        }
        async with aiohttp.ClientSession(served.url) as session:
            for route in api.ROUTES:
                if route.method != "GET":
                    continue
                path = route.path.format(**names)
                async with session.get(path) as answer:
                    told = route.answers[answer.status]
                    if told.content != "*/*":
                        assert answer.content_type == told.content, path
                    if told.schema is not None:
                        conforms(told.schema, await answer.json())
            pause = {"id": "p2", "type": "pause-snapshot"}
            for status, body in ((200, pause), (422, {"type": "explode"}), (409, {"type": "execute-snapshot",
                "data": {"data-collections": ["nothing"]}})):  # fmt: skip
                async with session.post("/signals", json=body) as answer:
                    assert answer.status == status
                    schema = next(r for r in api.ROUTES if r.name == "signal").answers[status].schema
                    conforms(schema or "", await answer.json())
            async with session.get("/live") as answer:
                for schema in ("Begin", "Step"):
                    event, data = (await answer.content.readuntil(b"\n\n")).decode().splitlines()[:2]
                    assert event == f"event: {schema.lower()}"
                    told = json.loads(data.removeprefix("data: "))
                    conforms(schema, told)
                    served.board.look(3.0, 3.0)
        tables = {table["table"]: table for table in served.board.tables()}
        seen = tables[f"{database}.orders"]["snapshot"]
        assert seen["state"] == "chunking" and len(seen["map"]["filled"]) == seen["ranges"] > 1
        assert tables[f"{database}.log"]["keyless"] is True
        assert tables[f"{database}.log"]["snapshot"]["state"] == "failed"
