"""The page in a real browser, before a real service that captures a real MySQL."""

import re
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, Page, expect

from deploy.toolchain.mysql_server import MysqlServer
from pipeline.config.settings import HttpSettings, Secret
from pipeline.schema.table_schema import TableId
from tests.browser.chromium import WITHIN_MS, launched, page
from tests.servers.service import pipeline, running
from tests.servers.shop import writing
from tests.servers.web import web

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.usefixtures("small_ranges")]

ALL, READ = "a" * 32, "b" * 32
ODD = "<img src=x onerror=\"document.title='broken'\">"
SHOWN = str(TableId("shop", ODD))

expect.set_options(timeout=WITHIN_MS)

# Returns whether anything is wider than the window, whether things at its top overlap, and the least contrast of any
# text with its background (WCAG 2.2, 1.4.3).
LOOK = """() => {
  const rgb = (color) => color.match(/[\\d.]+/g).map(Number);
  const bright = (color) => {
    const [r, g, b] = color.slice(0, 3).map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const color = rgb(getComputedStyle(node).backgroundColor);
      if (color.length < 4 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  let [least, where] = [21, ""];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !node.checkVisibility() || node.closest(".hidden, .skip")) continue;
    const [a, b] = [bright(rgb(getComputedStyle(node).color)), bright(behind(node))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < least) [least, where] = [(a + 0.05) / (b + 0.05), node.outerHTML.slice(0, 120)];
  }
  const top = document.querySelectorAll("header h1, header .chip, header button:not([hidden])");
  const boxes = [...top].map((node) => node.getBoundingClientRect());
  const apart = (a, b) => a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top;
  const covered = boxes.some((a, at) => a.width < 20 || boxes.slice(0, at).some((b) => !apart(a, b)));
  return { over: document.documentElement.scrollWidth - innerWidth, covered, contrast: least, where };
}"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with launched() as opened:
        yield opened


def bar(shown: Page, table: str) -> Locator:
    """The map of a table's ranges."""
    return shown.get_by_role("progressbar", name=re.compile(rf"^{re.escape(table)}:"))


def button(shown: Page, name: str) -> Locator:
    return shown.get_by_role("button", name=name, exact=True)


def field_of(shown: Page, field: str) -> Locator:
    """The field of the dialog."""
    return shown.get_by_role("dialog").get_by_role("textbox", name=field, exact=True)


async def give(shown: Page, field: str, value: str, action: str) -> None:
    """Fill in what the dialog asks for."""
    dialog = shown.get_by_role("dialog")
    await field_of(shown, field).fill(value)
    await dialog.get_by_role("button", name=action).click()


