"""What a follower of the service gets: everything once, and then the changes."""

import asyncio
import json
from pathlib import Path
from time import monotonic
from typing import Any

import aiohttp
import pytest

from actors.http import event_stream
from actors.http.event_stream import MOST_FOLLOWERS
from actors.http.shared_report import SHARED_FOR
from pipeline.config.settings import HttpSettings, Secret
from pipeline.messages.topology import ActorName as Name
from tests.actors.http.served_actors import Bench, served


async def message(answer: aiohttp.ClientResponse) -> tuple[str, dict[str, Any]]:
    """The next event and its data."""
    event, data = (await answer.content.readuntil(b"\n\n")).decode().splitlines()[:2]
    return event.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def captured(bench: Bench, *tables: str, **more: Any) -> None:
    bench.said[Name.WATERMARK_COORDINATOR] = {"captured": list(tables), **more}


def looked(bench: Bench, at: float) -> None:
    bench.board.look(at, 1000 + at)


async def test_all_of_it_and_then_what_has_changed(tmp_path: Path) -> None:
    async with served(tmp_path) as bench, aiohttp.ClientSession() as session:
        captured(bench, "shop.a", "shop.b", "shop.c")
        bench.recent(None, "info", {"event": "listening", "logger": "actors.http.server"})
        looked(bench, 1.0)
        async with session.get(f"{bench.server.url}/live") as answer:
            event, told = await message(answer)
            assert (event, told["name"], told["controlled"]) == ("begin", "shop", False)
            assert [table["table"] for table in told["tables"]] == ["shop.a", "shop.b", "shop.c"]
            assert [point["at"] for point in told["history"]] == [1001.0]
            assert [each["event"] for each in told["events"]] == ["listening"]

            captured(bench, "shop.a", "shop.b", mirrors={"shop.b": "ready"})
            bench.recent(None, "info", {"event": "failed", "logger": "actors.runtime.supervisor"})
            looked(bench, 2.0)
            event, told = await message(answer)
            assert (event, told["gone"], told["point"]["at"]) == ("step", ["shop.c"], 1002.0)
            assert [table["table"] for table in told["tables"]] == ["shop.b"]
            assert [each["event"] for each in told["events"]] == ["failed"]

            looked(bench, 3.0)
            _, told = await message(answer)
            assert (told["tables"], told["gone"], told["events"]) == ([], [], [])


async def test_a_window_grows_old(tmp_path: Path) -> None:
    async with served(tmp_path) as bench:
        window = {
            "chunk": "s/shop.a/1",
            "snapshot": "s",
            "table": "shop.a",
            "range": 0,
            "state": "reading",
            "rows": 0,
        }
        now = asyncio.get_running_loop().time()
        captured(bench, "shop.a", windows=[window])
        looked(bench, now - 10)
        looked(bench, now - 5)
        overview, _ = bench.board.shown()
        assert overview["windows"][0]["age_seconds"] >= 10
        captured(bench, "shop.a")
        looked(bench, now)
        overview, _ = bench.board.shown()
        assert overview["windows"] == []


async def test_topics_that_are_set_aside_are_one_line_however_many_they_are(tmp_path: Path) -> None:
    async with served(tmp_path) as bench:
        assert bench.board.shown()[0]["set_aside"] is None
        aside = {"shop.wide": "a message is too large"}
        bench.said[Name.KAFKA_SINK] = {"set_aside": aside}
        line = "the topic shop.wide is set aside: a message is too large"
        assert bench.board.shown()[0]["set_aside"] == line
        aside["shop.other"] = "it's compacted"
        line = "the topic shop.wide and 1 more are set aside: `tidemark status` has the reasons"
        assert bench.board.shown()[0]["set_aside"] == line


async def test_actors_are_asked_once_for_a_look_however_many_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path) as bench, aiohttp.ClientSession() as session:
        asked: list[int] = []
        shown = bench.board.shown

        def counted() -> tuple[dict[str, Any], list[dict[str, Any]]]:
            asked.append(bench.board.looks)
            return shown()

        monkeypatch.setattr(bench.board, "shown", counted)
        captured(bench, "shop.a", "shop.b")
        looked(bench, 1.0)
        followers = [await session.get(f"{bench.server.url}/live") for _ in range(3)]
        for follower in followers:
            assert (await message(follower))[0] == "begin"
        captured(bench, "shop.a", "shop.b", mirrors={"shop.b": "ready"})
        looked(bench, 2.0)
        for follower in followers:
            _, told = await message(follower)
            assert [table["table"] for table in told["tables"]] == ["shop.b"]
            follower.close()
        assert asked == [1, 2]


async def test_all_tables_are_written_once_for_those_who_begin_at_about_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    took: list[float] = []
    write = event_stream._json

    def written(told: Any) -> str:
        began = monotonic()
        while isinstance(told, list) and monotonic() < began + 0.01:
            pass  # there are very many tables
        took.extend([monotonic() - began] if isinstance(told, list) else [])
        return write(told)

    async with served(tmp_path) as bench:
        captured(bench, "shop.a")
        looked(bench, 1.0)
        monkeypatch.setattr(event_stream, "_json", written)
        began = monotonic()
        assert [(await bench.get("/live"))[0] for _ in range(MOST_FOLLOWERS)] == [200] * MOST_FOLLOWERS
        assert sum(took) <= (monotonic() - began) / SHARED_FOR + max(took)


async def test_no_more_follow_than_are_let_in_and_one_that_goes_makes_room(tmp_path: Path) -> None:
    async with served(tmp_path) as bench, aiohttp.ClientSession() as session:
        looked(bench, 1.0)
        followers = [await session.get(f"{bench.server.url}/live") for _ in range(MOST_FOLLOWERS)]
        status, text = await bench.get("/live")
        assert (status, json.loads(text)) == (429, {"error": f"{MOST_FOLLOWERS} follow already"})
        followers.pop().close()
        while (await bench.get("/live"))[0] == 429:
            looked(bench, 2.0)  # writing to one that has gone is how it's noticed
        for follower in followers:
            follower.close()


async def test_the_end_of_the_service_ends_the_stream(tmp_path: Path) -> None:
    async with aiohttp.ClientSession() as session:
        async with served(tmp_path) as bench:
            looked(bench, 1.0)
            answer = await session.get(f"{bench.server.url}/live")
            assert (await message(answer))[0] == "begin"
        rest = await asyncio.wait_for(answer.content.read(), 60)
        assert rest == b""


async def test_one_whose_token_was_replaced_follows_no_more(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("a" * 32)
    http = HttpSettings(host="0.0.0.0", token=Secret("a" * 32, file))
    headers = {"Authorization": f"Bearer {'a' * 32}"}
    async with (
        served(tmp_path, settings=http) as bench,
        aiohttp.ClientSession(headers=headers) as session,
        session.get(f"{bench.server.url}/live") as answer,
    ):
        assert (await message(answer))[0] == "begin"
        looked(bench, 1.0)
        assert (await message(answer))[0] == "step"
        file.write_text("c" * 32)
        looked(bench, 2.0)
        assert await asyncio.wait_for(answer.content.read(), 60) == b""


@pytest.mark.parametrize("path", ["/live", "/events", "/tables"])
async def test_before_it_was_looked_at_there_is_nothing_wrong(tmp_path: Path, path: str) -> None:
    async with served(tmp_path) as bench:
        assert (await bench.get(path))[0] == 200
