"""The topics: how fresh they are, and what a Kafka transaction takes."""

from typing import Final

from grafana.boards import Board, Row
from grafana.overview import FRESHNESS
from grafana.panels import Limits, Query, Words, only, series_panel, stat_panel
from grafana.promql import Scope
from pipeline import metrics as of

CHOSEN: Final = Scope(("table",))

_FRESH: Final = Row(
    "How fresh are the topics?",
    (
        stat_panel(
            "Fresh, 95 %",
            Words(
                "The time from commit until a topic has it, for 95 % of the last five minutes' Kafka transactions.",
                "Above a second: slower than usual. Above a minute: consumers notice.",
                "See how long a Kafka transaction takes, and how many segments wait.",
            ),
            Query(f"{CHOSEN.quantile(0.95, of.KAFKA_FRESHNESS, window='5m')} >= 0"),
            "s",
            FRESHNESS,
            nothing="no changes",
            width=6,
        ),
        stat_panel(
            "Topics lag",
            Words(
                "How much older the newest change in the topics is than the newest one in the journal.",
                "It grows: the topics are slower than capture, or have stopped.",
                "See the last failure of KafkaSink.",
            ),
            Query(f"{CHOSEN.max(of.SEALED_COMMIT)} - {CHOSEN.max(of.KAFKA_COMMIT)}"),
            "s",
            FRESHNESS,
            width=6,
        ),
        stat_panel(
            "Segments to send",
            Words(
                "Segments that are sealed and that the topics lack.",
                "It grows for minutes. A Kafka transaction takes all that wait, so some dozens are normal.",
                "See the last failure of KafkaSink.",
            ),
            Query(f"{CHOSEN.max(of.SEALED_SEGMENT)} - {CHOSEN.max(of.KAFKA_SEGMENT)}"),
            "none",
            Limits(200, 2_000),
            width=6,
        ),
        stat_panel(
            "Connected",
            Words(
                "Whether the KafkaSink is connected to its brokers.",
                "0 for longer than a minute: the sink sends nothing, and the journal fills.",
                "The log's `failed` of KafkaSink says why: the network, a right, or a topic's setting.",
            ),
            Query(CHOSEN.max(of.KAFKA_UP)),
            "none",
            only(1, falling=True),
            width=6,
        ),
    ),
)

_WORK: Final = Row(
    "What does it send?",
    (
        series_panel(
            "Messages",
            Words(
                "Messages in committed Kafka transactions in a second, by table, tombstones included.",
                "None while segments wait.",
                "See the last failure of KafkaSink.",
            ),
            [Query(CHOSEN.rate(of.KAFKA_SENT, "table"), "{{table}}")],
            "short",
            width=8,
        ),
        series_panel(
            "A Kafka transaction",
            Words(
                "How long a Kafka transaction takes: half are faster, one in a hundred slower.",
                "Near kafka.transaction_timeout_s: then the broker aborts it.",
                "Lower kafka.transaction_rows, or raise the time-out.",
            ),
            [
                Query(f"{CHOSEN.quantile(0.5, of.KAFKA_TRANSACTION)} >= 0", "half"),
                Query(f"{CHOSEN.quantile(0.99, of.KAFKA_TRANSACTION)} >= 0", "99 %"),
            ],
            "s",
            width=8,
        ),
        series_panel(
            "Bytes",
            Words(
                "Bytes of messages in a second, before compression.",
                "Near what the network or the brokers take.",
                "Set kafka.compression_type, or leave tables out with kafka.tables.",
            ),
            [Query(CHOSEN.rate(of.KAFKA_BYTES), "bytes")],
            "Bps",
            width=8,
        ),
    ),
)

KAFKA: Final = Board(
    "kafka",
    "How fresh are the topics, and what do Kafka transactions take?",
    ("table",),
    (_FRESH, _WORK),
)
