"""A Spark of this process's own: one JVM below this process, with Delta on it, that ends when this process does.

PySpark keeps its JVM in class variables, and never checks whether the JVM still runs. So this module ends completely
what it started. After `stop`, or after the JVM was killed, the variables are cleared, and a new JVM can start in the
same process. The JVM reads the pipe that this process holds as its standard input, and exits at the pipe's end. The
kernel closes that pipe even if this process is killed (PySpark's `launch_gateway`, Spark's `PythonGatewayServer`).

The JVM takes a moment to exit, in which it may still commit. So each JVM locks a file in its folder, and the next one
starts only when the lock is free. A local disk needs this: Delta can't tell there that two JVMs commit the same version
at the same moment. Its `LocalLogStore` looks first and renames afterwards.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import pyspark
import structlog
from py4j.clientserver import SHUTDOWN_FINALIZER_WORKER, ClientServer
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import DataFrame, SparkSession

from actors.journal.files import Files
from actors.lake.spark import spark_connect
from actors.lake.spark.java import class_archive, java_program
from actors.lake.threads import thread_priorities
from actors.lake.threads.scheduler_pools import Pool
from pipeline.config.s3_environment import LOG_STORE_JAR, s3_conf
from pipeline.config.secret import is_secret_setting, without_secrets
from pipeline.config.settings import SESSION_SETTINGS, SparkSettings
from pipeline.errors import Definite, Transient
from pipeline.lake.files.known_versions import KNOWN_PAIRS, check_pair

log = structlog.get_logger()

# Settings of a session that belong at the number of cores.
PARTITIONS = ("spark.sql.shuffle.partitions", "spark.databricks.delta.snapshotPartitions")

# For statements that join whole tables by their keys: so many parts, however few the cores are. Spark joins small parts
# again, up to some ten MiB. So it sorts and hashes each in memory, and no task holds a core for long.
MANY_PARTS: Final = {"spark.sql.adaptive.coalescePartitions.initialPartitionNum": "64"}

# A thread's jobs share the cores fairly with those of another pool.
_POOL = "spark.scheduler.pool"


# How long (seconds) the JVM may take to exit before it is killed.
JVM_ENDS_WITHIN_S = 10.0

# The JVM's exit code with ExitOnOutOfMemoryError.
_OUT_OF_MEMORY = 3

# What Spark reports while its JVM lives on: the master removed the application or can't be reached, or a task lost one
# executor after the other.
_LOST = ("SparkContext was shut down", "a stopped SparkContext", "ExecutorLostFailure")

_launch_gateway: Any = launch_gateway  # has no types

# Where the codecs of Parquet put their native libraries, and Java's own choice on Linux.
_JAVA_TEMPORARY: Final = "java.io.tmpdir"
_JAVA_DEFAULT: Final = Path("/tmp")  # noqa: S108 - as Java has it

# Spark's blocks, in the folder of its log.
_SCRATCH: Final = "local"

_OPTIONS: Final = "spark.driver.defaultJavaOptions"

_DELTA_JAR = re.compile(r"delta-spark_(?:\d+\.\d+_)?[\d.]+-(.+)\.jar")
_PAIR_REMEDY: Final = (
    "install the PySpark that Tidemark requires, and run `tidemark setup`, which fetches Delta for it"
)

# Through one of its two interfaces Hadoop runs a program (`readlink`) for each file that it renames on a local disk,
# and it keeps a checksum beside each file. That was four fifths of the time of a commit to Delta.
_ON_A_DISK = {
    "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
}

# Spark keeps a thousand of each kind of ended work for its pages, with plans as text, in a heap that may be small.
# There are no pages here.
_REMEMBERED = {
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.sql.ui.retainedExecutions": "20",
}

# By default a writer of Parquet first looks after 100 rows how many bytes it holds, of a page and of a row group. A
# hundred rows of 8 MiB have no room in a small heap: each merge ended the JVM. It estimates when to look next.
_LONG_ROWS = {
    "spark.hadoop.parquet.page.size.row.check.min": "1",
    "spark.hadoop.parquet.block.size.row.check.min": "1",
}

_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {folder}/spark.log
appender.file.filePattern = {folder}/spark.log.%i
appender.file.policies.type = SizeBasedTriggeringPolicy
appender.file.policies.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{ISO8601}} %p %c{{1}}: %m%n%ex
"""


@dataclass(frozen=True, slots=True)
class SparkParts:
    """What Spark consists of here: the versions of PySpark and Delta, and the jars that PySpark lacks."""

    pyspark: str
    delta: str
    jars: tuple[Path, ...]

    def __str__(self) -> str:
        return f"PySpark {self.pyspark}, Delta {self.delta} ({len(self.jars)} jars)"


