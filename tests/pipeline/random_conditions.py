"""Random conditions about a table of which each kind of column is one: as trees, and as text that isn't quite one."""

from datetime import date, datetime
from decimal import Decimal

from hypothesis import strategies as st

from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.snapshot import row_filter
from pipeline.types import column_types
from tests.pipeline.printed_conditions import printed

# As MySQL creates it: see `CREATE`.
CREATE = """CREATE TABLE `{database}`.samples (
    id INT NOT NULL PRIMARY KEY,
    small TINYINT, big BIGINT UNSIGNED, price DECIMAL(8, 2), ratio DOUBLE, flags BIT(4), born YEAR,
    name VARCHAR(20) CHARACTER SET utf8mb4, kind ENUM('a', 'b', 'c'), tags SET('x', 'y'), code VARBINARY(8),
    day DATE, moment DATETIME(3), instant TIMESTAMP(6) NULL, clock TIME(2), doc JSON
)"""

SAMPLES = TableSchema(
    TableId("db", "samples"),
    (
        Column("id", column_types.Integer(4, unsigned=False), nullable=False),
        Column("small", column_types.Integer(1, unsigned=False), nullable=True),
        Column("big", column_types.Integer(8, unsigned=True), nullable=True),
        Column("price", column_types.Decimal(8, 2), nullable=True),
        Column("ratio", column_types.Double(), nullable=True),
        Column("flags", column_types.Bit(4), nullable=True),
        Column("born", column_types.Year(), nullable=True),
        Column("name", column_types.Text("utf8mb4"), nullable=True),
        Column("kind", column_types.Enum(("a", "b", "c")), nullable=True),
        Column("tags", column_types.Set(("x", "y")), nullable=True),
        Column("code", column_types.Binary(), nullable=True),
        Column("day", column_types.Date(), nullable=True),
        Column("moment", column_types.DateTime(3), nullable=True),
        Column("instant", column_types.Timestamp(6), nullable=True),
        Column("clock", column_types.Time(2), nullable=True),
        Column("doc", column_types.Json(), nullable=True),
    ),
    (0,),
)

_numbers = (
    st.integers(-130, 130)
    | st.sampled_from([2**63, 2**64 - 1, 2**64, -(2**63)])
    | st.booleans()
    | st.decimals(-200, 200, places=2).map(lambda value: Decimal(f"{value:.2f}"))
    | st.sampled_from([0.5, 1e3, -2.5e-3, 1e300])
)
_years = st.sampled_from([0, 1, 70, 99, 1901, 1999, 2026, 2155, 3000])
_texts = st.sampled_from(
    [
        "",
        "a",
        "A",
        "b",
        "ä",
        "ab",
        "a b",
        "a ",
        "x,y",
        "x",
        "100%",
        "it's",
        "a\\b",
        "a_b",
        "\0",
        "\n",
        "😀",
        "ß",
        "ss",
    ]
)
_at = datetime.fromisoformat
_dates = st.dates(date(1969, 12, 30), date(2040, 1, 2)) | st.sampled_from([date(1, 1, 1), date(9999, 12, 31)])
_moments = st.datetimes(_at("1969-12-30"), _at("2040-01-02")).map(lambda value: value.replace(fold=0)) | (
    st.sampled_from([_at("2026-01-31"), _at("2026-01-31T10:30:00.5"), _at("0001-01-01")])
)
_times = st.sampled_from(["00:00:00", "10:30:00", "10:30:00.5", "-10:30:00", "838:59:59", "1:02:03.123456"])
_patterns = st.text("aAbäß%_\\' ", max_size=5)

# The literals that fit each kind of column.
LITERALS: dict[str, st.SearchStrategy[row_filter.Literal]] = {
    **dict.fromkeys(("id", "small", "big", "price", "ratio", "flags"), _numbers),
    "born": _years,
    **dict.fromkeys(("name", "kind", "tags"), _texts),
    "code": _texts | st.binary(max_size=4),
    **dict.fromkeys(("day", "moment", "instant"), _dates | _moments),
    "clock": _times,
}


@st.composite
def _predicates(draw: st.DrawFn) -> row_filter.Condition:
    column, negated = draw(st.sampled_from([*LITERALS, "doc"])), draw(st.booleans())
    if column == "doc":
        return row_filter.IsNull(column, negated)
    literals = LITERALS[column] | st.none()
    form = draw(
        st.sampled_from(
            [row_filter.Compare, row_filter.In, row_filter.Between, row_filter.Like, row_filter.IsNull]
        )
    )
    if form is row_filter.Like and column in ("name", "kind", "tags", "code"):
        return row_filter.Like(column, draw(_patterns), draw(st.sampled_from(["\\", "", "!", "a"])), negated)
    if form is row_filter.In:
        return row_filter.In(column, tuple(draw(st.lists(literals, min_size=1, max_size=4))), negated)
    if form is row_filter.Between:
        return row_filter.Between(column, draw(literals), draw(literals), negated)
    if form is row_filter.IsNull:
        return row_filter.IsNull(column, negated)
    return row_filter.Compare(column, draw(st.sampled_from(row_filter.Operator)), draw(literals))


def _joined(inner: st.SearchStrategy[row_filter.Condition]) -> st.SearchStrategy[row_filter.Condition]:
    parts = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return inner.map(row_filter.Not) | parts.map(row_filter.And) | parts.map(row_filter.Or)


# Conditions about SAMPLES, of fitting literals.
conditions: st.SearchStrategy[row_filter.Condition] = st.recursive(_predicates(), _joined, max_leaves=6)


@st.composite
def broken_texts(draw: st.DrawFn) -> str:
    """The text of a condition with a piece cut out, put in, or given twice."""
    text = printed(draw(conditions))
    start, end = sorted((draw(st.integers(0, len(text))), draw(st.integers(0, len(text)))))
    piece = draw(
        st.sampled_from(["", text[start:end], "'", "`", "(", ")", "NOT ", "--", "/*", "\\", "1e", "\ud800"])
    )
    return text[:start] + piece + text[draw(st.sampled_from([start, end])) :]
