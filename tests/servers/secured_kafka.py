"""A real Kafka broker that is spoken to by TLS, wants a password and lets an account do what it is allowed to alone."""

from enum import IntEnum
from pathlib import Path
from typing import Final

from aiokafka.protocol.admin import CreateAclsRequest

from deploy.toolchain.kafka import KafkaParts
from deploy.toolchain.kafka_broker import PROPERTIES, KafkaBroker
from deploy.toolchain.ports import take_port
from pipeline.config.settings import KafkaSecurity, SaslMechanism, Secret
from tests.servers.certificates import certificate
from tests.servers.kafka import administrating

ACCOUNT: Final = "tidemark"
PASSWORD: Final = "right"
_ALLOW: Final = 3


class Resource(IntEnum):
    """What a right is about (`org.apache.kafka.common.resource.ResourceType`)."""

    TOPIC = 2
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


class Named(IntEnum):
    """How a right names it (`org.apache.kafka.common.resource.PatternType`)."""

    LITERAL = 3
    PREFIXED = 4


class Right(IntEnum):
    """What is allowed (`org.apache.kafka.common.acl.AclOperation`)."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DESCRIBE = 8


class SecuredBroker(KafkaBroker):
    """A broker with this folder's certificate. `address` is secured; at `plain` everybody is an administrator."""

    def __init__(self, parts: KafkaParts, folder: Path, protocol: KafkaSecurity) -> None:
        plain = take_port()
        self.trusted = folder / "ca.pem"
        folder.mkdir(parents=True, exist_ok=True)
        certificate(folder, "127.0.0.1")
        super().__init__(parts, folder / "kafka", _properties(folder, protocol, plain))
        self.plain = f"127.0.0.1:{plain}"
        self.protocol = protocol

    @property
    def login(self) -> dict[str, object]:
        """The settings of a client that is let in."""
        found: dict[str, object] = {"security_protocol": self.protocol, "ca": self.trusted}
        if self.protocol.authenticated:
            found |= {
                "sasl_mechanism": SaslMechanism.PLAIN,
                "sasl_username": ACCOUNT,
                "sasl_password": Secret(PASSWORD),
            }
        return found

    async def allow(self, resource: Resource, name: str, named: Named, *rights: Right) -> None:
        """Let the account do this."""
        async with administrating(self.plain) as admin:
            for right in rights:
                answer = await admin._send_to_controller(
                    CreateAclsRequest(resource, name, named, f"User:{ACCOUNT}", "*", right, _ALLOW)
                )
                assert [code for code, _ in answer.creation_responses] == [0], answer


def _properties(folder: Path, protocol: KafkaSecurity, plain: int) -> str:
    users = f'username="broker" password="own" user_broker="own" user_{ACCOUNT}="{PASSWORD}"'
    login = f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
    authorizing = """
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:broker;User:ANONYMOUS
"""
    return (
        PROPERTIES.replace(
            "PLAINTEXT://127.0.0.1:{port}", f"SECURE://127.0.0.1:{{port}},PLAIN://127.0.0.1:{plain}"
        )
        + f"""
listener.security.protocol.map=SECURE:{protocol.value},PLAIN:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAIN
sasl.enabled.mechanisms=PLAIN
listener.name.secure.plain.sasl.jaas.config={login}
ssl.keystore.type=PEM
ssl.keystore.location={folder / "server.pem"}
ssl.truststore.type=PEM
ssl.truststore.location={folder / "ca.pem"}
"""
        + (authorizing if protocol.authenticated else "")
    )