class SparkFailed(Exception):
    """A call of Spark's failed for an unforeseen reason. It holds the text, which needs no JVM any more."""


class SparkLost(Transient):
    """A call of Spark's failed because Spark is gone."""


class RunningSpark(Protocol):
    """A Spark with its session."""

    session: SparkSession

    def progress(self) -> Mapping[str, object]:
        """Returns the progress of each pool that has work. If two answers are equal, the pool hasn't advanced.

        Spark answers it beside its other work.
        """

    def lost(self, error: Exception) -> str | None:
        """Returns why a call failed, if it failed because Spark is gone."""

    def stop(self) -> None:
        """Ends this process's part of it, cleanly."""

    def kill(self) -> None:
        """Ends this process's part of it, whatever it is doing. Calls that wait for it fail."""


class Spark:
    """A running Spark: its session, the number of its `cores`, and the JVM that is its driver and holds `lock`."""

    def __init__(self, session: SparkSession, jvm: subprocess.Popen[bytes], lock: object) -> None:
        self.session = session
        self.cores = session.sparkContext.defaultParallelism
        self._jvm = jvm
        self._lock = lock  # the JVM drops it with our last reference

    @property
    def pid(self) -> int:
        """Returns the JVM's process id."""
        return self._jvm.pid

    @property
    def alive(self) -> bool:
        """Returns whether the JVM is running."""
        return self._jvm.poll() is None

    def progress(self) -> Mapping[str, object]:
        """Returns the active stages of each pool, with the number of their tasks that have ended."""
        context: Any = self.session.sparkContext
        stages = context._jsc.sc().statusStore().activeStages()  # noqa: SLF001 - what's public knows of no pools
        pools: dict[str, list[tuple[int, ...]]] = {}
        for stage in (stages.apply(each) for each in range(stages.size())):
            told = (stage.stageId(), stage.attemptId(), stage.numCompleteTasks())
            pools.setdefault(stage.schedulingPool(), []).append(told)
        return pools

    def lost(self, error: Exception) -> str | None:
        """Returns why a call failed, if it failed because Spark is gone."""
        # A call without an answer shows only that it failed. For a failure in Java there is a trace.
        unanswered = type(error) is Py4JError and "Trace:" not in str(error)
        if unanswered or isinstance(error, Py4JNetworkError | ConnectionError) or not self.alive:
            with suppress(subprocess.TimeoutExpired):  # the JVM closes its connections before it has ended
                if self._jvm.wait(JVM_ENDS_WITHIN_S) == _OUT_OF_MEMORY:
                    return "Spark's JVM ran out of memory: if it does so again, raise spark.driver_memory"
            return "Spark's JVM has ended, or was killed"
        if any(sign in str(error) for sign in _LOST):
            return "Spark has lost its cluster, or too many executors"
        return None

    def stop(self) -> None:
        """Ends Spark cleanly, then the JVM. A JVM that has just ended by itself, or was killed, is no error."""
        try:
            if self.alive:
                self.session.stop()
        except (Py4JError, ConnectionError) as error:
            if self.lost(error) is None:
                raise
        finally:
            self.kill()

    def kill(self) -> None:
        """Ends the JVM, whatever it is doing. Calls that wait for it fail. Afterwards another Spark can start."""
        gateway: object = SparkContext._gateway  # noqa: SLF001 - nothing public clears what PySpark remembers
        if not isinstance(gateway, ClientServer):
            return
        assert self._jvm.stdin is not None
        self._jvm.stdin.close()
        try:
            self._jvm.wait(JVM_ENDS_WITHIN_S if self.session.sparkContext._jsc is None else 0)  # noqa: SLF001
        except subprocess.TimeoutExpired:
            self._jvm.kill()
            self._jvm.wait()
        _forget(gateway)


def check_spark(settings: SparkSettings) -> str:
    """Describes the Spark of these settings. Raises Definite if it lacks something."""
    if settings.by_connect:
        spark_connect.check_client()
        return f"PySpark {pyspark.__version__} by Spark Connect"
    return str(installed_parts(settings))


def installed_parts(settings: SparkSettings) -> SparkParts:
    """Returns what Spark consists of, with the jars that the settings name.

    Raises Definite if Delta isn't among them, doesn't fit PySpark, or isn't known to write a lake with it.
    """
    named = [Path(path) for path in settings.jars]
    for path in named:
        if not path.exists():
            raise Definite(
                f"spark.jars names {path}, which isn't there: correct it, or run `tidemark setup` and leave it out"
            )
    jars = tuple(jar for path in named for jar in (sorted(path.glob("*.jar")) if path.is_dir() else [path]))
    found = [match for jar in jars if (match := _DELTA_JAR.fullmatch(jar.name))]
    if len(found) != 1:
        there = ", ".join(match.string for match in found) or "none"
        known = " or ".join(pair.jar for pair in KNOWN_PAIRS)
        raise Definite(
            f"spark.jars must hold just one Delta, {known} (here: {there}): `tidemark setup` fetches it"
        )
    jar, delta = found[0].group(0, 1)
    check_pair("this installation", pyspark.__version__, delta, _PAIR_REMEDY)
    if not any(pair.jar == jar and pyspark.__version__.startswith(f"{pair.spark}.") for pair in KNOWN_PAIRS):
        raise Definite(f"{jar} doesn't fit PySpark {pyspark.__version__}: `tidemark setup` fetches what does")
    return SparkParts(pyspark.__version__, delta, jars)


