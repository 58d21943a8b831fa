"""What the refusals of a schema registry mean.

An error that may vanish by itself is transient. An error that only a person can fix is definite: it concerns one
topic's schema, or all of them. So is a failure for one schema of a registry that answers otherwise: it may last.

Source: Confluent Schema Registry, "API Reference", Subjects and Errors; Apicurio Registry gives the same answers
(ccompat v7).
"""

from typing import Final

from pipeline.kafka.errors import KafkaRefused, KafkaUnavailable, TopicRefusal

_WRONG: Final = (400, 413)
_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_UNPROCESSABLE: Final = 422
_LOGIN: Final = (401, 403)
_BUSY: Final = (408, 429)
_FAILS: Final = 500


def schema_failure(
    status: int, told: str, topic: str, subject: str, *, registering: bool
) -> KafkaUnavailable | KafkaRefused:
    """Returns our error for a status that isn't a success; `told` has the registry's words.

    `subject`: of which schema of a topic. `registering`: whether the sink wanted to register it, or to look it up.
    """
    if status == _CONFLICT:
        return TopicRefusal(
            topic,
            f"the schema registry says that the schema of {subject} isn't compatible with the one before "
            f"({status}: {told}); set another compatibility level for {subject} there, or remove the subject",
        )
    if status == _FORBIDDEN:
        return TopicRefusal(
            topic,
            f"the schema registry doesn't let us use the subject {subject} ({status}: {told}); give the account rights "
            "to the subjects of all topics",
        )
    if status == _UNPROCESSABLE or status in _WRONG:
        return TopicRefusal(
            topic,
            f"the schema registry takes no such schema of {subject} ({status}: {told}); leave the column out with "
            "kafka.column_exclude_list, or the table with kafka.tables",
        )
    if status == _NOT_FOUND and not registering:
        return TopicRefusal(
            topic,
            f"the schema registry doesn't have the schema of {subject} ({status}: {told}); register it there, or set "
            "kafka.auto_register_schemas = true",
        )
    return registry_failure(status, told)


def schema_fails(topic: str, subject: str, why: str) -> TopicRefusal:
    """Returns our error for a registry that fails for one subject and answers otherwise, and `why`."""
    return TopicRefusal(
        topic,
        f"the schema registry answers, and fails for the subject {subject} ({why}); see to the registry's log, or "
        "leave the table out with kafka.tables",
    )


def registry_failure(status: int, told: str) -> KafkaUnavailable | KafkaRefused:
    """Returns our error for a status that isn't a success and doesn't concern a schema."""
    if status in _LOGIN:
        return KafkaRefused(
            f"the schema registry doesn't let us in ({status}); see to kafka.schema_registry_username and "
            "kafka.schema_registry_password_file, and to the rights there"
        )
    if status >= _FAILS or status in _BUSY:
        return KafkaUnavailable(f"the schema registry fails ({status}: {told})")
    return KafkaRefused(
        f"there's no schema registry at kafka.schema_registry_url ({status}: {told}); name the address that "
        "/subjects comes after"
    )
