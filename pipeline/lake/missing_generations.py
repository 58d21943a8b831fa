"""A consumer that comes late: some of the segments that it lacks have gone.

It was added after they went, or what it had written was removed, or it was forgotten and came back. What has gone can't
be had from the journal, but the source still has the tables. So each table's mirror begins anew: a *generation*
(`pipeline.snapshot.checkpoint.Mirror`) begins empty behind its SCN, and every row that comes after that is its own. A
table can be taken as soon as its generation's SCN isn't before the journal's beginning, the last SCN that has gone:
then the journal has all of the generation. Until the segment with such a generation, the consumer leaves the table out,
and asks for it. Whoever is asked (the coordinator) begins a generation anew only if it's still the one that was meant,
so that asking again, in a later run or because the question got lost, is harmless; and what has become of the question
can be read in the journal, and needn't be remembered.

A table without a mirror has changes only, and is taken from the journal's beginning.
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
