"""Foreign keys whose effects aren't in the log, and the tables that may have changed along with another one.

InnoDB carries out ON DELETE and ON UPDATE by itself, below the log. Since MySQL 9.6 the server does it, and logs it,
unless it's configured not to. The changed rows can't be known: the log has only the parent's row, and a row that was
deleted with it can't be read any more. So Tidemark reads all of a table again if its rows may have changed.

Statements add foreign keys while capture runs. Their text isn't parsed for these: the server is queried again after
each statement that may have altered a table. The effects of its new foreign keys since then are unknown, so their
tables are read again at once, and from then on like the others. Removed foreign keys stay known, which costs an
unneeded read.

Source: MySQL 9.7 Reference Manual, "FOREIGN KEY Constraints", and `innodb_native_foreign_keys` there.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from pipeline.gtid.gtid_set import Gtid, GtidSet
from pipeline.messages.row_images import ImageKind, TableChanges
from pipeline.schema.foreign_key import ForeignKey
from pipeline.schema.table_schema import TableId


@dataclass(frozen=True, slots=True)
class OutdatedForeignKeys:
    """The tables that may have other foreign keys by now: the server hasn't been queried since these statements.

    `reread`: whether tables that foreign keys change are read again; otherwise they stop.
    """

    reread: bool
    tables: Mapping[TableId, GtidSet] = field(default_factory=dict)

    def altered(self, tables: Collection[TableId], gtid: Gtid) -> "OutdatedForeignKeys":
        """A statement may have given them others."""
        statements = {table: self.tables.get(table, GtidSet()).with_gtid(gtid) for table in tables}
        return replace(self, tables={**self.tables, **statements})

    def asked(self, at: GtidSet) -> "OutdatedForeignKeys":
        """Returns what is outdated after a query at which the server had executed `at`."""
        return replace(self, tables={t: gtids for t, gtids in self.tables.items() if not gtids <= at})


def cascaded_tables(keys: Iterable[ForeignKey], changes: TableChanges) -> frozenset[TableId]:
    """Returns the tables whose rows may have changed along with these. Another foreign key may continue a change."""
    known = tuple(keys)
    return changed_along(
        known, {k.child for k in known if k.parent == changes.schema.table and _works(k, changes)}
    )


def changed_along(keys: Collection[ForeignKey], changed: Collection[TableId]) -> frozenset[TableId]:
    """The tables whose rows may have changed if those of `changed` have, with these."""
    found = set(changed)
    while more := {key.child for key in keys if key.parent in found} - found:
        found |= more
    return frozenset(found)


def _works(key: ForeignKey, changes: TableChanges) -> bool:
    kinds = changes.images.column("kind").to_numpy()
    if key.deletes and bool((kinds == ImageKind.DELETE).any()):
        return True
    return key.updates and _changes_referred(key, changes, kinds)


def _changes_referred(key: ForeignKey, changes: TableChanges, kinds: npt.NDArray[np.int8]) -> bool:
    """Whether an update gave a row other values in the columns that are referred to."""
    before = np.flatnonzero(kinds == ImageKind.UPDATE_BEFORE)
    if not set(key.columns) <= {column.name for column in changes.schema.columns}:
        return bool(before.size)  # they have other names by now
    rows = changes.rows.select(list(key.columns))
    return bool(before.size) and not rows.take(before).equals(rows.take(before + 1))
