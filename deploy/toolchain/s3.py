"""What Spark needs to reach S3: hadoop-aws, of the AWS SDK what it uses, and a store for the logs of Delta tables.

`s3.lock` pins the jars. The store for logs is ours (`S3LogStore.scala`), since Delta's own one doesn't let S3 refuse a
version that is there already. The Scala compiler that PySpark has inside makes a jar of it.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile, ZipInfo

from deploy.toolchain import jars
from deploy.toolchain.cache import digest, ensure, is_complete, root, run

LOCK = Path(__file__).with_name("s3.lock")
SOURCE = Path(__file__).with_name("S3LogStore.scala")

# The jar with the store for logs, which `tidemark check` looks for.
LOG_STORE_JAR = "tidemark-s3-log-store.jar"


def folder() -> Path:
    """Return where the jars lie, whether they are there yet or not."""
    return root() / f"s3-{digest(LOCK.read_bytes(), SOURCE.read_bytes(), jars.LOCK.read_bytes())}"


def find() -> Path | None:
    """Return the folder of the jars if they have been made."""
    return folder() if is_complete(folder()) else None


def setup(java_home: Path, python: Path, pyspark: Path, trusted: Path) -> Path:
    """Return the folder of the jars, making it if need be; the arguments are as for Delta's jars (`jars.setup`)."""

    def build() -> None:
        jars.fetch(LOCK, folder(), java_home, python, pyspark, trusted)
        compile_log_store(folder(), jars.folder(), java_home, pyspark)

    ensure("S3's jars", folder(), build)
    return folder()


def compile_log_store(into: Path, delta: Path, java_home: Path, pyspark: Path) -> None:
    """Make the jar of the store for logs beside hadoop-aws; `delta`: the folder of Delta's jars."""
    compiler = ":".join(str(jar) for jar in (pyspark / "jars").glob("scala-*.jar"))
    used = [*delta.glob("delta-storage-*.jar"), *into.glob("hadoop-aws-*.jar")]
    used += [
        *(pyspark / "jars").glob("hadoop-client-api-*.jar"),
        *(pyspark / "jars").glob("scala-library-*.jar"),
    ]
    scalac: list[str | Path] = [java_home / "bin" / "java", "-cp", compiler, "scala.tools.nsc.Main"]
    with TemporaryDirectory() as made:
        run([*scalac, "-classpath", ":".join(map(str, used)), "-d", made, SOURCE])
        # Without the time of now, so that the same source gives the same jar.
        with ZipFile(into / LOG_STORE_JAR, "w") as jar:
            for file in sorted(Path(made).rglob("*.class")):
                jar.writestr(ZipInfo(str(file.relative_to(made))), file.read_bytes())
