"""The configuration that holds, without its secrets."""

import tomllib
from dataclasses import replace
from pathlib import PurePath

from pipeline.config import settings as config
from pipeline.config.effective_settings import effective_toml
from pipeline.config.secret import STARS
from pipeline.config.table_rules import LakeRule
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId

SETTINGS = config.Settings(
    "shop",
    TableFilter(("shop\\..*",)),
    config.SourceSettings("db", "u", password=config.Secret("canary-source"), server_id=7),
    config.JournalSettings("s3://canary-user:canary-key@bucket/journal?region=eu&secret_key=canary-query"),
    config.LakeSettings("s3a://bucket/lake", rules=(LakeRule(TableFilter((".*",))),)),
    spark=config.SparkSettings(
        jars=(PurePath("/jars"),),
        conf={
            "spark.hadoop.fs.s3a.secret.key": "canary-secret",
            "spark.hadoop.fs.s3a.access.key": "canary-access",
            "spark.ssl.keyPassword": "canary-password",
            "spark.hadoop.fs.azure.account.key.house.dfs.core.windows.net": "canary-azure",
            "spark.hadoop.fs.gs.auth.service.account.private.key": "canary-gs",
            "spark.ui.enabled": "true",
        },
    ),
    signals=config.SignalSettings(
        PurePath("/signals.jsonl"),
        TableId("shop", "signals"),
        config.KafkaSettings(("kafka:9092",), "signals", sasl_password=config.Secret("canary-kafka")),
    ),
)


def test_all_that_holds_is_told_and_no_secret() -> None:
    text = effective_toml(SETTINGS)
    assert "canary" not in text
    told = tomllib.loads(text)
    assert told["tables"] == ["shop\\..*"]
    assert told["source"]["password"] == STARS
    assert told["source"]["tls"] == {"mode": "verify"}
    assert told["snapshot"]["windows"] == 4
    assert told["journal"]["path"] == f"s3://{STARS}@bucket/journal?region=eu&secret_key={STARS}"
    assert told["lake"]["path"] == "s3a://bucket/lake"
    assert told["lake"]["rules"] == [
        {
            "tables": [".*"],
            "tiers": "both",
            "before_images": False,
            "schema_changes": "apply",
            "deletion_vectors": True,
        }
    ]
    assert told["spark"]["jars"] == ["/jars"]
    assert told["spark"]["conf"]["spark.ui.enabled"] == "true"
    assert told["spark"]["conf"]["spark.hadoop.fs.s3a.secret.key"] == STARS
    assert told["signals"]["table"] == "shop.signals"
    assert told["signals"]["kafka"]["sasl_password"] == STARS


def test_who_may_use_a_spark_connect_server_is_not_told() -> None:
    url = "sc://spark:15002/;use_ssl=true;token=canary-token;user_id=ops;Authorization=Basic canary-header"
    text = effective_toml(replace(SETTINGS, spark=config.SparkSettings(url)))
    assert "canary" not in text
    shown = f"sc://spark:15002/;use_ssl=true;token={STARS};user_id=ops;Authorization={STARS}"
    assert tomllib.loads(text)["spark"]["master"] == shown


def test_a_password_that_is_not_given_is_not_told_as_if_it_were() -> None:
    source = replace(SETTINGS.source, password=config.Secret(""))
    assert "password" not in tomllib.loads(effective_toml(replace(SETTINGS, source=source)))["source"]


def test_a_password_of_a_file_is_told_as_the_file_that_has_it() -> None:
    source = replace(SETTINGS.source, password=config.Secret("canary", PurePath("/run/password")))
    told = tomllib.loads(effective_toml(replace(SETTINGS, source=source)))["source"]
    assert (told["password_file"], "password" in told) == ("/run/password", False)
