"""What other programs use of Tidemark: the lake with its live views, the changes, and one's own writes in both.

Nothing else is meant for them: `actors` and `pipeline` may change in any version. Each name is imported when it is
used, so that a program that reads changes needs no Spark.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from actors.http.changes.client import ChangeBatch, ChangesGone, ChangesInterrupted, changes
    from actors.journal.stream.data_source import TidemarkSource
    from actors.lake.live_view import live_view
    from actors.lake.read_your_writes import (
        SESSION_TRACK,
        NotApplied,
        Written,
        read_your_writes,
        wait_until_applied,
    )
    from pipeline.errors import Definite, Transient
    from pipeline.schema.table_schema import TableId

_NAMES: Final = {
    "actors.http.changes.client": ("ChangeBatch", "ChangesGone", "ChangesInterrupted", "changes"),
    "actors.journal.stream.data_source": ("TidemarkSource",),
    "actors.lake.live_view": ("live_view",),
    "actors.lake.read_your_writes": (
        "SESSION_TRACK",
        "NotApplied",
        "Written",
        "read_your_writes",
        "wait_until_applied",
    ),
    "pipeline.errors": ("Definite", "Transient"),
    "pipeline.schema.table_schema": ("TableId",),
}
_MODULE_OF: Final = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_MODULE_OF)  # noqa: PLE0605 - it is a list, though not a literal one

if not TYPE_CHECKING:  # a checker of types has the imports above, and finds a name that isn't there

    def __getattr__(name: str) -> Any:
        """Returns a name of `__all__`. Raises AttributeError for any other."""
        if name not in _MODULE_OF:
            raise AttributeError(f"tidemark has no {name}; it has {', '.join(__all__)}")
        return getattr(import_module(_MODULE_OF[name]), name)
