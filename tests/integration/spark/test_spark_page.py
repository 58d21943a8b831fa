"""What docs/spark.md shows is run as it stands there, with folders of the test's."""

import re
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from decimal import Decimal as Number
from pathlib import Path
from typing import Any

import pytest

from actors.lake.spark.spark_session import Spark
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import Decimal, Integer, Text
from tests.integration.history import History

PAGE = Path(__file__).parents[3] / "docs" / "spark.md"
INT = Integer(8, unsigned=False)
MONEY = Decimal(12, 2)
MINUTE = 60_000_000
ORDERS = TableSchema(
    TableId("shop", "orders"),
    (Column("id", INT, False), Column("status", Text("utf8mb4"), True), Column("total", MONEY, True)),
    (0,),
)
PAYMENTS = TableSchema(
    TableId("shop", "payments"),
    (Column("id", INT, False), Column("order_id", INT, True), Column("amount", MONEY, True)),
    (0,),
)


def examples() -> Iterator[tuple[str, str]]:
    """The page's programs, each with the heading over it; one reads a lake, which isn't here."""
    for section in re.split(r"^#+ ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE):
        for program in re.findall(r"```python\n(.*?)```", section, re.DOTALL):
            if "/lake/" not in program:
                yield section.splitlines()[0], program


class Reports:
    """A journal in which a transaction is committed each minute, and what the page's programs make of it."""

    def __init__(self, spark: Spark, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.history = History(folder / "tidemark" / "journal")
        self.orders = self.history.table(ORDERS)
        self.payments = self.history.table(PAYMENTS)
        self.orders.us_apart = self.payments.us_apart = MINUTE

    def run(self, *but: str) -> list[str]:
        """Runs all programs but those with these headings, with a micro-batch for each segment; their headings."""
        known: dict[str, Any] = {"spark": self.spark.session}
        ran = []
        for heading, program in examples():
            if heading in but:
                continue
            placed = program.replace("/var/lib", str(self.folder))
            small = placed.replace(".load()", '.option("maxRowsPerTrigger", "1").load()')
            exec(compile(small, heading, "exec"), known)
            ran.append(heading)
        return ran

    def rows(self, name: str, *columns: str) -> list[tuple[Any, ...]]:
        read = self.spark.session.read.format("delta").load(str(self.folder / "reports" / name))
        return sorted((tuple(row) for row in read.selectExpr(*columns).collect()), key=str)


@pytest.fixture
def reports(spark: Spark, tmp_path: Path) -> Iterator[Reports]:
    made = Reports(spark, tmp_path)
    with closing(made.history.store):
        yield made


def minute(scn: int) -> datetime:
    """When a transaction was committed, in the zone of Spark's session."""
    return datetime.fromtimestamp(1_700_000_000, tz=None) + timedelta(minutes=scn)  # noqa: DTZ006


PER_MINUTE = "Orders and their totals per minute"
VERSIONS = "Each row's versions (SCD type 2)"
JOINED = "Orders with their payments"


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param((VERSIONS,), id="one"),
        pytest.param((PER_MINUTE, VERSIONS, JOINED), id="each", marks=pytest.mark.full),
    ],
)
def test_the_examples_of_the_page(reports: Reports, shown: tuple[str, ...]) -> None:
    history, orders, payments = reports.history, reports.orders, reports.payments
    history.transaction((orders, "c", (1, "placed", Number(10))), (orders, "c", (2, "placed", Number(5))))
    history.transaction((orders, "u", (1, "paid", Number(10))), (payments, "c", (7, 1, Number(10))))
    history.seal()
    history.transaction((orders, "u", (1, "sent", Number(10))))
    history.transaction((orders, "d", (2, "placed", Number(5))))
    history.seal()
    history.transaction((orders, "u", (1, "back", Number(10))))
    history.transaction((payments, "c", (8, 3, Number(1))))
    history.transaction((orders, "c", (3, "placed", Number(1))))
    history.transaction((orders, "c", (4, "placed", Number(1))), (payments, "c", (9, 4, Number(1))))
    history.seal()
    expected = {
        PER_MINUTE: ("per_minute", ("orders", "CAST(total AS INT)"), [(2, 15)]),
        VERSIONS: (
            "orders_history",
            ("id", "status", "valid_from", "valid_to"),
            [
                (1, "back", minute(5), None),
                (1, "paid", minute(2), minute(3)),
                (1, "placed", minute(1), minute(2)),
                (1, "sent", minute(3), minute(5)),
                (2, "placed", minute(1), minute(4)),
                (3, "placed", minute(7), None),
                (4, "placed", minute(8), None),
            ],
        ),
        JOINED: ("paid_orders", ("id", "CAST(amount AS INT)"), [(1, 10), (4, 1)]),
    }
    assert set(shown) <= set(reports.run(*(heading for heading in expected if heading not in shown)))
    for name, columns, rows in map(expected.__getitem__, shown):
        assert reports.rows(name, *columns) == rows
