"""What the page says and where, of a service whose actors say what the test has them say."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import Page, expect

from pipeline.messages.topology import GROUPS
from pipeline.messages.topology import ActorName as Name
from tests.actors.http.served_actors import Bench, served
from tests.browser.chromium import launched, page

REASON = (
    "one statement after another altered it, and no schema is proven in between: set binlog_row_metadata = FULL at "
    "the source, and then begin it again by a recapture, which reads all of its rows once more"
)
AT = 1796000000.0  # 2026-11-30 00:53:20 UTC
DIFFERENT = {
    "verdict": "different",
    "rows": 9000,
    "found": {"missing": 1, "extra": 2},
    "position": "uuid:1-5",
}
DIFFERENT |= {"reason": "", "at": AT}
EQUAL = {**DIFFERENT, "verdict": "equal", "found": {}}
UNJUDGED = {**EQUAL, "verdict": "unjudged", "rows": 0, "reason": "a signal stopped it"}
COUNTS = {"given_up": 0, "expected": 0, "ranges": 0, "ranges_done": 0, "windows": 0, "chunks": 1}


@asynccontextmanager
async def shown(tmp_path: Path, *, lake_fails: bool = False, width: int = 1280) -> AsyncIterator[Page]:
    fails = {group for group in GROUPS if Name.SPARK_SINK in group.actors} if lake_fails else set()
    async with served(tmp_path, fails=fails) as bench, launched() as browser:
        tell(bench)
        bench.board.look(10.0, 1000.0)
        viewport: Any = {"width": width, "height": 900}
        async with page(browser, bench.server.url, viewport=viewport) as shown:
            await shown.goto(bench.server.url)
            yield shown


def tell(bench: Bench) -> None:
    """A table that is stopped, one that is empty and complete, and two without a key, of which one has its rows."""
    empty = {"database": "shop", "table": "empty", "state": "completed", "rows": 0, **COUNTS, "to_go": []}
    audit = {**empty, "table": "audit"}
    bench.said[Name.WATERMARK_COORDINATOR] = {
        "position": "uuid:1-5",
        "captured": ["shop.empty", "shop.audit", "shop.log"],
        "keyless": ["shop.audit", "shop.log"],
        "stopped": {"shop.halted": REASON},
        "snapshots": [{"id": "s1", "tables": [empty, audit]}],
    }


async def test_a_reason_has_the_whole_width_and_no_button_sticks_out(tmp_path: Path) -> None:
    async with asyncio.timeout(120), shown(tmp_path) as seen:
        row = seen.get_by_role("row").filter(has_text="halted")
        await expect(row.get_by_text(REASON)).to_be_visible()
        whole, reason, button = [
            await each.bounding_box() for each in (row, row.get_by_text(REASON), row.get_by_role("button"))
        ]
        assert whole and reason and button
        assert reason["width"] > 0.95 * whole["width"]
        assert reason["height"] < 50, "a line or two, and not eight"
        assert button["x"] + button["width"] <= whole["x"] + whole["width"]
        await seen.screenshot(path=str(tmp_path / "page.png"))


async def test_an_empty_table_has_no_rows_and_not_an_unknown_number(tmp_path: Path) -> None:
    async with asyncio.timeout(120), shown(tmp_path) as seen:
        row = seen.get_by_role("row").filter(has_text="empty")
        await expect(row.locator("[data-label=Rows]")).to_have_text("0")


async def test_a_table_without_a_key_has_its_changes_only_until_a_snapshot_is_complete(
    tmp_path: Path,
) -> None:
    async with asyncio.timeout(120), shown(tmp_path) as seen:
        for table, word in (("log", "changes only"), ("audit", "complete")):
            row = seen.get_by_role("row").filter(has_text=table)
            await expect(row.get_by_text(word, exact=True)).to_be_visible()


VERIFIED = (
    ({"state": "waiting"}, None, "", "Its verification waits"),
    ({"state": "chunking"}, None, "", "Under verification: 3 of 12 ranges read"),
    ({"state": "completed"}, None, "", "Under verification: its rows are compared"),
    ({"state": "completed"}, {**EQUAL, "repaired": None}, "equal", ": equal to the source, 9,000 rows read"),
    (
        {"state": "completed"},
        {**DIFFERENT, "repaired": None},
        "different",
        ": not equal to the source (1 missing, 2 extra), 9,000 rows read",
    ),
    (
        {"state": "completed"},
        {**DIFFERENT, "repaired": EQUAL},
        "equal",
        "(1 missing, 2 extra), 9,000 rows read. Repair of 30 Nov, 00:53: equal to the source",
    ),
    (
        {"state": "stopped"},
        {**UNJUDGED, "repaired": None},
        "unjudged",
        ": couldn't be judged, a signal stopped it, 0 rows read",
    ),
)


async def test_a_verification_is_no_snapshot_and_its_verdict_is_in_words(tmp_path: Path) -> None:
    async with asyncio.timeout(120), served(tmp_path) as bench, launched() as browser:
        tables = [
            {"database": "shop", "table": f"t{at}", "rows": 1, **COUNTS, "ranges": 12, "ranges_done": 3}
            | {"to_go": [], "request": None, **state}
            for at, (state, *_) in enumerate(VERIFIED)
        ]
        names = [f"shop.t{at}" for at in range(len(VERIFIED))]
        bench.said[Name.WATERMARK_COORDINATOR] = {
            "captured": names,
            "snapshots": [{"id": "v1", "verification": {"since": 1, "narrowed": []}, "tables": tables}],
        }
        results = {name: result for name, (_, result, *_) in zip(names, VERIFIED, strict=True)}
        bench.said[Name.SPARK_SINK] = {"verifications": {"v1": results}}
        bench.board.look(10.0, 1000.0)
        async with page(browser, bench.server.url, timezone_id="UTC") as seen:
            await seen.goto(bench.server.url)
            for name, (state, _, verdict, words) in zip(names, VERIFIED, strict=True):
                row = seen.locator("#rows > [role=row]").filter(has_text=name)
                await expect(row.get_by_text("streaming", exact=True)).to_be_visible()
                await expect(row.locator(".why")).to_be_hidden()
                await expect(row.locator(".verified")).to_contain_text(words)
                await expect(row.locator(".verified")).to_have_attribute("data-verdict", verdict)
                reads = state["state"] in ("waiting", "chunking")
                label = f"Stop the verification of {name}" if reads else f"Take a snapshot of {name}"
                await expect(row.get_by_role("button")).to_have_attribute("aria-label", label)
            await expect(seen.locator(".verified").first).to_contain_text(
                "Verification of 30 Nov, 00:53: not equal"
            )
            await expect(seen.locator("#tables-sum")).to_have_text("7 tables · 1 not equal to the source")
            await seen.get_by_role("button", name="Stop the verification of shop.t0").click()
            await expect(
                seen.get_by_role("heading", name="Stop the verification of shop.t0?")
            ).to_be_visible()
            await seen.screenshot(path=str(tmp_path / "verified.png"))


async def test_what_nobody_reports_is_unknown(tmp_path: Path) -> None:
    async with asyncio.timeout(120), shown(tmp_path, lake_fails=True) as seen:
        place = seen.locator("#place")
        await expect(place).to_contain_text("In the lake throughunknown")
    async with asyncio.timeout(120), shown(tmp_path) as seen:
        await expect(seen.locator("#place")).to_contain_text("In the lake throughnothing yet")
