"""A client of a schema registry with Confluent's API. It returns the id of each schema.

It asks for an id once and keeps it, because a registry never changes one. It retries a transient failure for a few
seconds.

Source: Confluent Schema Registry, "API Reference".
"""

import asyncio
import json
import ssl
from dataclasses import dataclass
from typing import Any, Final

import aiohttp

from actors.runtime.redaction import safe_message
from actors.runtime.secret_files import current_secret
from pipeline.config.settings import KafkaSinkSettings
from pipeline.kafka.avro.avro_schema import avro_text
from pipeline.kafka.debezium.connect_schema import Schema
from pipeline.kafka.errors import KafkaRefused, KafkaUnavailable
from pipeline.kafka.registry import registry_failure, schema_failure

REGISTRY_ANSWERS_WITHIN_S: Final = 10.0
# How often a request is tried that fails for now, and the first pause (s); each further one is twice as long.
_ATTEMPTS: Final = 4
_PAUSE_S: Final = 0.2

_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_MOST_WORDS: Final = 300


@dataclass(frozen=True, slots=True)
class _Question:
    """The question for the id of a schema of a topic under a subject."""

    topic: str
    subject: str
    schema: str


class SchemaRegistry:
    """The registry of the settings. Raises KafkaUnavailable and KafkaRefused, or TopicRefusal for one topic."""

    def __init__(self, settings: KafkaSinkSettings) -> None:
        assert settings.schema_registry_url is not None
        self._settings = settings
        self._url = settings.schema_registry_url.rstrip("/")
        self._ids: dict[_Question, int] = {}

    async def id_of(self, topic: str, part: str, schema: Schema) -> int:
        """Returns the id of the Avro schema of a topic's `key`s or `value`s. Registers it if the settings say so."""
        asked = _Question(topic, f"{topic}-{part}", avro_text(schema))
        if asked not in self._ids:
            self._ids[asked] = await self._asked(asked)
        return self._ids[asked]

    async def look(self) -> None:
        """Raises if the registry doesn't answer or doesn't let us in."""
        await self._request("GET", "/subjects", None)

    async def _asked(self, asked: "_Question") -> int:
        path = f"/subjects/{asked.subject}" + ("/versions" if self._settings.auto_register_schemas else "")
        pause = _PAUSE_S
        for _ in range(_ATTEMPTS - 1):
            try:
                return int((await self._request("POST", path, asked))["id"])
            except KafkaUnavailable:
                await asyncio.sleep(pause)
                pause *= 2
        return int((await self._request("POST", path, asked))["id"])

    async def _request(self, method: str, path: str, asked: "_Question | None") -> Any:
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(REGISTRY_ANSWERS_WITHIN_S)) as session,
                session.request(
                    method,
                    self._url + path,
                    data=None if asked is None else json.dumps({"schema": asked.schema}),
                    headers=self._headers(),
                    ssl=self._tls(),
                ) as answer,
            ):
                text = await answer.text()
                if answer.status >= 300:
                    raise self._failure(answer.status, _words(text), asked)
                return json.loads(text)
        except aiohttp.ClientConnectorCertificateError as error:
            raise KafkaRefused(
                "the schema registry's certificate isn't to be trusted; name the file of its authority's certificate "
                "in kafka.schema_registry_ca"
            ) from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise KafkaUnavailable(f"the schema registry doesn't answer ({safe_message(error)})") from error
        except ValueError as error:
            raise KafkaRefused(
                f"what answers at kafka.schema_registry_url is no schema registry ({safe_message(error)}); name the "
                "address that /subjects comes after"
            ) from error

    def _failure(self, status: int, told: str, asked: "_Question | None") -> KafkaUnavailable | KafkaRefused:
        if asked is None:
            return registry_failure(status, told)
        registering = self._settings.auto_register_schemas
        return schema_failure(status, told, asked.topic, asked.subject, registering=registering)

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": _TYPE, "Accept": f"{_TYPE}, application/json"}
        if (user := self._settings.schema_registry_username) is not None:
            password = current_secret(self._settings.schema_registry_password)
            headers["Authorization"] = aiohttp.encode_basic_auth(user, password, "utf-8")
        return headers

    def _tls(self) -> ssl.SSLContext | bool:
        if not self._url.startswith("https://"):
            return True
        return ssl.create_default_context(cafile=self._settings.schema_registry_ca)


def _words(text: str) -> str:
    """Returns the registry's words about its refusal."""
    try:
        said = json.loads(text)
    except ValueError:
        return text[:_MOST_WORDS]
    return str(said.get("message", said) if isinstance(said, dict) else said)[:_MOST_WORDS]
