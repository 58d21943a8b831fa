"""What Spark needs to reach S3: hadoop-aws, of the AWS SDK what it uses, and a store for the logs of Delta tables.

`s3.lock` pins the jars. The store for logs is ours (`S3LogStore.scala`), since Delta's own one doesn't let S3 refuse a
version that is there already. The Scala compiler that PySpark has inside makes a jar of it. The standard library is all
that this needs, as in `pinned_jars`.
"""

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from zipfile import ZipFile, ZipInfo

from pipeline.config.s3_environment import LOG_STORE_JAR
from pipeline.errors import Definite

S3_LOCK: Final = Path(__file__).with_name("s3.lock")
S3_SOURCE: Final = Path(__file__).with_name("S3LogStore.scala")


def compile_log_store(into: Path, delta: Path, java: Path, pyspark: Path) -> None:
    """Make the jar of the store for logs beside hadoop-aws; `delta`: the folder of Delta's jars. Raises Definite."""
    own = pyspark / "jars"
    compiler = ":".join(map(str, own.glob("scala-*.jar")))
    used = [*delta.glob("delta-storage-*.jar"), *into.glob("hadoop-aws-*.jar")]
    used += [*own.glob("hadoop-client-api-*.jar"), *own.glob("scala-library-*.jar")]
    with TemporaryDirectory() as made:
        scalac: list[str | Path] = [java, "-cp", compiler, "scala.tools.nsc.Main"]
        command = [*scalac, "-classpath", ":".join(map(str, used)), "-d", made, S3_SOURCE]
        done = subprocess.run(command, text=True, capture_output=True, check=False)
        if done.returncode:
            raise Definite(f"{S3_SOURCE.name} can't be compiled:\n{done.stdout}{done.stderr}")
        # Without the time of now, so that the same source gives the same jar.
        with ZipFile(into / LOG_STORE_JAR, "w") as jar:
            for file in sorted(Path(made).rglob("*.class")):
                jar.writestr(ZipInfo(str(file.relative_to(made))), file.read_bytes())
