"""What happened in a run, in the words of the algorithm: told when a seed fails, and hashed to hold two runs equal."""

from collections.abc import Iterator
from hashlib import blake2b

import pyarrow as pa

from pipeline.messages.binlog import LogAdvanced
from pipeline.messages.changes import ChangesVerified, SchemaChanged, SchemasVerified, TransactionPartVerified
from pipeline.messages.chunks import ChunkFailed, ChunkRead, PlanFailed, TablePlanned
from pipeline.messages.journal import ChangePart, ChunkPart
from pipeline.messages.row_images import ImageKind, TableChanges
from pipeline.messages.signals import SignalReceived


class Story:
    """The events of one run in their order, kept as they come and put into words only when they're asked for."""

    def __init__(self) -> None:
        self._events: list[object] = []

    def tell(self, *words: object) -> None:
        """One more event in words, which must be values that don't change any more; or one message."""
        self._events.append(words if len(words) > 1 else words[0])

    def __str__(self) -> str:
        return "\n".join(f"{i:4}  {_line(event)}" for i, event in enumerate(self._events, 1))

    @property
    def digest(self) -> str:
        """The same for two runs in which the same happened."""
        whole = blake2b(digest_size=16)
        for event in self._events:
            whole.update(f"{_line(event)}\n".encode())
        return whole.hexdigest()


def _told(event: object) -> Iterator[object]:
    match event:
        case tuple() as words:
            yield from words
        case ChangesVerified(run, tables, end):
            names = [str(run.gtid(i)) for i in range(len(run))]
            yield from ("passed:", *names, "with rows of", *_names(tables), "up to", end)
        case TransactionPartVerified(gtid, _, tables):
            yield from ("a part passed:", gtid, "with rows of", *_names(tables))
        case ChunkRead(chunk, low, rows, upto, high):
            yield from ("chunk came:", chunk, "low", low, "rows", _pairs(rows), "upto", upto, "high", high)
        case ChunkPart(chunk, _, rows, _, _, scn, first):
            yield from ("emitted:", chunk, _pairs(rows), f"SCN {scn}", "to the mirror" if first else "")
        case ChangePart(changes, _, scn):
            yield from (
                "changes of",
                changes.schema.table,
                f"from SCN {scn} on:",
                _images(changes.images, changes.rows),
            )
        case TablePlanned() as plan:
            yield from ("planned:", plan.schema.table, plan.ranges)
        case PlanFailed(table, reason):
            yield from ("plan failed:", table, reason)
        case ChunkFailed(chunk, reason):
            yield from ("chunk failed:", chunk, reason)
        case SchemaChanged(gtid, tables, statement, end):
            yield from ("statement passed:", gtid, statement, "touching", *sorted(tables), "up to", end)
        case LogAdvanced(end):
            yield from ("the stream is at", end)
        case SchemasVerified(schemas, restarted):
            for schema in schemas:
                yield from ("schema holds:", schema.table, schema.version)
            for each in restarted:
                yield from ("which begins again:", each.table, "since", each.reason)
        case SignalReceived(signal):
            yield from ("signal:", signal)
        case _:
            yield event


def _names(tables: tuple[TableChanges, ...]) -> list[str]:
    return [changes.schema.table.name for changes in tables]


def _pairs(rows: pa.RecordBatch) -> tuple[tuple[object, ...], ...]:
    return tuple(zip(*(rows[name].to_pylist() for name in ("id", "value")), strict=True))


def _images(images: pa.RecordBatch, rows: pa.RecordBatch) -> str:
    kinds = [ImageKind(kind).name for kind in images["kind"].to_pylist()]
    return ", ".join(f"{kind} {row}" for kind, row in zip(kinds, _pairs(rows), strict=True))


def _line(event: object) -> str:
    # Sets of GTIDs are printed over several lines, as the server does.
    text = " ".join(map(str, _told(event))).replace("\n", " ")
    return text.replace("00000000-0000-0000-0000-00000000000", "")
