"""The text of a manifest entry.

It's JSON that is the same for equal entries, with the format's number before anything else is believed and a checksum
over the rest. A reader writes it again and compares, so that not one byte may differ.

Schemas are named by their versions only. They are many, long, and nearly always those of the entry before. So each is a
text of its own, written once. A version is a digest of the schema, so it's the checksum of that text.
"""

import hashlib
import json
from collections.abc import Callable
from typing import Any, assert_never

from pipeline.errors import Definite
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.entry import CommitTimes, Entry, File, FileKind, ProtectedTable, SealedChunk
from pipeline.messages.journal import StatementPart
from pipeline.schema import table_schema as schemas
from pipeline.schema.ddl.alter_table import Alteration, Altered, ColumnChanges
from pipeline.schema.ddl.column_definitions import ConstantColumn
from pipeline.schema.ddl.schema_statements import SchemaObject, SchemaStatement
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.snapshot import checkpoint as checkpoints
from pipeline.snapshot.snapshot import ChunkId
from pipeline.snapshot.watermark import High, MarkerRow

# Raised by one whenever an older reader would misunderstand a newer entry. Only entries with protected tables need the
# newer one, so that a journal without them can be read by the version before.
FORMAT = 4
PROTECTED_FORMAT = 5

_REMEDY = "restore it from a copy of the journal"


class DamagedManifest(Definite):
    """It isn't what was written, or not in the format that this version reads; the text says which."""


def to_json(entry: Entry, journal: str) -> str:
    """The entry as it's written into this journal: one text for equal entries, with a checksum over all of it."""
    body = {
        "segment": entry.segment,
        "files": [_file_to_json(file) for file in entry.files],
        "first_scn": entry.first_scn,
        "last_scn": entry.last_scn,
        "transactions": entry.transactions,
        "commit_times": _times_to_json(entry.commit_times),
        "chunks": [_chunk_to_json(chunk) for chunk in entry.chunks],
        "checkpoint": checkpoints.to_json(entry.checkpoint),
        "schemas": sorted(entry.schemas),
        "sealed_at": entry.sealed_at,
        "alterations": [_altered_to_json(altered) for altered in entry.alterations],
        "statements": [_statement_to_json(each) for each in entry.statements],
    }
    if entry.protected:
        body["protected"] = [
            [table.database, table.name, each.schema.version, each.digest]
            for table, each in entry.protected.items()
        ]
    if entry.resumed:
        body["resumed"] = [[table.database, table.name] for table in entry.resumed]
    if entry.position_stays:
        body["position_stays"] = True
    return _checked_text(body, PROTECTED_FORMAT if entry.protected else FORMAT, journal)


def from_json(text: str, journal: str, schema: Callable[[str], TableSchema]) -> Entry:
    """Returns the entry that `to_json` wrote; `schema` returns the one of a version.

    Raises DamagedManifest for any other text.
    """
    try:
        value = json.loads(text)
    except ValueError as error:
        raise DamagedManifest(
            f"it isn't JSON ({error}), so it was cut short or overwritten; {_REMEDY}"
        ) from error
    if not isinstance(value, dict) or "format" not in value:
        raise DamagedManifest(f"it isn't a manifest entry of a journal; {_REMEDY}")
    if value["format"] not in (FORMAT, PROTECTED_FORMAT):
        raise DamagedManifest(
            f"it has the format {value['format']}, and this version reads {FORMAT} and {PROTECTED_FORMAT}: use the "
            "version that wrote it"
        )
    if text != _checked_text(value.get("entry"), value["format"], value.get("journal")):
        raise DamagedManifest(
            f"its checksum doesn't match, so it was changed after it was written; {_REMEDY}"
        )
    if value["journal"] != journal:
        raise DamagedManifest(f"it's of the journal {value['journal']}, and not of this one; {_REMEDY}")
    body = value["entry"]
    return _entry_from_json(body, {version: schema(version) for version in body["schemas"]})


def schema_to_json(schema: TableSchema) -> str:
    """The text of a schema; `schema_from_json` is its inverse."""
    return _text(schemas.to_json(schema))


def schema_from_json(text: str, version: str) -> TableSchema:
    """The schema of this version. Raises DamagedManifest where the text isn't that one's."""
    try:
        schema = schemas.from_json(json.loads(text))
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise DamagedManifest(
            f"it isn't a table's schema, so it was cut short or overwritten; {_REMEDY}"
        ) from error
    if schema.version != version or schema_to_json(schema) != text:
        raise DamagedManifest(
            f"it isn't the schema of version {version}, so it was changed after it was written; {_REMEDY}"
        )
    return schema


