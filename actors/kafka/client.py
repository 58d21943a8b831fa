"""The options of every client of Kafka: the brokers, TLS and SASL.

The sink and the signals' channel share them.
"""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from functools import partialmethod
from traceback import walk_tb
from typing import Any, Final

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.client import AIOKafkaClient
from aiokafka.cluster import ClusterMetadata
from aiokafka.conn import collect_hosts, create_conn
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.metadata import MetadataRequest

from actors.runtime.secret_files import current_secret
from pipeline.config.settings import BrokerSettings

# aiokafka logs each attempt of each of its parts, ten lines a second. Our own log has the reason once a pause.
logging.getLogger("aiokafka").setLevel(logging.CRITICAL)

# A client asks for a topic without making it. Else a broker makes one that is missing or was removed, with the broker's
# own partitions and settings (auto.create.topics.enable, its default). No client of aiokafka's has an option for this.
MetadataRequest.__init__ = partialmethod(MetadataRequest.__init__, allow_auto_topic_creation=False)

_bootstrap = AIOKafkaClient.bootstrap


async def _bootstrap_or_close(client: AIOKafkaClient) -> None:
    """Finds the cluster. If it is cancelled, it closes the connection, which nothing but aiokafka's frame knows.

    aiokafka 0.14 would leave it open.
    """
    try:
        await _bootstrap(client)
    except asyncio.CancelledError as cancelled:
        for frame, _ in walk_tb(cancelled.__traceback__):
            if (connection := frame.f_locals.get("bootstrap_conn")) is not None:
                await connection.close()
        raise


AIOKafkaClient.bootstrap = _bootstrap_or_close

_update = AIOKafkaClient._metadata_update  # noqa: SLF001 - there's no option for what follows


async def _update_or_bootstrap(
    client: AIOKafkaClient, cluster: ClusterMetadata, topics: Collection[str]
) -> bool:
    """Asks the brokers that the client knows. If none answers, it finds the cluster again and asks once more.

    A client of aiokafka 0.14 knows the brokers of the last answer alone, and would ask them forever. Those that were
    down then, or are new, may be all that is left. Kafka's own client finds the cluster again too (KIP-899).
    """
    if await _update(client, cluster, topics):
        return True
    try:
        await client.bootstrap()
    except KafkaConnectionError:
        return False
    return bool(await _update(client, cluster, topics))


AIOKafkaClient._metadata_update = _update_or_bootstrap  # noqa: SLF001

# A broker that hasn't answered for so long is asked again.
BROKER_ANSWERS_WITHIN_S: Final = 10.0


def client_options(settings: BrokerSettings, pipeline: str) -> dict[str, Any]:
    """Returns the arguments that all of aiokafka's clients share."""
    options: dict[str, Any] = {
        "bootstrap_servers": list(settings.bootstrap_servers),
        "client_id": f"tidemark-{pipeline}",
        "request_timeout_ms": int(BROKER_ANSWERS_WITHIN_S * 1000),
        "security_protocol": settings.security_protocol.value,
    }
    if settings.security_protocol.encrypted:
        options["ssl_context"] = ssl.create_default_context(cafile=settings.ca)
    if settings.security_protocol.authenticated:
        options["sasl_mechanism"] = settings.sasl_mechanism.value
        options["sasl_plain_username"] = settings.sasl_username
        options["sasl_plain_password"] = current_secret(settings.sasl_password)
    return options


@asynccontextmanager
async def administrating(settings: BrokerSettings, pipeline: str) -> AsyncIterator[AIOKafkaAdminClient]:
    """A connected admin client. Raises a broker's answer if none lets us in."""
    options = client_options(settings, pipeline)
    admin = AIOKafkaAdminClient(**options)
    try:
        try:
            await admin.start()
        except KafkaConnectionError:
            # aiokafka says no more than that it has failed, whatever the broker's reason.
            await _connect_once(options)
            raise
        yield admin
    finally:
        await admin.close()


async def _connect_once(options: dict[str, Any]) -> None:
    """Connects to the first broker alone, which raises its reason."""
    host, port, *_ = collect_hosts(options.pop("bootstrap_servers"), randomize=False)[0]
    connection = await create_conn(host, port, **options)
    connection.close()
