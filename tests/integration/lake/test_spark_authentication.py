"""The ports of a Spark of our own, which every user of the machine reaches."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from actors.lake.spark.spark_session import Spark, start_local
from pipeline.config.settings import SparkSettings


def test_sparks_ports_take_nobody_without_its_secret(spark: Spark) -> None:
    context: Any = spark.session.sparkContext
    manager = context._jvm.org.apache.spark.SparkEnv.get().securityManager()
    assert manager.isAuthenticationEnabled()
    assert len(manager.getSecretKey()) >= 32
    # The command line of a process is everybody's to read.
    assert not [name for name, _ in context.getConf().getAll() if name == "spark.authenticate.secret"]
    assert spark.session.range(10).selectExpr("sum(id) AS total").collect()[0]["total"] == 45


def test_no_secret_of_the_configuration_is_on_a_command_line(
    spark_settings: SparkSettings, tmp_path: Path
) -> None:
    """It is everybody's to read, for as long as the process runs. A store's key has no other place than spark.conf."""
    secret, key = "canary-4711", "spark.hadoop.fs.azure.account.key.house.dfs.core.windows.net"
    url = f"jdbc:mysql://db/metastore?user=hive&password={secret}"
    conf = {**spark_settings.conf, key: secret, "spark.hadoop.house.name": "house-4711"}
    conf["spark.hadoop.javax.jdo.option.ConnectionURL"] = url
    spark = start_local(replace(spark_settings, conf=conf), tmp_path)
    try:
        started = Path(f"/proc/{spark.pid}/cmdline").read_text().split("\0")
        assert "spark.hadoop.house.name=house-4711" in started
        assert not [word for word in started if secret in word]
        context: Any = spark.session.sparkContext
        hadoop = context._jsc.hadoopConfiguration()
        assert hadoop.get(key.removeprefix("spark.hadoop.")) == secret
        assert hadoop.get("javax.jdo.option.ConnectionURL") == url
    finally:
        spark.stop()
