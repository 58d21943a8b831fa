"""Names, texts and types in Spark's SQL."""

import pyarrow as pa


def table_at(path: str) -> str:
    """Returns the name of the Delta table at a path, in Spark's SQL."""
    return f"delta.{quoted(path)}"


def quoted(name: str) -> str:
    """Returns a name as an identifier of Spark's SQL."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """Returns a text as a literal of Spark's SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def spark_type(arrow: pa.DataType) -> str:
    """Returns Spark's SQL name of a canonical Arrow type."""
    if pa.types.is_decimal(arrow):
        return f"DECIMAL({arrow.precision},{arrow.scale})"
    if pa.types.is_list(arrow):
        return f"ARRAY<{spark_type(arrow.value_type)}>"
    if pa.types.is_struct(arrow):
        return f"STRUCT<{','.join(f'{field.name}:{spark_type(field.type)}' for field in arrow)}>"
    return SPARK_TYPES[arrow]


# Of those types that have no parameters.
SPARK_TYPES = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.date32(): "DATE",
    pa.timestamp("us"): "TIMESTAMP_NTZ",
    pa.timestamp("us", tz="UTC"): "TIMESTAMP",
}
