"""When two column names are the same: MySQL, and the engines that read the lake, don't agree.

MySQL ignores the case of column names, letter by letter. It knows fewer letters than Unicode has. So a table may have
`ß` and `ss`, `s` and `ſ`, `a` and `á`. Spark has more names for one column than MySQL: `s` and `ſ` are the same to it,
and so are `i`, `ı` and `İ`.

Source: MySQL 9.7 Reference Manual, "Identifier Case Sensitivity"; Java, `String.equalsIgnoreCase`, by which Spark
resolves names, and `String.toLowerCase`, by which Delta does.
"""

# ruff: noqa: RUF002 - letters that look alike are what this is about
from collections.abc import Iterable
from functools import lru_cache


@lru_cache(maxsize=4096)
def fold_name(name: str) -> str:
    """What two names have in common if Spark or Delta may take one for the other."""
    # Delta has `İ` in two letters, i and a dot above it.
    return "".join(map(_fold_letter, name)).replace("i\u0307", "i")


def _fold_letter(letter: str) -> str:
    upper = letter.upper()
    return (upper if len(upper) == 1 else letter).lower()[0]


def find_column(name: str, columns: Iterable[str]) -> str | None:
    """The one of a table's columns that a statement means by this name, as the table spells it."""
    small = name.lower()
    found = None
    for column in columns:
        if column == name:
            return column
        if column.lower() == small:
            found = column
    return found
