"""What each client of Kafka is told: where the brokers are, and how they are spoken to."""

import logging
import ssl
from typing import Any, Final

from actors.runtime.secret_files import current
from pipeline.config.settings import BrokerSettings

# It tells each attempt of each of its parts, ten lines a second; what's the matter is told by us, once a pause.
logging.getLogger("aiokafka").setLevel(logging.CRITICAL)

# A broker that hasn't answered for so long is asked again.
ANSWERS_WITHIN_S: Final = 10.0


def client_options(settings: BrokerSettings, pipeline: str) -> dict[str, Any]:
    """The arguments that all of aiokafka's clients have in common."""
    options: dict[str, Any] = {
        "bootstrap_servers": list(settings.bootstrap_servers),
        "client_id": f"tidemark-{pipeline}",
        "request_timeout_ms": int(ANSWERS_WITHIN_S * 1000),
        "security_protocol": settings.security_protocol.value,
    }
    if settings.security_protocol.encrypted:
        options["ssl_context"] = ssl.create_default_context(cafile=settings.ca)
    if settings.security_protocol.authenticated:
        options["sasl_mechanism"] = settings.sasl_mechanism.value
        options["sasl_plain_username"] = settings.sasl_username
        options["sasl_plain_password"] = current(settings.sasl_password)
    return options
