"""Errors in making messages, as refusals of one topic: they delay no other topic.

Whatever is wrong with values of a table or with a text, the same attempt fails the same way. So the sink sets the topic
aside and tries it again now and then. A broken invariant still ends the process. What Kafka doesn't take for now stays
a transient error.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from actors.runtime.redaction import safe_message
from pipeline.errors import InvariantBroken, Transient
from pipeline.kafka.errors import KafkaRefused, TableRefusal, TopicRefusal
from pipeline.schema.table_schema import TableId


@contextmanager
def refused_as_rows(topic: str, table: TableId) -> Iterator[None]:
    """Raises TableRefusal of the table's own topic for any error of making messages of its rows."""
    try:
        yield
    except (InvariantBroken, Transient, TableRefusal):
        raise
    except KafkaRefused as error:
        raise TableRefusal(topic, str(error)) from error
    except Exception as error:
        raise TableRefusal(
            topic,
            f"a row of {table} makes no message ({safe_message(error)}); leave the column out with "
            "kafka.column_exclude_list, or the table with kafka.tables, and report it",
        ) from error


@contextmanager
def refused_as_messages(topic: str) -> Iterator[None]:
    """Raises TopicRefusal for any error of making a topic's messages that isn't Kafka's or the registry's."""
    try:
        yield
    except (InvariantBroken, Transient, KafkaRefused):
        raise
    except Exception as error:
        raise TopicRefusal(
            topic, f"a message can't be made ({safe_message(error)}); leave its source out, and report it"
        ) from error


def position_refused(topic: str, of_table: str | None) -> TopicRefusal:
    """Returns the refusal of messages that would go to the topic of our position, after which no start could read it.

    `of_table`: the topic of the table whose rows they are, None if they are others.
    """
    if of_table is None:
        return TopicRefusal(
            topic, "it has the sink's position; give it a name of its own with kafka.position_topic"
        )
    return TableRefusal(
        of_table,
        f"its rows go to {topic}, which has the sink's position; let them name another topic, leave the table out with "
        "kafka.tables, or name another topic with kafka.position_topic",
    )
