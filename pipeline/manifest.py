"""The text of a manifest entry.

It's JSON that is the same for equal entries, with the format's number before anything else is believed and a checksum
over the rest. Whoever reads it back writes it again and compares, so that not one byte may differ.
"""

import hashlib
import json
from typing import Any

from pipeline import checkpoint as checkpoints
from pipeline import schema as schemas
from pipeline.errors import Definite
from pipeline.gtid import GtidSet
from pipeline.journal import CommitTimes, Entry, File, FileKind, SealedChunk
from pipeline.messages import ChunkId
from pipeline.schema import TableId
from pipeline.watermark import Coordinates

# Raised by one whenever an older reader would misunderstand a newer entry.
FORMAT = 1


class DamagedEntry(Definite):
    """A text that isn't a whole manifest entry of the format that this version reads."""


def to_json(entry: Entry) -> str:
    """The entry as it's written: one text for equal entries, with a checksum over all of it."""
    body = {
        "segment": entry.segment,
        "files": [_file_to_json(file) for file in entry.files],
        "first_scn": entry.first_scn,
        "last_scn": entry.last_scn,
        "transactions": entry.transactions,
        "commit_times": _times_to_json(entry.commit_times),
        "chunks": [_chunk_to_json(chunk) for chunk in entry.chunks],
        "checkpoint": checkpoints.to_json(entry.checkpoint),
        "schemas": {version: schemas.to_json(schema) for version, schema in entry.schemas.items()},
        "sealed_at": entry.sealed_at,
    }
    return _text({"format": FORMAT, "entry": body, "sha256": _digest(body)})


def from_json(text: str) -> Entry:
    """The entry that `to_json` wrote. Raises DamagedEntry for any other text."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise DamagedEntry(f"it isn't JSON ({error}), so it was cut short or overwritten") from error
    if not isinstance(value, dict) or "format" not in value:
        raise DamagedEntry("it isn't a manifest entry of a journal")
    if value["format"] != FORMAT:
        raise DamagedEntry(
            f"it has the format {value['format']}, and this version reads {FORMAT}: use the version that wrote it"
        )
    if _text(value) != text or value.get("sha256") != _digest(value.get("entry")):
        raise DamagedEntry("its checksum doesn't match, so it was changed after it was written")
    return _entry_from_json(value["entry"])


def _entry_from_json(value: dict[str, Any]) -> Entry:
    times = value["commit_times"]
    return Entry(
        segment=value["segment"],
        files=tuple(_file_from_json(file) for file in value["files"]),
        first_scn=value["first_scn"],
        last_scn=value["last_scn"],
        transactions=value["transactions"],
        commit_times=times and CommitTimes(times["oldest"], times["newest"], tuple(times["samples"])),
        chunks=tuple(_chunk_from_json(chunk) for chunk in value["chunks"]),
        checkpoint=checkpoints.from_json(value["checkpoint"], value["schemas"]),
        schemas={version: schemas.from_json(schema) for version, schema in value["schemas"].items()},
        sealed_at=value["sealed_at"],
    )


def _file_to_json(file: File) -> dict[str, Any]:
    return {
        "path": file.path,
        "database": file.table.database,
        "table": file.table.name,
        "version": file.version,
        "kind": file.kind.value,
        "rows": file.rows,
        "bytes": file.bytes,
        "sha256": file.sha256,
    }


def _file_from_json(value: dict[str, Any]) -> File:
    return File(
        path=value["path"],
        table=TableId(value["database"], value["table"]),
        version=value["version"],
        kind=FileKind(value["kind"]),
        rows=value["rows"],
        bytes=value["bytes"],
        sha256=value["sha256"],
    )


def _chunk_to_json(sealed: SealedChunk) -> dict[str, Any]:
    return {
        "snapshot": sealed.chunk.snapshot,
        "database": sealed.chunk.table.database,
        "table": sealed.chunk.table.name,
        "number": sealed.chunk.number,
        "low": str(sealed.low),
        "high": [sealed.high.file, sealed.high.offset],
        "rows": sealed.rows,
    }


def _chunk_from_json(value: dict[str, Any]) -> SealedChunk:
    file, offset = value["high"]
    return SealedChunk(
        chunk=ChunkId(value["snapshot"], TableId(value["database"], value["table"]), value["number"]),
        low=GtidSet.parse(value["low"]),
        high=Coordinates(file, offset),
        rows=value["rows"],
    )


def _times_to_json(times: CommitTimes | None) -> dict[str, Any] | None:
    if times is None:
        return None
    return {"oldest": times.oldest, "newest": times.newest, "samples": list(times.samples)}


def _digest(body: object) -> str:
    return hashlib.sha256(_text(body).encode()).hexdigest()


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
