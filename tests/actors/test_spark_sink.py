"""What of the sink needs no Spark; the rest is in tests/integration/lake/test_spark_sink.py."""

from pathlib import Path

from actors.runtime.actor import Sender
from actors.runtime.mailbox import Mailbox
from actors.runtime.metrics import Metrics
from actors.spark_sink import SparkSink
from pipeline.config.settings import LakeSettings, SparkSettings
from pipeline.messages.topology import EDGES, ActorName, inbox
from tests.integration.history import History


async def test_each_call_that_ends_is_progress_of_a_batch(tmp_path: Path) -> None:
    history = History(tmp_path / "journal")
    (edge,) = (edge for edge in EDGES if edge.sender is ActorName.SPARK_SINK)
    sink = SparkSink(
        Mailbox(inbox(ActorName.SPARK_SINK)),
        Metrics(),
        LakeSettings(str(tmp_path / "lake")),
        SparkSettings(),
        history.store,
        Sender(edge, Mailbox(inbox(edge.receiver))),
    )

    def busy_since() -> float | None:
        return sink._busy_since

    sink.beat()
    began = busy_since()
    await sink._in_thread(lambda: None)
    later = busy_since()
    assert began is not None and later is not None
    assert later > began
    sink.rest()
    await sink._in_thread(lambda: None)  # beside the batches
    assert busy_since() is None
    await sink.release()
    history.store.close()
