"""A bank whose log has no primary key, and writers that keep the sum of all its amounts.

Each transaction moves some of it between rows, changes rows or joins them. So the bag that changes add up to has this
sum wherever a transaction ends, if it's the table there, and only by luck if it isn't.
"""

import random
import threading
from contextlib import AbstractContextManager, closing
from functools import partial

from deploy.toolchain.mysql_server import MysqlServer
from tests.servers.at_work import at_work

ROWS, EACH = 400, 100
TOTAL = ROWS * EACH
# So that all rows take more than one read.
PAD = 20_000


def open_bank(server: MysqlServer) -> MysqlServer:
    """Make the tables: rows of `log` aren't told apart by anything, and some are alike."""
    rows = ", ".join(f"({account % 50}, {EACH}, REPEAT('x', {PAD}))" for account in range(ROWS))
    server.sql(
        "DROP DATABASE IF EXISTS bank",
        "CREATE DATABASE bank",
        "USE bank",
        "CREATE TABLE log (account INT NOT NULL, amount INT NOT NULL, pad TEXT NOT NULL)",
        "CREATE TABLE people (id INT PRIMARY KEY, name VARCHAR(20))",
        f"INSERT INTO log VALUES {rows}",
        "INSERT INTO people VALUES (1, 'ann'), (2, 'bob')",
    )
    return server


def write(server: MysqlServer, seed: int, pause_s: float, stop: threading.Event) -> None:
    """Moves, splits and joins amounts until it's stopped."""
    random_ = random.Random(seed)
    with closing(server.connect(database="bank")) as connection, connection.cursor() as cursor:
        while not stop.wait(pause_s):
            amount, account = random_.randint(1, 9), random_.randrange(50)
            connection.begin()
            cursor.execute(f"INSERT INTO log VALUES ({account}, {amount}, 'in'), (50, -{amount}, 'out')")
            if random_.random() < 0.5:
                cursor.execute(f"UPDATE log SET account = account + 1 WHERE account = {account} LIMIT 1")
            if random_.random() < 0.5:
                cursor.execute("SELECT amount FROM log WHERE account = 50 LIMIT 1 FOR UPDATE")
                for (taken,) in cursor.fetchall():
                    cursor.execute(f"DELETE FROM log WHERE account = 50 AND amount = {taken} LIMIT 1")
                    cursor.execute(f"INSERT INTO log VALUES (51, {taken}, 'joined')")
            connection.commit()


def writing(server: MysqlServer, pause_s: float = 0.01) -> AbstractContextManager[object]:
    """Two writers at work on the table."""
    return at_work([partial(write, server, seed, pause_s) for seed in range(2)])
