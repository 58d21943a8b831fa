"""The configuration: its settings, and that all errors in it are reported at once, by key."""

from pathlib import Path, PurePath
from unittest.mock import ANY

import pytest

from actors.service import config_file
from actors.service.config_file import InvalidConfiguration, load
from pipeline.config.column_protection import ProtectionRule, Treatment
from pipeline.config.column_rules import ColumnRule, HashAlgorithm, MessageKey
from pipeline.config.effective_settings import effective_toml
from pipeline.config.lake_types import LakeType, LakeTypeRule
from pipeline.config.message_routes import TopicRoute
from pipeline.config.settings import (
    ConverterKind,
    Secret,
    ServerSettings,
    Settings,
    SnapshotMode,
    TlsMode,
    Watermark,
)
from pipeline.config.table_rules import LakeRule, SchemaChanges, Tiers
from pipeline.config.unwrapping import DeleteHandling, Unwrap
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId

GOOD = """
name = "shop"
tables = ["shop\\\\.orders", "crm\\\\..*"]

[source]
host = "db"
user = "tidemark"
server_id = 7
tls = { mode = "verify", ca = "ca.pem" }
read_timeout_s = 5

[snapshot]
mode = "when_needed"
watermark = "pause"
most_replica_lag_s = 5

[snapshot.source]
host = "replica"
user = "tidemark"

[journal]
path = "journal"

[lake]
path = "lake"

[spark]
jars = ["jars"]

[spark.conf]
"spark.ui.enabled" = "true"
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shop.toml"


def read(path: Path, text: str = GOOD, **environment: str) -> Settings:
    path.write_text(text)
    return load(path, environment)


def mistakes(path: Path, text: str = GOOD, **environment: str) -> list[str]:
    with pytest.raises(InvalidConfiguration) as refused:
        read(path, text, **environment)
    assert all(f"  {mistake}" in str(refused.value) for mistake in refused.value.mistakes)
    return [str(mistake) for mistake in refused.value.mistakes]


def test_a_good_file(path: Path) -> None:
    settings = read(path)
    assert settings.name == "shop"
    assert settings.tables.patterns == ("shop\\.orders", "crm\\..*")
    assert settings.source.tls.mode is TlsMode.VERIFY
    assert settings.source.tls.ca == PurePath(path.parent / "ca.pem")
    assert settings.source.read_timeout_s == 5.0
    assert settings.snapshot.mode is SnapshotMode.WHEN_NEEDED
    assert settings.snapshot.watermark is Watermark.PAUSE
    assert settings.snapshot.most_replica_lag_s == 5.0
    assert settings.snapshot.source == ServerSettings("replica", "tidemark")
    assert settings.journal.path == str(path.parent / "journal")
    assert settings.lake is not None and settings.lake.path == str(path.parent / "lake")
    assert settings.spark.jars == (PurePath(path.parent / "jars"),)
    assert settings.spark.conf == {"spark.ui.enabled": "true"}
    assert settings.signals.file is None
    assert settings.signals.table is None
    assert settings.signals.kafka is None


def test_a_lake_may_be_a_uri(path: Path) -> None:
    lake = read(path, GOOD.replace('"lake"', '"s3a://bucket/lake"')).lake
    assert lake is not None and lake.path == "s3a://bucket/lake"


RULES = """
[[lake.rules]]
tables = ["shop\\\\.audit_.*"]
tiers = "changelog"

