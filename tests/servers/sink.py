"""Where the requests of a SparkSink go, in tests without a coordinator."""

from typing import Any

from actors.runtime.actor import Sender
from actors.runtime.mailbox import Mailbox
from actors.spark_sink import SparkSinkPorts
from pipeline.messages.journal import DifferencesReported, MirrorDataExpired
from pipeline.messages.topology import EDGES, ActorName


def sink_ports(coordinator: Mailbox[Any]) -> SparkSinkPorts:
    """Returns ports that end in the coordinator's mailbox."""
    asking, reporting = (
        next(edge for edge in EDGES if edge.sender is ActorName.SPARK_SINK and message in edge.messages)
        for message in (MirrorDataExpired, DifferencesReported)
    )
    return SparkSinkPorts(Sender(asking, coordinator), Sender(reporting, coordinator))
