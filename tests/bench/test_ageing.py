"""A journal that was made longer is one that a service continues."""

from contextlib import closing
from pathlib import Path

from actors.journal.store import JournalStore
from bench._ageing import lengthen_journal
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import Integer
from tests.integration.history import History

ORDERS = TableSchema(
    TableId("shop", "orders"), (Column("id", Integer(8, unsigned=False), nullable=False),), (0,)
)


def test_a_longer_journal_has_what_it_had_and_goes_on(tmp_path: Path) -> None:
    history = History(tmp_path / "journal")
    with closing(history.store):
        orders = history.table(ORDERS)
        history.transaction((orders, "c", (1,)))
        history.seal()
    lengthen_journal(str(tmp_path / "journal"), 40)
    with closing(JournalStore.open_single_writer(tmp_path / "journal", "test")) as history.store:
        last = history.store.recover()
        assert last is not None and last.segment == 41
        assert last.checkpoint == history.store.entry(1).checkpoint
        rows = [sum(file.rows for file in entry.files) for entry in history.store.entries(0, 41)]
        assert rows == [1, *[0] * 40]
        history.segment = orders.segment = 41
        history.transaction((orders, "c", (2,)))
        assert history.seal() == 42
