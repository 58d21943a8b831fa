"""`tidemark check` for the topics: do the brokers let us in, and do they accept topics as the settings define them?

With Avro it also checks whether the schema registry lets us in.

It creates and writes nothing, and no transactional id gets a new epoch. So it doesn't disturb a running service.
"""

import asyncio
from typing import Final

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError

from actors.kafka.batches import MessageBatches
from actors.kafka.client import administrating
from actors.kafka.producer import failure, transactional_id
from actors.kafka.schema_registry import SchemaRegistry
from actors.kafka.topics import POSITION_CONFIG, create_topic, partitions_of, position_topic_of
from pipeline.config.settings import ConverterKind, KafkaSinkSettings
from pipeline.kafka.errors import KafkaRefused, KafkaUnavailable
from pipeline.source.finding import Finding, Severity

_WITHIN_S: Final = 30.0
_TRANSACTION: Final = 1  # a coordinator's kind, where a group's is 0


async def check_topics(settings: KafkaSinkSettings, pipeline: str) -> list[Finding]:
    """Returns what is wrong with the brokers, with our rights there, or with the topics."""
    found: list[Finding] = []
    try:
        async with asyncio.timeout(_WITHIN_S), administrating(settings, pipeline) as admin:
            looks = (
                _position_topic(admin, settings, pipeline),
                _topics_of_tables(admin, settings),
                *(_named_topic(admin, settings, each) for each in MessageBatches(settings).named_topics),
                _transactional_id(admin, pipeline),
            )
            for look in looks:
                try:
                    found += await look
                except (KafkaRefused, KafkaUnavailable) as error:
                    found.append(_finding(error))
    except (KafkaError, OSError, TimeoutError) as error:
        servers = ", ".join(settings.bootstrap_servers)
        found.append(_finding(failure(error, f"the broker at {servers}")))
    return [*found, *await _registry(settings)]


async def _registry(settings: KafkaSinkSettings) -> list[Finding]:
    if settings.converter is not ConverterKind.AVRO:
        return []
    try:
        await SchemaRegistry(settings).look()
    except (KafkaRefused, KafkaUnavailable) as error:
        wrong, _, remedy = str(error).partition("; ")
        return [
            Finding(Severity.ERROR, wrong, remedy or "see to kafka.schema_registry_url, or to the registry")
        ]
    return []


def _finding(error: KafkaRefused | KafkaUnavailable) -> Finding:
    wrong, _, remedy = str(error).partition("; ")
    return Finding(Severity.ERROR, wrong, remedy or "see to kafka.bootstrap_servers, or to the brokers")


async def _position_topic(
    admin: AIOKafkaAdminClient, settings: KafkaSinkSettings, pipeline: str
) -> list[Finding]:
    topic = position_topic_of(settings, pipeline)
    count = await _there(admin, topic)
    if count is None and not settings.create_topics:
        wrong = f"{topic}: there's no such topic"
        return [Finding(Severity.ERROR, wrong, "create it, compacted and with a single partition")]
    if count is None:
        return await _creatable(admin, settings, topic, 1, POSITION_CONFIG)
    if count > 1:
        wrong = f"the position topic {topic} has {count} partitions, in which positions have no order"
        return [Finding(Severity.ERROR, wrong, "name one with a single partition in kafka.position_topic")]
    policy = await topic_setting(admin, topic, "cleanup.policy")
    if policy is not None and "compact" not in policy:
        wrong = f"the position topic {topic} isn't compacted: the broker will remove the position"
        return [Finding(Severity.ERROR, wrong, "set its cleanup.policy to compact")]
    return []


async def _topics_of_tables(admin: AIOKafkaAdminClient, settings: KafkaSinkSettings) -> list[Finding]:
    prefix = f"{settings.topic_prefix}{settings.topic_delimiter}"
    for topic in sorted(await admin.list_topics()):
        count = await _there(admin, topic) if topic.startswith(prefix) else None
        if count is not None and count != settings.partitions:
            wrong = f"{topic} has {count} partitions, and kafka.partitions is {settings.partitions}"
            return [
                Finding(Severity.WARNING, wrong, "the sink takes the topics as they are; see to other ones")
            ]
    return await _creatable(
        admin, settings, f"{prefix}tidemark.check", settings.partitions, settings.topic_config
    )


async def _named_topic(admin: AIOKafkaAdminClient, settings: KafkaSinkSettings, topic: str) -> list[Finding]:
    """Returns the findings of a topic that the settings request and that is not a table's."""
    if await _there(admin, topic) is not None:
        return []
    if not settings.create_topics:
        return [Finding(Severity.ERROR, f"{topic}: there's no such topic", "create it")]
    return await _creatable(admin, settings, topic, settings.partitions, settings.topic_config)


async def _transactional_id(admin: AIOKafkaAdminClient, pipeline: str) -> list[Finding]:
    """Returns whether we may use it. A broker that has had no transaction yet answers that it doesn't know."""
    try:
        await admin._client.coordinator_lookup(_TRANSACTION, transactional_id(pipeline))  # noqa: SLF001 - no other way
    except KafkaError as error:
        if isinstance(refused := failure(error), KafkaRefused):
            raise refused from error
    return []


async def _there(admin: AIOKafkaAdminClient, topic: str) -> int | None:
    try:
        return await partitions_of(admin, topic)
    except KafkaError as error:
        raise failure(error, topic) from error


async def _creatable(
    admin: AIOKafkaAdminClient,
    settings: KafkaSinkSettings,
    topic: str,
    partitions: int,
    config: dict[str, str],
) -> list[Finding]:
    """Returns whether the brokers would create the topic."""
    if not settings.create_topics:
        return []
    try:
        await create_topic(admin, settings, topic, partitions, config, dry=True)
    except KafkaError as error:
        raise failure(error, topic) from error
    return []


async def topic_setting(admin: AIOKafkaAdminClient, topic: str, name: str) -> str | None:
    """Returns a topic's setting; None if the account may not read it."""
    answers = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {name: None})])
    for answer in answers:
        for _, _, _, _, entries in answer.resources:
            for entry in entries:
                return str(entry[1])
    return None
