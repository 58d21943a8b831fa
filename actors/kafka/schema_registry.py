"""A client of a schema registry with Confluent's API. It returns the id of each schema.

It asks for an id once and keeps it, because a registry never changes one. It keeps those that were used last. It
retries a transient failure for a few seconds. If the registry then answers another question, and still fails for the
schema, only the schema's topic waits. So it is with any other answer that has no id, such as the page of a proxy that
takes a schema for an attack.

Source: Confluent Schema Registry, "API Reference".
"""

import json
import ssl
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import aiohttp

from actors.runtime.redaction import safe_message
from actors.runtime.retry import retry
from actors.runtime.secret_files import current_secret
from pipeline.config.settings import KafkaSinkSettings
from pipeline.errors import Backoff
from pipeline.kafka.avro.avro_schema import avro_text
from pipeline.kafka.debezium.connect_schema import Schema
from pipeline.kafka.errors import KafkaRefused, KafkaUnavailable, TopicRefusal
from pipeline.kafka.registry import registry_failure, schema_fails, schema_failure

REGISTRY_ANSWERS_WITHIN_S: Final = 10.0
# How often a request is tried that fails for now, and the pauses in between.
_ATTEMPTS: Final = 4
_PAUSES: Final = Backoff(0.2, 0.8)

# No answer has more bytes. The longest one is the list of all subjects.
_MOST_BYTES: Final = 64 << 20

# So many ids are kept: those of ten thousand tables' topics, and of versions of their columns.
MOST_IDS: Final = 1 << 15

# What fits into a message: ids of schemas are below this.
_IDS: Final = 1 << 31

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
        # By a digest of the question, because schemas are long; the one used last is the last one.
        self._ids: dict[bytes, int] = {}
        # It is asked once at a time for schemas of these subjects: the topic waits, and all others wait meanwhile.
        self._failing: set[str] = set()

    async def id_of(self, topic: str, part: str, schema: Schema) -> int:
        """Returns the id of the Avro schema of a topic's `key`s or `value`s. Registers it if the settings say so."""
        asked = _Question(topic, f"{topic}-{part}", avro_text(schema))
        digest = sha256(f"{asked.subject}\n{asked.schema}".encode()).digest()
        found = self._ids.pop(digest, None)
        if found is None:
            found = await self._asked(asked)
        self._ids[digest] = found
        if len(self._ids) > MOST_IDS:
            del self._ids[next(iter(self._ids))]
        return found

    async def look(self) -> None:
        """Raises if the registry doesn't answer or doesn't let us in."""
        listed = await self._request("GET", "/subjects", None)
        if not isinstance(listed, list):
            raise _no_registry(f"it answers {str(listed)[:_MOST_WORDS]}")

    async def _asked(self, asked: "_Question") -> int:
        try:
            found = await self._tried(asked)
        except TopicRefusal:
            raise
        except (KafkaUnavailable, KafkaRefused) as error:
            if not await self._answers(else_than=error):
                raise
            self._failing.add(asked.subject)
            raise schema_fails(asked.topic, asked.subject, str(error)) from error
        self._failing.discard(asked.subject)
        return found

    async def _tried(self, asked: "_Question") -> int:
        attempts = 1 if asked.subject in self._failing else _ATTEMPTS
        return await retry(lambda: self._id(asked), _PAUSES, attempts, lambda *_: None)

    async def _id(self, asked: "_Question") -> int:
        path = f"/subjects/{asked.subject}" + ("/versions" if self._settings.auto_register_schemas else "")
        match await self._request("POST", path, asked):
            case {"id": int(number)} if not isinstance(number, bool) and 0 <= number < _IDS:
                return number
            case other:
                raise KafkaRefused(f"the schema registry gives no id ({str(other)[:_MOST_WORDS]})")

    async def _answers(self, else_than: KafkaUnavailable | KafkaRefused) -> bool:
        """Returns whether the registry answers what isn't about a schema, which gets `else_than`.

        It may refuse us all but schemas. If it refuses both, that isn't about a schema.
        """
        try:
            await self.look()
        except KafkaRefused:
            return not isinstance(else_than, KafkaRefused)
        except KafkaUnavailable:
            return False
        return True

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
                    allow_redirects=False,  # it may turn our POST into a GET
                ) as answer,
            ):
                body = await _body(answer)
                if answer.status >= 300:
                    raise self._failure(answer.status, _words(body), asked)
                return json.loads(body)
        except aiohttp.ClientConnectorCertificateError as error:
            raise KafkaRefused(
                "the schema registry's certificate isn't to be trusted; name the file of its authority's certificate "
                "in kafka.schema_registry_ca"
            ) from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise KafkaUnavailable(f"the schema registry doesn't answer ({safe_message(error)})") from error
        except (ValueError, RecursionError) as error:
            raise _no_registry(safe_message(error)) from error

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


def _no_registry(why: str) -> KafkaRefused:
    return KafkaRefused(
        f"what answers at kafka.schema_registry_url is no schema registry ({why}); name the address that /subjects "
        "comes after"
    )


async def _body(answer: aiohttp.ClientResponse) -> bytes:
    """Returns all of an answer. Raises KafkaUnavailable if it is endless."""
    body = bytearray()
    async for part in answer.content.iter_any():
        body += part
        if len(body) > _MOST_BYTES:
            raise KafkaUnavailable(f"the schema registry's answer has more than {_MOST_BYTES} bytes")
    return bytes(body)


def _words(body: bytes) -> str:
    """Returns the registry's words about its refusal."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return body.decode(errors="replace")[:_MOST_WORDS]
    return str(said.get("message", said) if isinstance(said, dict) else said)[:_MOST_WORDS]