[[lake.rules]]
tables = [".*"]
before_images = true
schema_changes = "additive"
"""


def test_a_removed_key_says_what_to_do(path: Path) -> None:
    text = GOOD.replace("[snapshot]\n", "[snapshot]\nchunk_mib = 16\n")
    assert mistakes(path, text) == [
        "snapshot.chunk_mib: there's no such key any more; remove it: Tidemark has one value that suits all, 8 MiB"
    ]


def test_every_removed_key_is_gone() -> None:
    for key in config_file.REMOVED_KEYS:
        assert config_file._kind_of(tuple(key.split("."))) is None


def test_rules_of_the_lake_in_their_order(path: Path) -> None:
    audit, rest = read(path, GOOD + RULES).lake_rules
    assert audit == LakeRule(TableFilter(("shop\\.audit_.*",)), Tiers.CHANGELOG)
    assert rest == LakeRule(TableFilter((".*",)), Tiers.BOTH, True, SchemaChanges.ADDITIVE)
    (other,) = read(path, GOOD + RULES, TIDEMARK__LAKE__RULES='[{tables = ["a\\\\.b"]}]').lake_rules
    assert other == LakeRule(TableFilter(("a\\.b",)))


def test_rules_for_types_and_the_mistakes_in_them(path: Path) -> None:
    text = (
        GOOD
        + """
[[lake.types]]
tables = ['shop\\.orders']
columns = ["id", ".*_id"]
type = "long"

[[lake.types]]
tables = ['shop\\..*']
columns = ["is_.*"]
type = "boolean"
"""
    )
    ids, flags = read(path, text).lake_types
    assert ids == LakeTypeRule(TableFilter(("shop\\.orders",)), ("id", ".*_id"), LakeType.LONG)
    assert flags == LakeTypeRule(TableFilter(("shop\\..*",)), ("is_.*",), LakeType.BOOLEAN)
    wrong = (
        text.replace('"long"', '"variant"').replace('"boolean"', '"bolean"').replace("columns", "column", 1)
    )
    choices = "long, decimal, boolean, text, uuid, uuid-swapped, wkb, default"
    assert mistakes(path, wrong) == [
        "lake.types[1].column: there's no such key; did you mean columns?",
        "lake.types[1].columns: it's missing; add it",
        f"lake.types[2].type: 'bolean' isn't one of them; did you mean boolean? choose from {choices}",
    ]
    (variant,) = mistakes(path, text.replace('"long"', '"variant"'))
    assert variant == (
        "lake.types[1].type: the lake doesn't write Spark's VARIANT; leave the column as it is, and read it with "
        "parse_json(…)"
    )


def test_a_mistake_in_a_rule_names_which(path: Path) -> None:
    text = GOOD + RULES.replace('"changelog"', '"none"').replace("before_images", "before_image")
    assert mistakes(path, text) == [
        "lake.rules[1].tiers: 'none' isn't one of them; choose from both, mirror, changelog",
        "lake.rules[2].before_image: there's no such key; did you mean before_images?",
    ]
    (mistake,) = mistakes(path, GOOD.replace('path = "lake"', 'path = "lake"\nrules = "all"'))
    assert mistake == "lake.rules: 'all' isn't a list of tables; write each as [[lake.rules]]"


def test_the_environment_wins(path: Path) -> None:
    settings = read(
        path,
        TIDEMARK__SOURCE__HOST="other",
        TIDEMARK__SOURCE__PORT="3307",
        TIDEMARK__TABLES='["a\\\\.b"]',
        TIDEMARK__SIGNALS__FILE="signals.jsonl",
        TIDEMARK__SIGNALS__TABLE="tidemark.signals",
        TIDEMARK__SIGNALS__KAFKA__BOOTSTRAP_SERVERS='["a:1", "b:2"]',
        TIDEMARK__SIGNALS__KAFKA__TOPIC="signals",
        TIDEMARK__SNAPSHOT__ALLOW_LOCK="false",
        TIDEMARK__SNAPSHOT__SOURCE__PORT="3308",
        TIDEMARK__HTTP__PORT="8080",
        TIDEMARK_CACHE="not ours",
    )
    assert (settings.source.host, settings.source.port) == ("other", 3307)
    assert settings.tables.patterns == ("a\\.b",)
    assert settings.signals.file == PurePath(path.parent / "signals.jsonl")
    assert settings.signals.table == TableId("tidemark", "signals")
    assert settings.signals.kafka is not None
    assert settings.signals.kafka.bootstrap_servers == ("a:1", "b:2")
    assert settings.signals.kafka.answers_topic is None
    assert settings.snapshot.source is not None
    assert settings.snapshot.source.port == 3308
    assert settings.http.port == 8080


def test_the_password_is_read_and_never_shown(path: Path) -> None:
    (path.parent / "password").write_text("geheim \n")
    with_file = GOOD.replace('user = "tidemark"', 'user = "tidemark"\npassword_file = "password"', 1)
    settings = read(path, with_file)
    assert settings.source.password == Secret("geheim ", path.parent / "password")
    assert "geheim" not in repr(settings)
    assert read(path, TIDEMARK__SOURCE__PASSWORD="x=1").source.password.value == "x=1"
    (both,) = mistakes(path, with_file, TIDEMARK__SOURCE__PASSWORD="geheim")
    assert both.startswith("source.password_file: TIDEMARK__SOURCE__PASSWORD is set as well")
    assert "geheim" not in both


def test_a_password_in_the_file_is_refused_unshown(path: Path) -> None:
    (mistake,) = mistakes(
        path, GOOD.replace('user = "tidemark"', 'user = "tidemark"\npassword = "geheim"', 1)
    )
    assert mistake.startswith("source.password: ")
    assert "geheim" not in mistake


def test_each_server_has_a_password_of_its_own(path: Path) -> None:
    (path.parent / "second").write_text("zweites")
    first = {"TIDEMARK__SOURCE__PASSWORD": "erstes"}
    with_file = GOOD.replace('host = "replica"', 'host = "replica"\npassword_file = "second"')
    settings = read(path, with_file, **first)
    assert settings.source.password == Secret("erstes")
    assert settings.snapshot.source is not None
    assert settings.snapshot.source.password == Secret("zweites", path.parent / "second")
    settings = read(path, **first, TIDEMARK__SNAPSHOT__SOURCE__PASSWORD="drittes")
    assert settings.snapshot.source is not None
    assert settings.snapshot.source.password == Secret("drittes")
    (both,) = mistakes(path, with_file, TIDEMARK__SNAPSHOT__SOURCE__PASSWORD="drittes")
    assert both.startswith(
        "snapshot.source.password_file: TIDEMARK__SNAPSHOT__SOURCE__PASSWORD is set as well"
    )


def test_the_file_of_a_password_may_be_named_by_the_environment(path: Path) -> None:
    (path.parent / "elsewhere").write_text("geheim")
    settings = read(path, TIDEMARK__SOURCE__PASSWORD_FILE="elsewhere")
    assert settings.source.password == Secret("geheim", path.parent / "elsewhere")


def test_all_mistakes_are_told_at_once(path: Path) -> None:
    (path.parent / "ca.pem").touch()
    text = """