def _entry_from_json(value: dict[str, Any], named: dict[str, TableSchema]) -> Entry:
    times = value["commit_times"]
    return Entry(
        segment=value["segment"],
        files=tuple(_file_from_json(file) for file in value["files"]),
        first_scn=value["first_scn"],
        last_scn=value["last_scn"],
        transactions=value["transactions"],
        commit_times=times and CommitTimes(times["oldest"], times["newest"], tuple(times["samples"])),
        chunks=tuple(_chunk_from_json(chunk) for chunk in value["chunks"]),
        checkpoint=checkpoints.from_json(value["checkpoint"], named),
        schemas=named,
        sealed_at=value["sealed_at"],
        alterations=tuple(_altered_from_json(altered, named) for altered in value["alterations"]),
        statements=tuple(_statement_from_json(each) for each in value.get("statements", ())),
        protected={
            TableId(database, name): ProtectedTable(named[version], digest)
            for database, name, version, digest in value.get("protected", ())
        },
        resumed=tuple(TableId(database, name) for database, name in value.get("resumed", ())),
        position_stays=value.get("position_stays", False),
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
        "absent": file.absent,
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
        absent=value["absent"],
    )


def _chunk_to_json(sealed: SealedChunk) -> dict[str, Any]:
    return {
        "snapshot": sealed.chunk.snapshot,
        "database": sealed.chunk.table.database,
        "table": sealed.chunk.table.name,
        "number": sealed.chunk.number,
        "low": str(sealed.low),
        "high": _high_to_json(sealed.high),
        "rows": sealed.rows,
        "scn": sealed.scn,
        "at": sealed.at and {"file": sealed.at.file, "offset": sealed.at.offset},
        "version": sealed.version,
    }


def _chunk_from_json(value: dict[str, Any]) -> SealedChunk:
    at = value.get("at")
    return SealedChunk(
        chunk=ChunkId(value["snapshot"], TableId(value["database"], value["table"]), value["number"]),
        low=GtidSet.parse(value["low"]),
        high=_high_from_json(value["high"]),
        rows=value["rows"],
        scn=value.get("scn"),
        at=at and Coordinates(at["file"], at["offset"]),
        version=value.get("version"),
    )


def _altered_to_json(altered: Altered) -> dict[str, Any]:
    alteration = altered.alteration
    return {
        "scn": altered.scn,
        "version": alteration.schema.version,
        "statement": alteration.statement,
        "renamed": [list(pair) for pair in alteration.changes.renamed],
        "dropped": list(alteration.changes.dropped),
        "added": [[each.column.name, each.value] for each in alteration.changes.added],
        "emptied": alteration.emptied,
    }


def _altered_from_json(value: dict[str, Any], named: dict[str, TableSchema]) -> Altered:
    schema = named[value["version"]]
    columns = {column.name: column for column in schema.columns}
    changes = ColumnChanges(
        tuple((old, new) for old, new in value["renamed"]),
        tuple(value["dropped"]),
        tuple(ConstantColumn(columns[name], constant) for name, constant in value.get("added", ())),
    )
    return Altered(value["scn"], Alteration(schema, value["statement"], changes, value["emptied"]))


def _statement_to_json(part: StatementPart) -> dict[str, Any]:
    statement = part.statement
    return {
        "scn": part.scn,
        "gtid": part.gtid,
        "committed": part.committed,
        "at": part.at and {"file": part.at.file, "offset": part.at.offset},
        "server": part.server,
        "what": statement.what.value,
        "database": statement.database,
        "tables": [[table.database, table.name] for table in statement.tables],
        "named": list(statement.named),
        "text": statement.text,
    }


def _statement_from_json(value: dict[str, Any]) -> StatementPart:
    at = value["at"]
    statement = SchemaStatement(
        SchemaObject(value["what"]),
        value["database"],
        tuple(TableId(database, name) for database, name in value["tables"]),
        tuple(value["named"]),
        value["text"],
    )
    coordinates = at and Coordinates(at["file"], at["offset"])
    return StatementPart(
        value["scn"], value["gtid"], value["committed"], coordinates, value["server"], statement
    )


def _high_to_json(high: High) -> dict[str, Any]:
    match high:
        case Coordinates(file, offset):
            return {"file": file, "offset": offset}
        case GtidSet():
            return {"executed": str(high)}
        case MarkerRow(id_):
            return {"row": id_}
        case _:
            assert_never(high)


def _high_from_json(value: dict[str, Any]) -> High:
    if "row" in value:
        return MarkerRow(value["row"])
    if "executed" in value:
        return GtidSet.parse(value["executed"])
    return Coordinates(value["file"], value["offset"])


def _times_to_json(times: CommitTimes | None) -> dict[str, Any] | None:
    if times is None:
        return None
    return {"oldest": times.oldest, "newest": times.newest, "samples": list(times.samples)}


def _checked_text(entry: object, format_: int, journal: object) -> str:
    """The text of an entry with its checksum: JSON with its keys in order, of which the entry is most."""
    body, named = _text(entry), _text(journal)
    digest = hashlib.sha256(f"[{named},{body}]".encode()).hexdigest()
    return f'{{"entry":{body},"format":{format_},"journal":{named},"sha256":"{digest}"}}'


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
