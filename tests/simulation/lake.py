"""A model of what a reader of the lake sees: the mirror, the changelog, and the live view of both."""

from dataclasses import dataclass, field

from pipeline.messages import Append, ChangePart, ChunkPart, Kind
from pipeline.schema import TableId
from tests.simulation.server import Rows


@dataclass
class Lake:
    """`mirror` keeps rows as appended, a key twice if it came twice; `changes` are key -> last value or None."""

    mirror: dict[TableId, list[tuple[int, int]]] = field(default_factory=dict)
    changes: dict[TableId, dict[int, int | None]] = field(default_factory=dict)

    def take(self, append: Append) -> None:
        """Deliver the parts in their order."""
        for part in append.parts:
            match part:
                case ChangePart():
                    self._change(part)
                case ChunkPart(_, schema, rows, _, _, _, first):
                    pairs = list(zip(rows["id"].to_pylist(), rows["value"].to_pylist(), strict=True))
                    if first:
                        self.mirror.setdefault(schema.table, []).extend(pairs)
                    else:
                        self.changes.setdefault(schema.table, {}).update(pairs)

    def live_view(self, table: TableId) -> Rows:
        """Mirror rows whose key didn't change since, and the last of each changed key. A key twice is an error."""
        changed = self.changes.get(table, {})
        view = {key: value for key, value in changed.items() if value is not None}
        for key, value in self.mirror.get(table, []):
            if key not in changed:
                assert key not in view, f"{table}: key {key} is in the mirror twice"
                view[key] = value
        return view

    def _change(self, part: ChangePart) -> None:
        changes = self.changes.setdefault(part.changes.schema.table, {})
        kinds = part.changes.images["kind"].to_pylist()
        keys, values = (part.changes.rows[name].to_pylist() for name in ("id", "value"))
        for kind, key, value in zip(kinds, keys, values, strict=True):
            changes[key] = value if kind in {Kind.INSERT, Kind.UPDATE_AFTER} else None