def open_session(settings: SparkSettings, folder: Path, files: Files) -> RunningSpark:
    """Starts Spark, or opens a session at the Spark Connect server that the settings name.

    `folder`: as of `start_local` and `spark_connect.connect`. `files`: as of the latter. Raises as they do.
    """
    if settings.by_connect:
        return spark_connect.connect(settings, files, folder)
    return start_local(settings, folder)


def noexec_folders(settings: SparkSettings, folder: Path) -> str | None:
    """Returns between which folders Spark finds none to load native libraries from; None if it finds one.

    `folder`: as of `start_local`.
    """
    given = (settings.conf.get("spark.driver.extraJavaOptions", ""), os.environ.get("JAVA_TOOL_OPTIONS", ""))
    if settings.by_connect or any(_JAVA_TEMPORARY in options for options in given):
        return None
    tried = (folder / "tmp", _JAVA_DEFAULT)
    return None if any(map(_may_load, tried)) else f"{tried[0]} and {tried[1]} are mounted noexec"


def _may_load(folder: Path) -> bool:
    """Returns whether a library may be loaded from a folder, which needn't be there yet."""
    there = next(each for each in (folder, *folder.parents) if each.exists())
    return not os.statvfs(there).f_flag & os.ST_NOEXEC


def start_local(settings: SparkSettings, folder: Path) -> Spark:
    """Starts Spark, in 4 to 8 seconds. Its log and its scratch files are in `folder`.

    Raises Definite if PySpark, Delta and the configuration don't fit together, Transient if the JVM fails.
    """
    jars = installed_parts(settings).jars
    temporary = folder / "tmp"
    shutil.rmtree(temporary, ignore_errors=True)  # a killed JVM leaves its libraries there
    temporary.mkdir(parents=True, exist_ok=True)
    if (noexec := noexec_folders(settings, folder)) is not None:
        log.warning("Spark can load no native libraries: merges will fail", reason=noexec)
    (folder / "log4j2.properties").write_text(_LOG4J.format(folder=folder))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    conf, gateway = _launch({**_conf(settings, jars, folder), **settings.conf}, folder)
    try:
        lock = gateway.jvm.java.io.RandomAccessFile(str(folder / "lock"), "rw").getChannel().tryLock()
        if lock is None:
            raise Transient(f"the JVM of an earlier run hasn't ended yet; it holds {folder / 'lock'}")
        shutil.rmtree(folder / _SCRATCH, ignore_errors=True)  # a killed JVM leaves what it shuffled there
        spark = Spark(SparkSession(SparkContext(conf=conf, gateway=gateway)), gateway.proc, lock)
        for name in PARTITIONS:
            if name not in settings.conf:
                spark.session.conf.set(name, str(spark.cores))
        thread_priorities.lower_task_priority(spark.pid)
    except BaseException as error:
        # Whatever failed: PySpark would take what it remembers of this JVM for the next one's.
        gateway.proc.kill()
        gateway.proc.communicate()
        _forget(gateway)
        if isinstance(error, Py4JError | ConnectionError):
            raise Transient(f"Spark didn't start at {settings.master}: see {folder / 'spark.log'}") from error
        raise
    return spark


def _launch(settings: Mapping[str, str], folder: Path) -> tuple[SparkConf, Any]:
    """Starts the JVM. Returns its configuration, and what leads to it. Raises Transient if it ends at once."""
    if shared := _shared_classes():
        try:
            return _launch_jvm({**settings, _OPTIONS: f"{settings[_OPTIONS]} {shared}"}, folder)
        except Transient as error:  # a JVM checks the head of the archive alone, and a damaged one ends it
            log.warning("Spark's JVM starts again, without the archive of its classes", reason=str(error))
    return _launch_jvm(settings, folder)


def _has_secret(name: str, value: str) -> bool:
    """Returns whether a setting may have a secret. The JVM itself wants some others with URIs."""
    of_hadoop = name.startswith("spark.hadoop.")
    return is_secret_setting(name) or (of_hadoop and without_secrets(value) != value)


