"""What a KafkaSink asks of its journal, without a broker."""

from contextlib import closing
from pathlib import Path

from actors.journal.store import JournalStore
from actors.kafka_sink import KafkaSink
from actors.runtime.mailbox import Mailbox
from actors.runtime.metrics import Metrics
from pipeline.config.settings import KafkaSinkSettings
from pipeline.journal.consumer_names import KAFKA_CONSUMER
from pipeline.messages.inboxes import ToKafkaSink
from pipeline.messages.topology import ActorName, inbox


def sink_of(store: JournalStore) -> KafkaSink:
    settings = KafkaSinkSettings(("localhost:9092",), "shop")
    mailbox: Mailbox[ToKafkaSink] = Mailbox(inbox(ActorName.KAFKA_SINK))
    return KafkaSink(mailbox, Metrics(), settings, "test", store, lambda _: None)


def test_it_knows_where_the_journal_ended_before_its_writer_began(tmp_path: Path) -> None:
    with closing(JournalStore.open_single_writer(tmp_path / "journal", "test")) as store:
        store.consumers.record_progress(KAFKA_CONSUMER, 3, 3)
        store.leave_unchecked(KAFKA_CONSUMER)
        sink = sink_of(store)
        bounds = sink._bounds()
        assert (bounds.unchecked_end, bounds.joined, bounds.confirmed) == (0, 3, True)
        store.consumers.checked(KAFKA_CONSUMER)
        assert sink._bounds().unchecked_end is None
