"""The live view as text, for those who read the lake with an engine of their own."""

from collections.abc import Iterator

from actors.delta_log import logged
from pipeline.dialects import Dialect, registration
from pipeline.errors import Definite
from pipeline.lake_tables import Tier, location
from pipeline.live_view import Reached, live_view_sql, readable
from pipeline.schema import TableId


def live_view_text(root: str, name: str, dialect: Dialect) -> str:
    """The query that reads a table, `database.table`, as of now; from what its lake tables say of themselves.

    Raises Definite where the lake has no mirror of it, and OSError where the lake can't be read.
    """
    for table in _called(name):
        mirrored, changelog = (logged(location(root, table, tier)) for tier in (Tier.MIRROR, Tier.CHANGELOG))
        if mirrored is None or changelog is None:
            continue
        readable(mirrored, table)
        assert mirrored.schema is not None
        text = live_view_sql(root, mirrored.schema, Reached.told(mirrored, changelog), dialect=dialect)
        told = registration(root, table) if dialect is Dialect.TRINO else _settings(text, dialect)
        return "\n".join([*(f"-- once: {statement};" for statement in told), text])
    raise Definite(
        f"{root} has no mirror of {name} (database.table): is it captured, and has its snapshot begun?"
    )


def _settings(text: str, dialect: Dialect) -> tuple[str, ...]:
    """What a session of Spark's has to be told, lest it puts something in place of a name."""
    substituted = dialect is Dialect.SPARK and "${" in text
    return ("SET spark.sql.variable.substitute = false",) if substituted else ()


def _called(name: str) -> Iterator[TableId]:
    """The tables that may be meant: both names may have dots in them."""
    for at, character in enumerate(name):
        if character == "." and 0 < at < len(name) - 1:
            yield TableId(name[:at], name[at + 1 :])
