"""Tables that begin anew, since their rows changed and the log doesn't tell how."""

from collections.abc import Collection, Iterable, Mapping

from pipeline.ddl import Unlogged
from pipeline.foreign_keys import ForeignKey, cascaded
from pipeline.gtid import Gtid
from pipeline.messages import TableChanges, TableRestarted, TableStopped
from pipeline.schema import TableId
from pipeline.unlogged import Effect

_LOST = (
    "{what} ({gtid}): it doesn't keep its rows any more; it stays stopped in this journal: to have it again, capture "
    "it with a journal and a lake of its own, and snapshot it there"
)
_UNLOGGED = "{what} ({gtid}) changed its rows, and the log doesn't tell which"
_CASCADED = (
    "a foreign key may have changed its rows along with those of {parents}, and the log doesn't tell which"
)


def by_statement(
    unlogged: Mapping[TableId, Unlogged], gtid: Gtid, ended: Collection[TableId]
) -> tuple[tuple[TableStopped, ...], tuple[TableRestarted, ...]]:
    """The tables that stop with a statement, since they keep no rows any more, and those that are restarted.

    `ended`: those that have stopped already.
    """
    stops: list[TableStopped] = []
    restarts: list[TableRestarted] = []
    for table in sorted(unlogged.keys() - set(ended)):
        what, effect = unlogged[table].what, unlogged[table].effect
        if effect is Effect.LOST:
            stops.append(TableStopped(table, _LOST.format(what=what, gtid=gtid)))
        else:
            reason = _UNLOGGED.format(what=what, gtid=gtid)
            restarts.append(TableRestarted(table, effect is Effect.EMPTIED, reason))
    return tuple(stops), tuple(restarts)


def parents_of(
    keys: Collection[ForeignKey], changes: Iterable[TableChanges]
) -> dict[TableId, frozenset[TableId]]:
    """The tables that foreign keys may have changed along with these changes, and the tables that began it."""
    found: dict[TableId, frozenset[TableId]] = {}
    for each in changes if keys else ():
        for child in cascaded(keys, each):
            found[child] = found.get(child, frozenset()) | {each.schema.table}
    return found


def by_foreign_keys(
    parents: Mapping[TableId, frozenset[TableId]], ended: Collection[TableId]
) -> tuple[TableRestarted, ...]:
    """The restarts of these tables (`parents_of`), but of those that have stopped."""
    return tuple(
        TableRestarted(child, False, _CASCADED.format(parents=", ".join(map(str, sorted(parents[child])))))
        for child in sorted(parents.keys() - set(ended))
    )
