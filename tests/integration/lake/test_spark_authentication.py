"""The ports of a Spark of our own, which every user of the machine reaches."""

from typing import Any

from actors.lake.spark.spark_session import Spark


def test_sparks_ports_take_nobody_without_its_secret(spark: Spark) -> None:
    context: Any = spark.session.sparkContext
    manager = context._jvm.org.apache.spark.SparkEnv.get().securityManager()
    assert manager.isAuthenticationEnabled()
    assert len(manager.getSecretKey()) >= 32
    # The command line of a process is everybody's to read.
    assert not [name for name, _ in context.getConf().getAll() if name == "spark.authenticate.secret"]
    assert spark.session.range(10).selectExpr("sum(id) AS total").collect()[0]["total"] == 45