async def test_a_snapshot_is_watched_and_steered_by_clicks(
    browser: Browser, open_shop: MysqlServer, tmp_path: Path
) -> None:
    open_shop.sql(
        f"CREATE TABLE `{ODD}` (id INT PRIMARY KEY)", f"INSERT INTO `{ODD}` VALUES (1)", database="shop"
    )
    # So slow that the snapshot is still under way when it's stopped, on any machine.
    settings = pipeline(open_shop, tmp_path, "shop", rows_per_s=15, chunk_rows=10, chunk_target_ms=1)
    tokens = HttpSettings("127.0.0.1", 0, Secret(ALL), Secret(READ))
    async with (
        running(settings) as service,
        web(service, tokens, tmp_path, looking=True) as served,
        page(browser, served.url) as shown,
    ):
        await service.begun()
        await shown.goto(served.url)
        await expect(shown.get_by_text("running", exact=True)).to_be_visible()
        await expect(shown).to_have_title("shop · Tidemark")
        with writing(open_shop):
            await button(shown, "Snapshot…").first.click()
            await give(shown, "Tables", r"shop\.orders", "Take it")
            for token in ("wrong" * 5, READ, ALL):
                await expect(field_of(shown, "Token")).to_be_visible()
                await give(shown, "Token", token, "Use it")
            await expect(shown.locator("#said")).to_contain_text("shop.orders")

            # The map fills, and is what the service says.
            await service.until(lambda: "orders" in str(service.status()["snapshots"]), "the snapshot")
            await expect(bar(shown, "shop.orders")).to_have_attribute(
                "aria-valuenow", re.compile("^[1-9][0-9]?$")
            )
            await expect(shown.locator(".chart").nth(2).get_by_role("status")).to_contain_text("/s")

            await button(shown, "Pause snapshots").click()
            await service.until(lambda: service.status()["paused"], "the pause")
            await expect(bar(shown, "shop.orders")).to_have_attribute("aria-label", re.compile("paused"))
            await button(shown, "Resume snapshots").click()
            await service.until(lambda: not service.status()["paused"], "the resume")
            await expect(button(shown, "Pause snapshots")).to_be_visible()

            stop = button(shown, "Stop the snapshot of shop.orders")
            await stop.click()
            await shown.keyboard.press("Escape")
            await stop.click()
            await button(shown, "Cancel").click()
            (snapshot,) = service.status()["snapshots"]
            await stop.click()
            await button(shown, "Stop it").click()
            id_ = snapshot["id"]
            await service.until(lambda: service.tables(id_)["orders"]["state"] == "stopped", "the stop")
            await expect(bar(shown, "shop.orders")).to_have_attribute("aria-label", re.compile("stopped"))

            # The page shows a name as text everywhere.
            await shown.get_by_role("searchbox").fill("<IMG")
            await expect(shown.locator("#rows > [role=row]")).to_have_count(1)
            await button(shown, f"Take a snapshot of {SHOWN}").click()
            await expect(shown.get_by_role("heading", name=f"Take a snapshot of {SHOWN}?")).to_be_visible()
            await button(shown, "Take it").click()
            await expect(shown.locator("#said")).to_contain_text(SHOWN)
            await expect(bar(shown, SHOWN)).to_have_attribute("aria-valuenow", "100")
        assert await shown.locator("main img").count() == 0
        await expect(shown).to_have_title("shop · Tidemark")
        events = shown.get_by_role("list", name="Events")
        await expect(events).to_contain_text("signal answered")
        await service.stop()


async def test_a_stopped_table_is_begun_again_by_a_click(
    browser: Browser, mysql: MysqlServer, database: str, tmp_path: Path
) -> None:
    mysql.sql("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)", database=database)
    async with (
        running(pipeline(mysql, tmp_path, database)) as service,
        web(service, HttpSettings(), tmp_path, looking=True) as served,
        page(browser, served.url) as shown,
    ):
        await service.begun()
        mysql.sql("ALTER TABLE t ENGINE=BLACKHOLE", database=database)
        await service.until(lambda: service.status().get("stopped"), "it's stopped")
        await shown.goto(served.url)
        await expect(shown.locator("#rows .why")).to_contain_text("tidemark signal CONFIG recapture")
        mysql.sql("ALTER TABLE t ENGINE=InnoDB", "INSERT INTO t VALUES (1), (2)", database=database)
        await service.caught_up(mysql)
        await button(shown, f"Begin again {database}.t").click()
        await button(shown, "Begin it again").click()
        await expect(shown.locator("#said")).to_contain_text("which had stopped")
        await expect(bar(shown, f"{database}.t")).to_have_attribute("aria-label", re.compile("complete"))
        await expect(button(shown, f"Take a snapshot of {database}.t")).to_be_visible()
        assert service.status()["stopped"] == {}
        await service.stop()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_it_fits_and_can_be_read(
    browser: Browser, mysql: MysqlServer, database: str, tmp_path: Path, scheme: Any
) -> None:
    """With 200 tables, on a telephone and on a wide screen."""
    mysql.sql(
        *(
            f"CREATE TABLE table_with_a_name_that_is_rather_long_{n:03} (id INT PRIMARY KEY)"
            for n in range(199)
        ),
        "CREATE TABLE keyless (note INT)",
        database=database,
    )
    async with (
        running(pipeline(mysql, tmp_path, database)) as service,
        web(service, HttpSettings(), tmp_path, looking=True) as served,
    ):
        await service.begun()
        await service.execute("s1", rf"{database}\.(keyless|.*_00.)")
        colours = {"color_scheme": scheme, "reduced_motion": "reduce"}
        async with page(browser, served.url, **colours) as shown:
            await shown.goto(served.url)
            rows = shown.locator("#rows > [role=row]")
            await expect(rows).to_have_count(50)
            await expect(rows.first).to_contain_text("no primary key")
            assert (
                await shown.locator(".fill").first.evaluate("n => getComputedStyle(n).transitionDuration")
                == "0s"
            )
            for width in (1440, 1000, 375):
                await shown.set_viewport_size({"width": width, "height": 900})
                look = await shown.evaluate(LOOK)
                assert look["over"] <= 0 and not look["covered"], width
                assert look["contrast"] >= 4.5, look
            await shown.get_by_role("button", name=re.compile("^Show 50 of 150 more")).click()
            await expect(rows).to_have_count(100)
            await shown.get_by_role("searchbox").fill("long_123")
            await expect(rows).to_have_count(1)
            paper = await shown.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (max(map(int, re.findall(r"\d+", paper))) < 60) == (scheme == "dark")
            await shown.keyboard.press("Tab")
            assert await shown.evaluate("document.activeElement.textContent") == "Snapshot…"
        await service.stop()


