"""The pairs of Spark and Delta that may write the lake.

Tidemark uses more of Delta than Delta promises to keep: classes of its transactions, and the form of its log, which
this process writes as well (`pipeline.lake.files.delta_commit`). With another version a commit could be lost or doubled
without an error. So whatever isn't listed is refused. Who adds a pair runs all tests of the lake with it, in a JVM of
this process's own and by Spark Connect.
"""

from dataclasses import dataclass
from typing import Final

from pipeline.errors import Definite


@dataclass(frozen=True, slots=True)
class KnownPair:
    """A Spark, by its major and minor version, and a Delta that together may write the lake, and why they may."""

    spark: str
    delta: str
    reason: str

    @property
    def jar(self) -> str:
        """Returns the name of the jar that has this Delta for this Spark."""
        return f"delta-spark_{self.spark}_2.13-{self.delta}.jar"


KNOWN_PAIRS: Final = (
    KnownPair(
        "4.2",
        "4.4.0",
        "PySpark and Delta's jars are pinned to these, and each test of the lake runs with them",
    ),
)


def check_pair(found: str, spark: str, delta: str, remedy: str) -> None:
    """Raises Definite if a Spark of this version may not write the lake with this Delta.

    `found`: what has the two. `remedy`: how it gets a known pair.
    """
    release = ".".join(spark.split(".")[:2])
    if not any((pair.spark, pair.delta) == (release, delta) for pair in KNOWN_PAIRS):
        known = " or ".join(f"Spark {pair.spark} with Delta {pair.delta}" for pair in KNOWN_PAIRS)
        raise Definite(
            f"{found} has Spark {spark} with Delta {delta}, and Tidemark writes a lake only with {known}: {remedy}"
        )