name = "Shop!"
tables = ["("]
colour = "blue"

[source]
host = ""
user = 7
server_id = 0
port = 70000
pasword_file = "x"
password_file = "missing"
tls = { mode = "sometimes" }

[snapshot]
windows = true
window = "pause"
watermark = "overlap"
allow_lock = "yes"

[snapshot.source]
host = "replica"
server_id = 8

[signals]
table = "signals"

[signals.kafka]
bootstrap_servers = "kafka:9092"

[journal]
seal_mib = 1.5

[spark]
conf = { "spark.jars" = "x" }
driver_memory = "much"
master = "locl[2]"

[http]
host = "0.0.0.0"
"""
    told = mistakes(path, text, TIDEMARK__HTTP__PORTS="1", TIDEMARK__LAKE__MERGE_ROWS="many")
    assert sorted(line.partition(":")[0] for line in told) == [
        "TIDEMARK__HTTP__PORTS",
        "TIDEMARK__LAKE__MERGE_ROWS",
        "colour",
        "http.host",
        "journal.path",
        "journal.seal_mib",
        "lake.path",
        "name",
        "signals.kafka.bootstrap_servers",
        "signals.kafka.topic",
        "signals.table",
        "snapshot.allow_lock",
        "snapshot.source.server_id",
        "snapshot.source.user",
        "snapshot.watermark",
        "snapshot.window",
        "snapshot.windows",
        "source.host",
        "source.password_file",
        "source.pasword_file",
        "source.port",
        "source.server_id",
        "source.tls.mode",
        "source.user",
        "spark.conf",
        "spark.driver_memory",
        "spark.master",
        "tables",
    ]
    assert "source.pasword_file: there's no such key; did you mean password_file?" in told
    assert "journal.path: it's missing; add it" in told
    assert "snapshot.windows: True isn't a whole number; give a whole number" in told
    assert "snapshot.allow_lock: 'yes' isn't true or false; give true or false" in told
    assert """signals.table: 'signals' isn't a table's name; write it as "database.table\"""" in told
    assert "snapshot.watermark: 'overlap' isn't one of them; choose from gtid, pause, signal_table" in told


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("name = ", "the file: "),
        (GOOD.replace("[journal]", "[journal2]"), "journal.path: it's missing"),
        (GOOD.replace("[journal]", "[[journal]]"), "journal: "),
        (
            GOOD.replace('tables = ["shop\\\\.orders", "crm\\\\..*"]', 'tables = "shop"'),
            "tables: 'shop' isn't a list",
        ),
        (GOOD.replace('tables = ["shop\\\\.orders", "crm\\\\..*"]', "tables = []"), "tables: it's empty"),
        (GOOD.replace('"spark.ui.enabled" = "true"', '"spark.ui.enabled" = true'), "spark.conf: "),
        (GOOD.replace('jars = ["jars"]', 'jars = "jars"'), "spark.jars: "),
    ],
)
def test_each_kind_of_mistake_has_its_words(path: Path, text: str, wrong: str) -> None:
    assert any(line.startswith(wrong) for line in mistakes(path, text))


