"""What is wrong with a JSON document or its diffs, by the code that a compiled loop returns."""

from typing import Final, Never

from pipeline.binlog.rows.json import diff_kernels, document_kernels, document_tree, opaque_values, path_legs
from pipeline.binlog.rows.stored_values import StoredColumn
from pipeline.errors import UndecodableError

_WRONG: Final = {
    opaque_values.NO_DECIMAL: "a DECIMAL in a JSON document isn't one",
    opaque_values.NO_DATE: "a date or time in a JSON document isn't one",
    document_kernels.ENDS: "a JSON document ends inside of a value",
    document_kernels.OVERLAPS: "values of a JSON document overlap",
    document_kernels.TOO_DEEP: "a JSON document is nested more than 100 times",
    document_kernels.REACHES_BEYOND: "a part of a JSON document reaches beyond it",
    document_kernels.NO_TYPE: "a JSON document has a value of a type that JSON doesn't have",
    document_kernels.NO_LITERAL: "a JSON document has a literal that is neither null nor true nor false",
    document_kernels.NO_NUMBER: "a JSON document has a double that is no number",
    document_kernels.TOO_LONG: "a length in a JSON document has more than 5 bytes",
    diff_kernels.DIFFS_END: "the diffs of a JSON document end too early",
    diff_kernels.NO_LENGTH: "a diff of a JSON document has a length that begins with 251 or 255",
    diff_kernels.NO_OPERATION: "a diff of a JSON document has an operation that isn't known",
    diff_kernels.NOT_A_VALUE: "a diff of a JSON document has a value that isn't one",
    path_legs.NO_PATH: "the path of a diff isn't a path into a JSON document",
    document_tree.MISSING: "a diff of a JSON document is of a part that the document doesn't have",
    document_tree.DISORDERED: "an object in a JSON document has two members of one name, or in another order",
}


def refuse_document(column: StoredColumn, code: int) -> Never:
    """Raises UndecodableError, which names the column."""
    raise UndecodableError(f"{column.name}: {_WRONG[code]}")
