"""The shop: three tables with keys and columns of many kinds, filled by the server itself.

Each row carries `version`, which rises with every change of its key, and `op_no`, the number of the change that wrote
it. They let the judge tell whether a key ever went back in time and whether a change is missing.
"""

from dataclasses import dataclass

from deploy.toolchain.mysql_server import MysqlServer

DATABASE = "shop"

_ORDERS = """CREATE TABLE orders (
    id       BIGINT UNSIGNED NOT NULL,
    customer VARCHAR(40) NOT NULL,
    status   ENUM('placed', 'paid', 'shipped', 'returned') NOT NULL,
    total    DECIMAL(12, 2) NOT NULL,
    discount DECIMAL(5, 4),
    weight   DOUBLE,
    placed   DATETIME(3) NOT NULL,
    paid     TIMESTAMP(6) NULL,
    note     TEXT CHARACTER SET utf8mb4,
    details  JSON,
    version  INT UNSIGNED NOT NULL,
    op_no    BIGINT UNSIGNED NOT NULL,
    PRIMARY KEY (id))"""

_ORDER_ITEMS = """CREATE TABLE order_items (
    order_id BIGINT UNSIGNED NOT NULL,
    line     SMALLINT UNSIGNED NOT NULL,
    sku      VARCHAR(20) NOT NULL,
    quantity INT NOT NULL,
    price    DECIMAL(10, 2) NOT NULL,
    version  INT UNSIGNED NOT NULL,
    op_no    BIGINT UNSIGNED NOT NULL,
    PRIMARY KEY (order_id, line))"""

_CUSTOMERS = """CREATE TABLE customers (
    name    VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci NOT NULL,
    email   VARCHAR(80) NOT NULL,
    city    VARCHAR(40),
    since   DATE NOT NULL,
    version INT UNSIGNED NOT NULL,
    op_no   BIGINT UNSIGNED NOT NULL,
    PRIMARY KEY (name))"""

# n is the row's number, from 1.
_FILL_ORDERS = """INSERT INTO orders SELECT n, CONCAT('Customer ', 1 + n % {customers}), 1 + n % 4,
    (n * 37 % 1000000) / 100, IF(n % 3, (n % 10000) / 10000, NULL), IF(n % 5, n / 8, NULL),
    '2024-01-01' + INTERVAL n % 31536000 SECOND + INTERVAL n % 1000 * 1000 MICROSECOND,
    IF(n % 4, '2024-01-01' + INTERVAL n % 31536000 SECOND + INTERVAL n % 1000000 MICROSECOND, NULL),
    IF(n % 7, CONCAT('Bestellung №', n, IF(n % 2, ' 🎁 schön', ' thanks')), NULL),
    IF(n % 6, JSON_OBJECT('gift', n % 2 = 0, 'tags', JSON_ARRAY('a', n % 10), 'rate', n / 16), NULL),
    1, 0 FROM ({rows}) t"""

_FILL_ORDER_ITEMS = """INSERT INTO order_items SELECT 1 + (n - 1) DIV 2, 1 + (n - 1) % 2, CONCAT('SKU-', n % 5000),
    1 + n % 9, (n * 13 % 100000) / 100, 1, 0 FROM ({rows}) t"""

_FILL_CUSTOMERS = """INSERT INTO customers SELECT CONCAT('Customer ', n), CONCAT('c', n, '@example.com'),
    ELT(1 + n % 4, 'Köln', 'São Paulo', '東京', NULL), '2000-01-01' + INTERVAL n % 8000 DAY, 1, 0 FROM ({rows}) t"""

_STEP = 100_000


@dataclass(frozen=True, slots=True)
class Size:
    """Rows of each table at the beginning."""

    orders: int
    order_items: int
    customers: int

    @staticmethod
    def of(rows: int) -> "Size":
        """The shop with so many orders, half as many items and a tenth as many customers."""
        return Size(rows, max(rows // 2, 2), max(rows // 10, 2))

    @property
    def busy_customers(self) -> int:
        """The customers that the writer changes. Those after them stay as they were filled."""
        return self.customers - max(self.customers // 10, 1)

    @property
    def quiet_customers(self) -> list[str]:
        """The names of the others."""
        return [f"Customer {number}" for number in range(self.busy_customers + 1, self.customers + 1)]


def fill(server: MysqlServer, size: Size) -> None:
    """Make the tables. What they hold before the capture begins isn't in the log: it's what a snapshot is for."""
    server.sql(
        f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4",
        f"USE {DATABASE}",
        "SET SESSION sql_log_bin = 0, cte_max_recursion_depth = 1000, time_zone = '+00:00'",
        _ORDERS,
        _ORDER_ITEMS,
        _CUSTOMERS,
        *_inserts(_FILL_ORDERS.replace("{customers}", str(size.customers)), size.orders),
        *_inserts(_FILL_ORDER_ITEMS, size.order_items),
        *_inserts(_FILL_CUSTOMERS, size.customers),
        "ANALYZE TABLE orders, order_items, customers",
    )


def _inserts(statement: str, rows: int) -> list[str]:
    """The statement for all rows, some at a time, so that no transaction is huge."""
    return [
        statement.replace("{rows}", _numbers(first, min(first + _STEP, rows + 1)))
        for first in range(1, rows + 1, _STEP)
    ]


def _numbers(first: int, end: int) -> str:
    digits = "WITH RECURSIVE d (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM d WHERE i < 999) SELECT i FROM d"
    return (
        f"SELECT {first} + a.i + 1000 * b.i AS n FROM ({digits}) a JOIN ({digits} LIMIT 100) b"
        f" WHERE {first} + a.i + 1000 * b.i < {end}"
    )