def test_a_mistake_in_a_setting_of_spark_shows_no_other_one(path: Path) -> None:
    """A store's key is in the same table."""
    key = '"spark.hadoop.fs.azure.account.key.house.dfs.core.windows.net" = "canary"'
    for wrong, named in (
        ('"spark.executor.cores" = 2', "spark.executor.cores"),
        ("spark.cores = 2", "spark"),
    ):
        (mistake,) = mistakes(path, GOOD.replace('"spark.ui.enabled" = "true"', f"{key}\n{wrong}"))
        assert mistake.startswith(f"spark.conf: {named!r} isn't text") and "canary" not in mistake
    for text in (f"{{ {key}", f"[{{ {key} }}]"):
        (mistake,) = mistakes(path, TIDEMARK__SPARK__CONF=text)
        assert mistake.startswith(("TIDEMARK__SPARK__CONF: ", "spark.conf: ")) and "canary" not in mistake


def test_a_variable_for_a_section_is_no_key(path: Path) -> None:
    (mistake,) = mistakes(path, TIDEMARK__SOURCE="x")
    assert mistake.startswith("TIDEMARK__SOURCE: ")
    (mistake,) = mistakes(path, TIDEMARK__NAME__X="x")
    assert mistake.startswith("TIDEMARK__NAME__X: ")


def test_a_file_that_is_not_there(path: Path) -> None:
    with pytest.raises(InvalidConfiguration, match="the file: it can't be read"):
        load(path, {})


def test_the_signal_table_is_none_of_the_servers_own(path: Path) -> None:
    [mistake] = mistakes(path, GOOD, TIDEMARK__SIGNALS__TABLE="mysql.signals")
    assert mistake.startswith("signals.table: the database mysql has the server's own tables")


MESSAGES = """
[kafka]
bootstrap_servers = ["kafka:9092"]
topic_prefix = "p"
column_exclude_list = ["shop\\\\.customers\\\\.phone"]

[[kafka.columns]]
columns = ["shop\\\\.customers\\\\.mail"]
hash = "SHA-256"
salt_file = "salt"

[[kafka.message_keys]]
tables = ["shop\\\\.heap"]
columns = ["a", "b"]

[[kafka.topic_routes]]
topic_regex = "(.*)_\\\\d"
topic_replacement = "$1"

[kafka.unwrap]
add_fields_prefix = ""
delete_tombstone_handling_mode = "rewrite"
add_fields = ["op"]

[[kafka.outboxes]]
tables = ["shop\\\\.outbox"]
table_fields_additional_placement = ["type:header:eventType"]
"""


