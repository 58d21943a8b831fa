"""A consumer that comes late: the journal no longer has some of the segments that it lacks.

It was added later, or somebody removed what it had written, or it was forgotten and came back. The journal can't give
what it removed, but the source still has the tables. So each table's mirror begins again: a *generation*
(`pipeline.snapshot.checkpoint.Mirror`) begins empty after its SCN, and every later row belongs to it. The consumer can
take a table as soon as the SCN of its generation isn't before the last SCN that was removed. Then the journal has the
complete generation. Until the segment with such a generation, the consumer leaves the table out and requests one. The
coordinator begins a generation again only if it is still the one that the request names. So a request that is repeated
or was lost does no harm. The journal shows what came of it, so nothing has to be remembered.

A table without a mirror has only changes, and is taken from the journal's beginning.
"""

from collections.abc import Collection

from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Checkpoint


def incomplete_generations(
    tables: Collection[TableId], checkpoint: Checkpoint, beginning: int
) -> dict[TableId, int]:
    """Those of the tables whose generation at this checkpoint lacks rows, with its `since`.

    `beginning`: the last SCN that has gone from the journal.
    """
    return {
        table: mirror.since
        for table, mirror in checkpoint.mirrors.items()
        if table in tables
        and table in checkpoint.schemas
        and table not in checkpoint.stopped
        and mirror.since < beginning
    }
