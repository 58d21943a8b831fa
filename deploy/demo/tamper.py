"""Changes a file of the lake behind everybody's back, as a failing disk does.

The file keeps its name and its size, and Delta's log stays as it is. So nothing but a comparison with the source finds
that its values are others.
"""

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

# A repair reads so many keys at once.
MOST_ROWS: Final = 1000

_TRIES: Final = 30


def tamper_with_column(
    mirror: Path, key: str, among: Collection[str], column: str, value: str
) -> frozenset[str]:
    """Sets a column to a value in rows with keys `among` these, all in one file. Returns the keys of the rows.

    Nobody may change these rows meanwhile.
    """
    wanted = pa.array(sorted(among), pa.string())

    def there(path: Path) -> pa.Array:
        keys = pq.read_table(path, columns=[key])[key].combine_chunks()
        return keys.filter(pc.is_in(keys, wanted))

    path, keys = max(((path, there(path)) for path in live_files(mirror)), key=lambda each: len(each[1]))
    keys = keys.slice(0, MOST_ROWS)

    def changed(rows: pa.Table) -> pa.Table:
        place = rows.schema.get_field_index(column)
        values = pc.if_else(pc.is_in(rows[key], keys), value, rows.column(place))
        return rows.set_column(place, rows.schema.field(place), values)

    rewrite(path, changed)
    return frozenset(keys.to_pylist())


def live_files(table: Path) -> list[Path]:
    """Returns the files of a Delta table's newest version, by a log that still has all of its commits."""
    live: set[str] = set()
    for commit in sorted((table / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        live -= {action["remove"]["path"] for action in actions if "remove" in action}
        live |= {action["add"]["path"] for action in actions if "add" in action}
    return [table / path for path in sorted(live)]


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Gives a Parquet file other rows. It has as many bytes as before. Raises ValueError if they don't fit."""
    size, rows = path.stat().st_size, change(pq.read_table(path))
    made, padding = path.with_name(f"{path.name}.made"), 0
    for _ in range(_TRIES):
        with pq.ParquetWriter(
            made,
            rows.schema,
            compression="zstd",
            compression_level=9,
            write_statistics=False,
            store_schema=False,
        ) as writer:
            writer.write_table(rows)
            writer.add_key_value_metadata({"padding": "x" * padding})
        lacking = size - made.stat().st_size
        if lacking == 0:
            made.replace(path)
            (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
            return
        padding += lacking
        if padding < 0:
            break
    made.unlink()
    raise ValueError(f"the rows don't fit into the {size} bytes of {path}")