async def test_it_goes_on_when_the_service_is_back(
    browser: Browser, mysql: MysqlServer, database: str, tmp_path: Path
) -> None:
    mysql.sql("CREATE TABLE one (id INT PRIMARY KEY)", database=database)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings, http = pipeline(mysql, tmp_path, database), HttpSettings("127.0.0.1", port)
    async with page(browser, f"http://127.0.0.1:{port}") as shown:
        async with running(settings) as service, web(service, http, tmp_path, looking=True) as served:
            await service.begun()
            await shown.goto(served.url)
            await expect(bar(shown, f"{database}.one")).to_be_visible()
            await service.stop()
        await expect(shown.get_by_role("alert")).to_contain_text("doesn't answer")
        await expect(button(shown, "Pause snapshots")).to_be_disabled()
        mysql.sql("CREATE TABLE two (id INT PRIMARY KEY)", database=database)
        async with running(settings) as service, web(service, http, tmp_path, looking=True):
            await expect(bar(shown, f"{database}.two")).to_be_visible()
            await expect(shown.get_by_role("alert")).to_be_hidden()
            await expect(button(shown, "Pause snapshots")).to_be_enabled()
            await service.stop()


async def test_beyond_loopback_nothing_is_shown_without_a_token(
    browser: Browser, mysql: MysqlServer, database: str, tmp_path: Path
) -> None:
    mysql.sql("CREATE TABLE one (id INT PRIMARY KEY)", database=database)
    http = HttpSettings("0.0.0.0", 0, Secret(ALL), Secret(READ))
    async with (
        running(pipeline(mysql, tmp_path, database)) as service,
        web(service, http, tmp_path, looking=True) as served,
        page(browser, served.url) as shown,
    ):
        await service.begun()
        await shown.goto(served.url)
        await expect(field_of(shown, "Token")).to_be_visible()
        await button(shown, "Cancel").click()
        await expect(shown.get_by_text("connecting", exact=True)).to_be_visible()
        assert await shown.locator("#rows > [role=row]").count() == 0
        await button(shown, "Token…").click()
        await give(shown, "Token", READ, "Use it")
        await expect(bar(shown, f"{database}.one")).to_be_visible()
        await button(shown, "Pause snapshots").click()
        await expect(shown.get_by_text("this token may only read.")).to_be_visible()
        await button(shown, "Cancel").click()
        await expect(shown.locator("#said")).to_have_text("Nothing was sent.")
        assert service.status()["paused"] is False
        await shown.reload()
        await expect(bar(shown, f"{database}.one")).to_be_visible()
        await service.stop()
