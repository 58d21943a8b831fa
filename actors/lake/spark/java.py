"""The Java that Spark's JVM runs on, and where the archive of Spark's classes lies for it.

A JVM reads, checks and links some 20,000 classes of Spark's at each start. With an archive it maps them as they were in
the memory of another one, and its start costs half as much. An archive fits one build of Java, and PySpark's own jars
as they were. A JVM that it doesn't fit does without it, and says nothing.

Source: Java 17, "Class Data Sharing", dynamic archives (JEP 350).
"""

import hashlib
import os
import shutil
from pathlib import Path


def java_program() -> str | None:
    """Returns the Java that Spark runs on, by JAVA_HOME or PATH; None without any. It may not be there."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else shutil.which("java")


def class_archive(program: str, environment: Path) -> Path:
    """Returns where the archive for a Java lies in an environment of Python that has PySpark, there or not."""
    home = Path(program).resolve().parents[1]
    release = home / "release"
    build = release.read_bytes() if release.exists() else b""
    named = hashlib.sha256(bytes(home) + b"\n" + build).hexdigest()[:12]
    return environment / "share" / "tidemark" / f"spark-{named}.jsa"
