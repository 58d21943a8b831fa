"""All parts together: made by `setup`, told by `locate`."""

from dataclasses import dataclass
from pathlib import Path

from deploy.toolchain import (
    authorities,
    browser,
    debezium,
    jars,
    java,
    kafka,
    kafka_classes,
    kubectl,
    mysql,
    mysql56,
    prometheus,
    s3,
    schema_registry,
    spark_classes,
    virtualenv,
)
from deploy.toolchain.cache import REPOSITORY, ToolchainError, is_complete, locked
from deploy.toolchain.kafka import KafkaParts
from deploy.toolchain.kubectl import KubectlParts
from deploy.toolchain.mysql import MysqlParts
from deploy.toolchain.prometheus import PrometheusParts
from deploy.toolchain.schema_registry import SchemaRegistryParts

# The checkout's own name for its environment, whose place in the cache changes with the locks.
LINK = REPOSITORY / ".venv"


@dataclass(frozen=True, slots=True)
class Parts:
    """Where the real parts are on this machine.

    `s3`: the folder of the jars for a lake in S3. It and the next ones are None before `setup` was asked for them, and
    MySQL 5.6 and Helm where they can't run. The last six are for tests alone.
    """

    python: Path
    java_home: Path
    jars: tuple[Path, ...]
    mysql: MysqlParts
    s3: Path | None
    mysql56: MysqlParts | None
    kafka: KafkaParts | None
    prometheus: PrometheusParts | None
    browser: Path | None
    schema_registry: SchemaRegistryParts | None
    kubectl: KubectlParts | None


def setup(*, for_tests: bool = False, with_s3: bool = False) -> Parts:
    """Make every part that isn't there, link the checkout's `.venv` to the environment, and tell them."""
    with locked():
        trusted = authorities.setup()
        python = virtualenv.setup(trusted)
        java_home = java.setup()
        ours = (java_home, python, virtualenv.pyspark(), trusted)
        jars.setup(*ours)
        store = s3.setup(*ours) if for_tests or with_s3 else s3.find()
        programs = mysql.setup()
        old = mysql56.setup(trusted) if for_tests else mysql56.find()
        broker = kafka.setup(*ours) if for_tests else kafka.find(java_home)
        watcher = prometheus.setup() if for_tests else prometheus.find()
        chromium = browser.setup() if for_tests else browser.find()
        helm = kubectl.setup(python) if for_tests else kubectl.find()
        _point(LINK, virtualenv.folder())
        spark_classes.setup(java_home, python)
        schemas = schema_registry.setup(*ours) if for_tests else schema_registry.find(java_home)
    if for_tests:
        debezium.setup(python)
        kafka_classes.setup(java_home, python)
        broker = kafka.find(java_home)
    for_tests_alone = (old, broker, watcher, chromium, schemas, helm)
    return Parts(LINK / "bin" / "python", java_home, jars.paths(), programs, store, *for_tests_alone)


def fetch_kafka() -> KafkaParts:
    """Kafka, which `setup` makes for tests alone."""
    with locked():
        trusted = authorities.setup()
        return kafka.setup(java.setup(), virtualenv.setup(trusted), virtualenv.pyspark(), trusted)


def locate() -> Parts:
    """Tell the parts that `setup` made; raises `ToolchainError` if one is missing."""
    python, java_home, programs = LINK / "bin" / "python", java.home(), mysql.find()
    if not python.exists() or java_home is None or programs is None or not is_complete(jars.folder()):
        raise ToolchainError("the real parts aren't all here yet: run `make setup`")
    for_tests_alone = (
        mysql56.find(),
        kafka.find(java_home),
        prometheus.find(),
        browser.find(),
        schema_registry.find(java_home),
        kubectl.find(),
    )
    return Parts(python, java_home, jars.paths(), programs, s3.find(), *for_tests_alone)


def _point(link: Path, target: Path) -> None:
    """Point a symbolic link at `target`, unless it does already."""
    if link.is_symlink() and link.readlink() == target:
        return
    draft = link.with_name(f"{link.name}.part")
    draft.unlink(missing_ok=True)
    draft.symlink_to(target)
    draft.replace(link)
