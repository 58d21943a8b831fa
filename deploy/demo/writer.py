"""The writer: keeps changing the shop, and keeps a tally of every change that it committed.

`python -m deploy.demo.writer HOST PORT USER PASSWORD TALLY ORDERS ITEMS CUSTOMERS` runs until SIGTERM, then writes the
tally as a Parquet file with one line for each change of a row, in no particular order:

    table, op (c, u or d), key (as text, parts joined by "|"), version, op_no

A change of a key counts as a delete of the old one and an update of the new one, as in the changelog. A delete carries
the version and the number that the row had. Several threads write at once, each to keys of its own, so that each
knows its rows' versions without asking.
"""

import json
import random
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pymysql

from deploy.demo.shop import DATABASE, Size

THREADS = 4
TRANSACTIONS_PER_SECOND = 300

Line = tuple[str, str, str, int, int]
Parameter = int | str | float | None


@dataclass
class Row:
    """What a thread knows of a key of its own: the last version and number, and whether the row is there."""

    version: int
    op_no: int
    there: bool


@dataclass
class Thread:
    """One writing connection. `known` are the keys that it has changed; the others are as they were filled.

    `per_s`: how many transactions a second all threads write together.
    """

    index: int
    size: Size
    connection: "pymysql.Connection[pymysql.cursors.Cursor]"
    random: random.Random
    tally: list[Line] = field(default_factory=list)
    known: dict[tuple[str, str], Row] = field(default_factory=dict)
    ops: int = 0
    inserted: int = 0
    pending: list[Line] = field(default_factory=list)
    per_s: float = TRANSACTIONS_PER_SECOND

    def run(self, stop: threading.Event) -> None:
        """Write transactions at an even pace until told to stop."""
        while not stop.wait(THREADS / self.per_s * self.random.uniform(0, 1.6)):
            self.transaction()

    def transaction(self) -> None:
        """One transaction over a few rows of one to three tables."""
        self.pending = []
        with self.connection.cursor() as cursor:
            self.connection.begin()
            self.changes(cursor)
            self.connection.commit()
        self.tally += self.pending

    def changes(self, cursor: "pymysql.cursors.Cursor") -> None:
        """What a transaction does."""
        for _ in range(self.random.choice((1, 2, 2, 3, 5))):
            self.random.choice((self.order, self.order, self.item, self.customer))(cursor)

    def order(self, cursor: "pymysql.cursors.Cursor") -> None:
        """Change an order: mostly update it, sometimes delete, bring back, insert or give it another id."""
        id_ = self.own(self.size.orders)
        row = self.row("orders", str(id_), id_ <= self.size.orders)
        if not row.there:
            values = (*self.order_values(), *self.stamp(row))
            self.execute(cursor, f"INSERT INTO orders VALUES ({', '.join(['%s'] * 12)})", (id_, *values))
            self.wrote("orders", "c", str(id_), row, there=True)
            return
        match self.random.choices(("update", "delete", "insert", "move"), (60, 15, 15, 10))[0]:
            case "update":
                values = (*self.order_values(), *self.stamp(row))
                self.execute(cursor, f"UPDATE orders SET {_ORDER_SET} WHERE id = %s", (*values, id_))
                self.wrote("orders", "u", str(id_), row, there=True)
            case "delete":
                self.execute(cursor, "DELETE FROM orders WHERE id = %s", (id_,))
                self.deleted("orders", str(id_), row)
            case "insert":
                new, fresh = self.fresh("orders", self.size.orders)
                values = (*self.order_values(), *self.stamp(fresh))
                self.execute(cursor, f"INSERT INTO orders VALUES ({', '.join(['%s'] * 12)})", (new, *values))
                self.wrote("orders", "c", str(new), fresh, there=True)
            case _:
                new, fresh = self.fresh("orders", self.size.orders)
                moved = (new, *self.stamp(fresh), id_)
                self.execute(
                    cursor, "UPDATE orders SET id = %s, version = %s, op_no = %s WHERE id = %s", moved
                )
                self.deleted("orders", str(id_), row)
                self.wrote("orders", "u", str(new), fresh, there=True)

    def item(self, cursor: "pymysql.cursors.Cursor") -> None:
        """Change an item: update, delete or bring back."""
        number = self.own(self.size.order_items)
        order, line = 1 + (number - 1) // 2, 1 + (number - 1) % 2
        key = f"{order}|{line}"
        row = self.row("order_items", key, there=True)
        quantity, price = self.random.randint(1, 99), self.random.randint(0, 10**6) / 100
        if not row.there:
            values = (order, line, f"SKU-{number % 5000}", quantity, price, *self.stamp(row))
            self.execute(cursor, "INSERT INTO order_items VALUES (%s, %s, %s, %s, %s, %s, %s)", values)
            self.wrote("order_items", "c", key, row, there=True)
        elif self.random.random() < 0.2:
            self.execute(cursor, "DELETE FROM order_items WHERE order_id = %s AND line = %s", (order, line))
            self.deleted("order_items", key, row)
        else:
            changed = (quantity, price, *self.stamp(row), order, line)
            statement = "UPDATE order_items SET quantity = %s, price = %s, version = %s, op_no = %s"
            self.execute(cursor, f"{statement} WHERE order_id = %s AND line = %s", changed)
            self.wrote("order_items", "u", key, row, there=True)

    def customer(self, cursor: "pymysql.cursors.Cursor") -> None:
        """Change a customer: update, delete, bring back, or spell the name otherwise (which is the same key there)."""
        number = self.own(self.size.customers)
        plain, loud = f"Customer {number}", f"CUSTOMER {number}"
        rows = {
            plain: self.row("customers", plain, there=True),
            loud: self.row("customers", loud, there=False),
        }
        name = next((name for name, row in rows.items() if row.there), None)
        email = f"c{number}-{self.random.randint(1, 99)}@example.com"
        if name is None:
            name = self.random.choice((plain, loud))
            values = (name, email, None, "2024-02-29", *self.stamp(rows[name]))
            self.execute(cursor, "INSERT INTO customers VALUES (%s, %s, %s, %s, %s, %s)", values)
            self.wrote("customers", "c", name, rows[name], there=True)
            return
        match self.random.choices(("update", "delete", "respell"), (60, 20, 20))[0]:
            case "update":
                changed = (email, *self.stamp(rows[name]), name)
                self.execute(
                    cursor,
                    _RESEND,
                    changed,
                )
                self.wrote("customers", "u", name, rows[name], there=True)
            case "delete":
                self.execute(cursor, "DELETE FROM customers WHERE name = %s", (name,))
                self.deleted("customers", name, rows[name])
            case _:
                other = loud if name == plain else plain
                changed = (other, *self.stamp(rows[other]), name)
                self.execute(
                    cursor,
                    _RESPELL,
                    changed,
                )
                self.deleted("customers", name, rows[name])
                self.wrote("customers", "u", other, rows[other], there=True)

    def order_values(self) -> tuple[Parameter, ...]:
        """A new order's columns between its id and its version."""
        pick = self.random
        details = json.dumps(
            {"gift": pick.random() < 0.5, "n": pick.randint(-9, 9), "s": "ü" * pick.randint(0, 3)}
        )
        return (
            f"Customer {pick.randint(1, self.size.customers)}",
            pick.choice(("placed", "paid", "shipped", "returned")),
            f"{pick.randint(0, 10**9) / 100:.2f}",
            pick.choice((None, f"{pick.random():.4f}")),
            pick.choice((None, pick.random() * 100)),
            f"2025-0{pick.randint(1, 9)}-1{pick.randint(0, 9)} 12:00:00.{pick.randint(0, 999):03}",
            pick.choice((None, f"2025-06-01 00:00:00.{pick.randint(0, 999999):06}")),
            pick.choice((None, "", f"changed 🔁 {pick.randint(1, 99)}")),
            pick.choice((None, details)),
        )

    def own(self, rows: int) -> int:
        """The number of one of this thread's rows, mostly any, sometimes one of a few hot ones."""
        most = max(rows // THREADS, 1)
        number = self.random.randint(1, min(20, most) if self.random.random() < 0.1 else most)
        return min((number - 1) * THREADS + self.index + 1, rows + self.index + 1)

    def fresh(self, table: str, rows: int) -> tuple[int, Row]:
        """An id that was never used."""
        self.inserted += 1
        id_ = rows + THREADS * (self.inserted + 1) + self.index + 1
        return id_, self.row(table, str(id_), there=False)

    def row(self, table: str, key: str, there: bool) -> Row:
        """What's known of the key; `there`: whether it was filled."""
        return self.known.setdefault((table, key), Row(1 if there else 0, 0, there))

    def stamp(self, row: Row) -> tuple[int, int]:
        """The next version and number for the row."""
        self.ops += 1
        row.version, row.op_no = row.version + 1, self.ops * THREADS + self.index
        return row.version, row.op_no

    def wrote(self, table: str, op: str, key: str, row: Row, there: bool) -> None:
        """Note an insert or an update."""
        row.there = there
        self.pending.append((table, op, key, row.version, row.op_no))

    def deleted(self, table: str, key: str, row: Row) -> None:
        """Note a delete, which carries what the row had."""
        row.there = False
        self.pending.append((table, "d", key, row.version, row.op_no))

    def execute(
        self, cursor: "pymysql.cursors.Cursor", statement: str, values: tuple[Parameter, ...]
    ) -> None:
        """Run a statement that must change exactly one row."""
        changed = cursor.execute(statement, values)
        if changed != 1:
            raise RuntimeError(f"{statement} with {values} changed {changed} rows")


_RESEND = "UPDATE customers SET email = %s, version = %s, op_no = %s WHERE name = %s"
_RESPELL = "UPDATE customers SET name = %s, version = %s, op_no = %s WHERE name = %s"
_ORDER_COLUMNS = ("customer", "status", "total", "discount", "weight", "placed", "paid", "note", "details")
_ORDER_SET = ", ".join(f"{column} = %s" for column in (*_ORDER_COLUMNS, "version", "op_no"))


def main(arguments: list[str]) -> None:
    """Write until SIGTERM, then leave the tally."""
    host, port, user, password, tally, *sizes = arguments
    size = Size(*map(int, sizes))
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    writers = [
        Thread(i, size, _connect(host, int(port), user, password), random.Random(i)) for i in range(THREADS)
    ]
    with ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(writer.run, stop) for writer in writers]:
            done.result()
    save([line for writer in writers for line in writer.tally], Path(tally))


def save(lines: list[Line], tally: Path) -> None:
    """Write a tally."""
    columns = list(zip(*lines, strict=True)) or [(), (), (), (), ()]
    names = ["table", "op", "key", "version", "op_no"]
    types = [pa.string(), pa.string(), pa.string(), pa.int64(), pa.int64()]
    arrays = [pa.array(column, type_) for column, type_ in zip(columns, types, strict=True)]
    pq.write_table(pa.table(arrays, names=names), tally)


def _connect(host: str, port: int, user: str, password: str) -> "pymysql.Connection[pymysql.cursors.Cursor]":
    return pymysql.connect(
        host=host,
        port=port,
        user=user,
        password=password,
        database=DATABASE,
        charset="utf8mb4",
        client_flag=pymysql.constants.CLIENT.FOUND_ROWS,
        ssl_disabled=True,  # it would read all the certificates of the machine, for each connection
    )


if __name__ == "__main__":
    main(sys.argv[1:])
