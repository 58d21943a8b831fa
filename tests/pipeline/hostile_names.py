"""Names of columns with a meaning: in SQL, in Spark, Delta and DuckDB, or in our own queries."""

# ruff: noqa: RUF001 - letters that look alike are what this is about
import random
import string
from typing import Final

from pipeline.schema.spelling import fold_name

COLUMNS: Final = (
    # Our own words, and those of the engines' inner workings that may be a column's name.
    *("m", "c", "mirror", "changed", "rank", "whole", "path", "row", "__rank", "__whole", "__m", "__c"),
    *("file_path", "row_index", "filename", "file_row_number", "rowid", "input_file_name", "row_number"),
    *("_source_row_present_", "_target_row_present_", "_row_dropped_", "_incr_row_count_", "_row_id_"),
    *("_file_name_", "_change_type", "_commit_version", "_commit_timestamp", "_row-id_", "__row_id"),
    *("element", "list", "key_value", "count", "struct", "source", "target", "delta", "delta_log"),
    *("__absent.list.element", "v__until_3", "__index_level_0__", "__segment2", "_file"),
    # Reserved words, in letters of both cases, and what is a value without its quotes.
    *("select", "FROM", "table", "where", "UNION", "matched", "user", "current_date", "true", "null", "1"),
    # What ends a name, or begins something else.
    *("`", "``", '"', "'", "it's", "\\", "a\\", "'; DROP TABLE t; --", "-- x", "/*", "*/", ";", "?", ":p"),
    *("*", "a.b", "a.b.c", "a", "b", ".", "..", "x,y", "{}", "=", "(", "%", "[0]", "$x", "${x}", "#", "@v"),
    *("${spark.app.name}", "${env:HOME}", " led", "a b", "line\nbreak", "tab\tx", "\x01", "\x7f", "a\u00a0"),
    # Letters of which some are one to somebody.
    *("ß", "ss", "ü", "é", "e\u0301x", "ı", "名前", "ω", "☃" * 64, "l" * 64),
)

# What Spark or Delta would take for one, or for a column of their own.
REFUSED: Final = (
    *(("s", "ſ"), ("i", "ı"), ("ß", "ẞ"), ("σ", "ς"), ("k", "\u212a"), ("i\u0307", "İ")),
    *(("_metadata",), ("_Metadata",), ("__delta_internal_is_row_deleted",), ("_tmp_metadata_row_index",)),
    *(("__op",), ("__SEGMENT",)),
)

_LETTERS: Final = string.printable + "äßſıİσς名\u00a0\u2003\u0301☃"


def random_columns(seed: int, count: int) -> tuple[str, ...]:
    """So many names that MySQL takes in one table, and Spark too."""
    some = random.Random(seed)
    found: dict[str, str] = {}
    while len(found) < count:
        name = "".join(some.choices(_LETTERS, k=some.randint(1, 12)))
        if not name[-1].isspace() and not name.startswith("_"):
            found[fold_name(name)] = name
    return tuple(found.values())
