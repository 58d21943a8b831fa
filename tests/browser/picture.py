"""Draws the pictures of the page in the documents, from a real service under load.

    python -m tests.browser.picture [--minutes N]

It fills a shop, runs the demo's writer on it, runs the service with its Spark, and takes pictures of the page in the
middle of a snapshot: docs/page-light.png and docs/page-dark.png, once the charts have something to show.
"""

import argparse
import asyncio
import os
import tempfile
from pathlib import Path

from playwright.async_api import Browser

from deploy.demo import shop
from deploy.demo.service import Service, write_config
from deploy.demo.shop import Size
from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS, Account, MysqlServer
from deploy.toolchain.parts import locate
from tests.browser.chromium import launched, page
from tests.servers.shop import stocked, writing

DOCS = Path(__file__).parents[2] / "docs"
SIZE = {"width": 1360, "height": 900}

# A snapshot that is still under way when the charts are full.
SLOWLY = {
    "CHUNK_ROWS": "3000",
    "ROWS_PER_S": "9000",
    "WINDOWS": "6",
    "RANGES": "12",
    "CHUNK_TARGET_MS": "5000",
}

MORE_TABLES = (
    "CREATE TABLE shop.shipments (id BIGINT PRIMARY KEY, order_id BIGINT, sent DATETIME)",
    "CREATE TABLE shop.payments (id BIGINT PRIMARY KEY, order_id BIGINT, paid DECIMAL(12, 2))",
    "CREATE TABLE shop.returns (id BIGINT PRIMARY KEY, order_id BIGINT, why VARCHAR(80))",
    "CREATE TABLE shop.access_log (at DATETIME, line TEXT)",
)


def main() -> None:
    """Draw both."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--minutes", type=float, default=3.0, help="how long the charts fill")
    minutes = arguments.parse_args().minutes
    parts = locate()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (
            MysqlServer(parts.mysql, folder / "mysql", {**GTIDS, **FULL_METADATA}) as server,
            stocked(server),
        ):
            server.sql(*MORE_TABLES)
            _grow(server)
            account = server.create_capture_user(shop.DATABASE)
            service = _service(folder, server, account)
            try:
                service.start(probe="/livez")
                with writing(server):
                    asyncio.run(_drawn(service, 60 * minutes))
            finally:
                service.kill()


def _grow(server: MysqlServer) -> None:
    """Rows enough for a snapshot that takes its time; the writer keeps to the first ones."""
    size = Size.of(2_400_000)
    for number, table in enumerate(("shipments", "payments", "returns")):
        rows = size.orders // (2 + number)
        server.sql(
            f"SET SESSION cte_max_recursion_depth = {rows + 1}",
            f"INSERT INTO {table} WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n WHERE i < {rows}) "
            "SELECT i, i, NULL FROM n",
            database=shop.DATABASE,
        )


def _service(folder: Path, server: MysqlServer, account: Account) -> Service:
    config = folder / "tidemark.toml"
    write_config(config, server, account, locate(), folder)
    os.environ.update({f"TIDEMARK__SNAPSHOT__{key}": value for key, value in SLOWLY.items()})
    return Service(config, folder / "journal", folder / "service.log")


async def _drawn(service: Service, seconds: float) -> None:
    while service.status()["freshness_seconds"] is None:  # noqa: ASYNC110 - another process has no event of ours
        await asyncio.sleep(1)
    service.tell("execute", "--tables", r"shop\.(orders|order_items|customers|shipments|payments)")
    # There's nothing to wait for but the time that the charts are about.
    await asyncio.sleep(seconds)
    async with launched() as browser:
        for scheme in ("light", "dark"):
            await _draw(browser, service.url, scheme)


async def _draw(browser: Browser, url: str, scheme: str) -> None:
    async with page(browser, url, viewport=SIZE, color_scheme=scheme) as shown:
        await shown.goto(url)
        await shown.locator("#rows > [role=row]").first.wait_for()
        await shown.wait_for_function("document.querySelector('.line').getAttribute('d').length > 100")
        await shown.screenshot(path=DOCS / f"page-{scheme}.png", animations="disabled")


if __name__ == "__main__":
    main()