def test_the_form_of_messages(path: Path) -> None:
    (path.parent / "salt").write_text("pepper\n")
    kafka = read(path, GOOD + MESSAGES).kafka
    assert kafka is not None
    assert kafka.columns == (ColumnRule((r"shop\.customers\.mail",), hash=HashAlgorithm.SHA_256, salt=ANY),)
    assert kafka.columns[0].salt.value == "pepper"
    assert kafka.message_keys == (MessageKey(TableFilter((r"shop\.heap",)), ("a", "b")),)
    assert kafka.topic_routes == (TopicRoute(r"(.*)_\d", "$1"),)
    assert kafka.unwrap == Unwrap(DeleteHandling.REWRITE, add_fields=("op",), add_fields_prefix="")
    assert [outbox.tables.patterns for outbox in kafka.outboxes] == [(r"shop\.outbox",)]
    wrong = MESSAGES.replace('"$1"', '"$2"').replace('"op"', '"oops"').replace("type:header", "type:footer")
    assert [line.partition(":")[0] for line in mistakes(path, GOOD + wrong)] == [
        "kafka.topic_routes[1].topic_regex",
        "kafka.unwrap.add_fields",
        "kafka.outboxes[1].table_fields_additional_placement",
    ]


def test_the_schema_registry(path: Path) -> None:
    (path.parent / "registry").write_text("sesame\n")
    avro = MESSAGES.replace(
        'topic_prefix = "p"',
        'topic_prefix = "p"\nconverter = "avro"\nschema_registry_url = "https://registry/api"\n'
        'schema_registry_username = "tidemark"\nschema_registry_password_file = "registry"',
    )
    (path.parent / "salt").write_text("pepper\n")
    kafka = read(path, GOOD + avro).kafka
    assert kafka is not None and kafka.converter is ConverterKind.AVRO
    assert (kafka.schema_registry_url, kafka.schema_registry_password.value) == (
        "https://registry/api",
        "sesame",
    )
    for wrong in ("registry:8081", "https://tidemark:sesame@registry"):
        [mistake] = mistakes(path, GOOD + avro.replace("https://registry/api", wrong))
        assert mistake.startswith("kafka.schema_registry_url: ") and "without a user" in mistake


PROTECTION = """
[protection]
salt_file = "salt"

[[protection.rules]]
tables = ["shop\\\\.people"]
columns = ["email"]
treatment = "hash"

[[protection.rules]]
tables = [".*"]
columns = ["phone"]
treatment = "mask"
length = 4
required = false
"""


def test_rules_for_columns_and_their_salt_which_is_never_shown(path: Path) -> None:
    (path.parent / "salt").write_text("a very secret salt")
    found = read(path, GOOD + PROTECTION).protection
    assert found.rules == (
        ProtectionRule(TableFilter(("shop\\.people",)), ("email",), Treatment.HASH),
        ProtectionRule(TableFilter((".*",)), ("phone",), Treatment.MASK, 4, required=False),
    )
    assert found.salt == Secret("a very secret salt", path.parent / "salt")
    assert "very secret" not in effective_toml(read(path, GOOD + PROTECTION)) + repr(found)
    without = PROTECTION.replace('salt_file = "salt"', "")
    told = read(path, GOOD + without, TIDEMARK__PROTECTION__SALT="sixteen letters!")
    assert told.protection.salt.value == "sixteen letters!"
    wrong = without.replace("[protection]", '[protection]\nsalt = "a very secret salt"').replace(
        '"mask"', '"star"'
    )
    assert [mistake.split(";")[0] for mistake in mistakes(path, GOOD + wrong)] == [
        "protection.salt: a salt doesn't belong in this file",
        "protection.rules[2].treatment: 'star' isn't one of them",
    ]
    (short,) = mistakes(path, GOOD + without, TIDEMARK__PROTECTION__SALT="short")
    assert short.startswith("protection.salt_file: the salt has 5 characters")
