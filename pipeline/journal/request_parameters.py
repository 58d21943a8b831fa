"""The parameters of requests for what the journal has."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from pipeline.errors import Definite
from pipeline.schema.table_names import MalformedTableName, parse_tables
from pipeline.schema.table_schema import TableId

# How long (s) a request waits for what the journal has where it doesn't say so, and at most.
WAIT_S: Final = 30.0
LONGEST_WAIT_S: Final = 600.0


class MalformedRequest(Definite):
    """A request has a wrong parameter; the text names it."""


def check_names(given: Iterable[str], *there: str) -> None:
    """Raises MalformedRequest for a parameter that isn't there."""
    if unknown := sorted(set(given) - set(there)):
        listed = f"there {'is' if len(there) == 1 else 'are'} {', '.join(there) or 'none'}"
        raise MalformedRequest(f"{unknown[0]}: there is no such parameter; {listed}")


def check_once(names: Sequence[str]) -> None:
    """Raises MalformedRequest for a parameter that comes more than once: only one of its values would be taken."""
    if len(names) == len(set(names)):
        return
    name, _ = Counter(names).most_common(1)[0]
    raise MalformedRequest(
        f"{name}: it comes more than once; give it once, several values with commas between them"
    )


def tables_named(text: str) -> tuple[TableId, ...]:
    """Returns the tables that a parameter names, each once. Raises MalformedRequest."""
    try:
        return tuple(dict.fromkeys(parse_tables(text)))
    except MalformedTableName as error:
        raise MalformedRequest(f"tables: {error}") from error
