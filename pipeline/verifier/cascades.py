"""Foreign keys whose effects aren't in the log, and the tables that may have changed along with another one.

InnoDB carries out ON DELETE and ON UPDATE by itself, below the log. Since MySQL 9.6 the server does it, and logs it,
unless it's configured not to. The changed rows can't be known. The log has only the parent's row, and a row that was
deleted with it can't be read any more. So Tidemark reads all of a table again if its rows may have changed.

Statements add foreign keys while capture runs. Their text isn't parsed for these: the server is queried again after
each statement that may have altered a table. The effects of its new foreign keys since then are unknown. So their
tables are read again at once, and from then on like the others. Removed foreign keys stay known, which costs an
unneeded read.

A start knows the foreign keys of the server's present, and the log may be older. So the checkpoint has those that are
followed (`ForeignKeysFollowed`). Of these the server may have some no longer, or it may log their effects by now. They
are followed until everything has passed that the server had executed when it was asked. Their tables are read again
then, if the parents' changes aren't seen. Those that the checkpoint lacks are new.

Changes that the log has without their rows, or without names for their columns, work along foreign keys, too.

Source: MySQL 9.7 Reference Manual, "FOREIGN KEY Constraints", and `innodb_native_foreign_keys` there.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from pipeline.gtid.gtid_set import Gtid, GtidSet
from pipeline.messages.binlog import RowsUnread
from pipeline.messages.changes import MirrorInvalidated, TableStopped
from pipeline.messages.row_images import ImageKind, TableChanges, images_with
from pipeline.schema.foreign_key import ForeignKey
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId, TableSchema

CASCADED = (
    "a foreign key may have changed its rows along with those of {parents}, and the log doesn't say which"
)
_ORPHANED = (
    "a foreign key changes its rows along with those of {parents}, which is stopped, so that the times are unknown; "
    "fix what stopped that one, and recapture both"
)
_REFUSED = (
    "a foreign key that came meanwhile changes its rows along with those of {parents}, and this server doesn't log "
    'that; drop it, or set snapshot.foreign_keys = "reread" and capture both'
)
_GIVEN = "a foreign key that came meanwhile may have changed its rows, and the log doesn't say which"
_KEYLESS = "{reason}; it has no primary key, so that it can't be read again: give it one, and recapture it"


@dataclass(frozen=True, slots=True)
class OutdatedForeignKeys:
    """The tables that may have other foreign keys by now: the server hasn't been queried since these statements.

    `reread`: whether tables that foreign keys change are read again; otherwise they stop.
    """

    reread: bool
    tables: Mapping[TableId, GtidSet] = field(default_factory=dict)

    def mark_altered(self, tables: Collection[TableId], gtid: Gtid) -> "OutdatedForeignKeys":
        """A statement may have given them others."""
        statements = {table: self.tables.get(table, GtidSet()).with_gtid(gtid) for table in tables}
        return replace(self, tables={**self.tables, **statements})

    def drop_answered(self, at: GtidSet) -> "OutdatedForeignKeys":
        """Returns what is outdated after a query at which the server had executed `at`."""
        return replace(self, tables={t: gtids for t, gtids in self.tables.items() if not gtids <= at})


def cascaded_tables(keys: Iterable[ForeignKey], changes: TableChanges) -> frozenset[TableId]:
    """Returns the tables whose rows may have changed along with these. Another foreign key may continue a change."""
    known = tuple(keys)
    begun = {k.child for k in known if k.parent == changes.schema.table and _works(k, changes)}
    return changed_along(known, begun) if begun else frozenset()


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
    """Whether an update may have given a row other values in the columns that are referred to."""
    before = np.flatnonzero(kinds == ImageKind.UPDATE_BEFORE)
    if not before.size:
        return False
    if not set(key.columns) <= {column.name for column in changes.schema.columns}:
        return True  # they have other names by now
    if any(_appears(name, changes, before) for name in key.columns):
        return True
    rows = changes.rows.select(list(key.columns))
    return not rows.take(before).equals(rows.take(before + 1))


def _appears(column: str, changes: TableChanges, before: npt.NDArray[np.intp]) -> bool:
    """Whether an update sets a column that its before image lacks. A value to compare is missing, so any may be new."""
    names = [each.name for each in changes.schema.columns]
    given = images_with(changes.images.column("absent"), names.index(column))
    return bool((given[before + 1] & ~given[before]).any())


def find_cascades(
    keys: Collection[ForeignKey],
    changes: Iterable[TableChanges],
    before: Mapping[TableId, frozenset[TableId]],
) -> Mapping[TableId, frozenset[TableId]]:
    """Returns the tables that foreign keys may have changed along with these changes, and the tables that began it.

    It includes those found `before` in the same transaction. It walks the keys once for a slice, and again only for a
    table that is a parent: a slice may have rows of thousands of tables, and these thousands of keys.
    """
    found, parents = dict(before), {key.parent for key in keys}
    for each in (every for every in changes if every.schema.table in parents):
        for child in cascaded_tables(keys, each):
            found[child] = found.get(child, frozenset()) | {each.schema.table}
    return found


def restarts_after_cascades(
    parents: Mapping[TableId, frozenset[TableId]], ended: Collection[TableId]
) -> tuple[MirrorInvalidated, ...]:
    """Returns the restarts of these tables (`find_cascades`), except stopped ones."""
    return tuple(
        MirrorInvalidated(child, CASCADED.format(parents=", ".join(map(str, sorted(parents[child])))))
        for child in sorted(parents.keys() - set(ended))
    )


def restarts_after_unseen(
    unseen: Iterable[ForeignKey], keys: Collection[ForeignKey], ended: Collection[TableId]
) -> tuple[MirrorInvalidated, ...]:
    """Returns the restarts of tables that these foreign keys may have changed, as their parents' changes aren't seen.

    `keys`: those along which the changes may continue.
    """
    parents: dict[TableId, frozenset[TableId]] = {}
    for key in unseen:
        for child in changed_along(keys, {key.child}):
            parents[child] = parents.get(child, frozenset()) | {key.parent}
    return restarts_after_cascades(parents, ended)


def effects_of_new_keys(
    keys: Collection[ForeignKey],
    new: Collection[ForeignKey],
    captured: TableFilter,
    ended: Collection[TableId],
    *,
    reread: bool,
) -> tuple[tuple[TableStopped, ...], tuple[MirrorInvalidated, ...]]:
    """Returns the tables that stop because some of `keys` are `new`, and those that restart.

    A table stops if its foreign keys can't be followed: without `reread`, or if the parent isn't captured.
    """
    parents: dict[TableId, set[TableId]] = {}
    for key in new:
        if key.child not in ended and not (reread and captured.match(key.parent)):
            parents.setdefault(key.child, set()).add(key.parent)
    stops = tuple(
        TableStopped(child, _REFUSED.format(parents=" and ".join(map(str, sorted(parents[child])))))
        for child in sorted(parents)
    )
    changed = changed_along(keys, {key.child for key in new}) - parents.keys() - set(ended)
    return stops, tuple(MirrorInvalidated(table, _GIVEN) for table in sorted(changed))


def stop_orphans(keys: Collection[ForeignKey], ended: Collection[TableId]) -> tuple[TableStopped, ...]:
    """Returns the tables that stop with these, because foreign keys from these change them, and nothing is known of
    these any more."""
    parents: dict[TableId, set[TableId]] = {}
    lost = set(ended)
    while more := [key for key in keys if key.parent in lost and key.child not in lost]:
        for key in more:
            parents.setdefault(key.child, set()).add(key.parent)
        lost |= parents.keys()
    return tuple(
        TableStopped(child, _ORPHANED.format(parents=" and ".join(map(str, sorted(parents[child])))))
        for child in sorted(parents)
    )


def restarts_after_gaps(
    unnamed: Mapping[TableId, str], keys: Collection[ForeignKey], ended: Collection[TableId]
) -> tuple[MirrorInvalidated, ...]:
    """Returns the restarts of the tables with omitted changes, whose columns have no known names.

    It includes the tables that foreign keys may have changed along with them.
    """
    cascade = CASCADED.format(parents=", ".join(map(str, sorted(unnamed))))
    return tuple(
        MirrorInvalidated(table, unnamed.get(table, cascade), gap=table in unnamed)
        for table in sorted(changed_along(keys, unnamed) - set(ended))
    )


def effects_of_unread_rows(
    unread: Iterable[RowsUnread],
    keys: Collection[ForeignKey],
    told: Mapping[TableId, TableSchema],
    there: Collection[TableId],
) -> tuple[tuple[TableStopped, ...], tuple[MirrorInvalidated, ...]]:
    """Returns the tables, of those that are `there`, to read again, and those without a key for that.

    If any table may be meant, a table without a key continues, because most likely it isn't. It stops if the log has
    lost changes (like a gap without a mirror), or if a scan has read it (`Checkpoint.scanned`).
    """
    stops: dict[TableId, TableStopped] = {}
    restarts: dict[TableId, MirrorInvalidated] = {}
    for each in sorted(unread, key=lambda each: each.lost):  # what is lost comes last, and holds
        meant = changed_along(keys, [table for table in there if _meant(each, table)]) & frozenset(there)
        for table in sorted(meant):
            keyed = table not in told or bool(told[table].key)
            if each.lost or keyed or each.databases is None:
                restarts[table] = MirrorInvalidated(table, each.reason, gap=each.lost)
            else:
                stops[table] = TableStopped(table, _KEYLESS.format(reason=each.reason))
    return tuple(stops.values()), tuple(each for table, each in restarts.items() if table not in stops)


def _meant(unread: RowsUnread, table: TableId) -> bool:
    """The case of databases is ignored, as by some servers, which is the safe side."""
    if unread.databases is None or table in unread.tables:
        return True
    return table.database.casefold() in {name.casefold() for name in unread.databases}