def _launch_jvm(settings: Mapping[str, str], folder: Path) -> tuple[SparkConf, Any]:
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    # What the JVM is started with is on its command line, which is everybody's to read. The context gets the rest.
    shown = SparkConf(loadDefaults=False).setAll([of for of in settings.items() if not _has_secret(*of)])
    # VACUUM prints what it removed, which would be unreadable among the lines of our own log.
    with (folder / "output.log").open("ab") as output:
        try:
            return conf, _launch_gateway(shown, {"stdout": output, "stderr": output})
        except (PySparkRuntimeError, Py4JError, ConnectionError) as error:
            raise Transient(f"Spark's JVM ended while it started: see {output.name}") from error


@contextmanager
def side_session(session: SparkSession, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session with settings of its own, for statements that need them. Its jobs don't delay those of a batch."""
    if spark_connect.is_connect_session(session):
        with spark_connect.second_session(session, settings) as other:
            yield other
        return
    context = session.sparkContext
    other = session.newSession()
    for name, value in {**{name: session.conf.get(name) for name in PARTITIONS}, **settings}.items():
        other.conf.set(name, str(value))
    context.setLocalProperty(_POOL, Pool.BESIDE)
    try:
        yield other
    finally:
        context.setLocalProperty(_POOL, Pool.BATCHES)


def read_parquet(session: SparkSession, columns: str, *paths: str) -> DataFrame:
    """Returns the rows of files, or of folders of files, with these columns, which are in the form of a DDL.

    A path is one name. By default Spark takes some characters of it for a pattern, such as `*` and `[`.
    """
    return session.read.schema(columns).option("__globPaths__", "false").parquet(*paths)


def _conf(settings: SparkSettings, jars: tuple[Path, ...], folder: Path) -> dict[str, str]:
    local = {} if not settings.master.startswith("local") else {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }  # fmt: skip
    if local and not settings.master.startswith("local-cluster"):
        # Any user of the machine reaches the driver's ports. Spark makes the secret itself.
        local["spark.authenticate"] = "true"
    return {
        **local,
        "spark.master": settings.master,
        "spark.app.name": "tidemark",
        "spark.jars": ",".join(map(str, jars)),
        "spark.driver.memory": settings.driver_memory,
        # After an OutOfMemoryError half of the JVM may continue. It should end as a whole. The codecs of Parquet put
        # their native libraries into Java's temporary folder. What is mounted noexec loads none: /tmp, or the volume.
        _OPTIONS: (
            f"-Dlog4j2.configurationFile=file:{folder / 'log4j2.properties'} -XX:+ExitOnOutOfMemoryError"
            f' "-XX:ErrorFile={folder / "java-error.log"}"'
            + (f" -D{_JAVA_TEMPORARY}={folder / 'tmp'}" if _may_load(folder / "tmp") else "")
        ),
        "spark.local.dir": str(folder / _SCRATCH),
        "spark.pyspark.python": sys.executable,
        # A small append must not wait until all tasks of a MERGE have begun.
        "spark.scheduler.mode": "FAIR",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        **SESSION_SETTINGS,
        **_ON_A_DISK,
        **_LONG_ROWS,
        **(s3_conf(os.environ) if _has_log_store(jars) else {}),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        **_REMEMBERED,
        "spark.ui.showConsoleProgress": "false",
    }


def _shared_classes() -> str:
    """Returns the option with which the JVM finds Spark's classes in an archive; nothing if there is none."""
    program = java_program()
    archive = None if program is None else class_archive(program, Path(sys.prefix))
    return f'"-XX:SharedArchiveFile={archive}"' if archive is not None and archive.exists() else ""


def _has_log_store(jars: tuple[Path, ...]) -> bool:
    return any(jar.name == LOG_STORE_JAR for jar in jars)


def _forget(gateway: ClientServer) -> None:
    """Makes PySpark forget a JVM that has ended, and closes what was connected to it."""
    # PySpark's own shutdown would send the JVM a last command, and log that it gets no answer.
    gateway.close(keep_callback_server=False, close_callback_server_connections=True)
    gateway._gateway_client.finalizer_deque.appendleft(SHUTDOWN_FINALIZER_WORKER)  # noqa: SLF001 - ends its thread
    context = SparkContext._active_spark_context  # noqa: SLF001
    if context is not None:
        server = getattr(context, "_accumulatorServer", None)
        if server is not None:
            server.shutdown()
            server.server_close()
        context._jsc = None  # noqa: SLF001
    SparkContext._active_spark_context = None  # noqa: SLF001
    SparkContext._gateway = None  # noqa: SLF001
    SparkContext._jvm = None  # noqa: SLF001
    SparkSession._instantiatedSession = None  # noqa: SLF001
    SparkSession._activeSession = None  # noqa: SLF001
