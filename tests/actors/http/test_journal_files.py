"""The service gives the journal's files and no other, in parts, to those who may read."""

from pathlib import Path

import aiohttp
import pytest

from tests.actors.http.changes.journals import Tapped, tapped


async def asked(tap: Tapped, path: str, wanted: str = "", **query: str) -> tuple[int, str, bytes]:
    headers = {"Range": wanted} if wanted else {}
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{tap.url}/journal/{path}", params=query, headers=headers) as answer,
    ):
        return answer.status, answer.headers.get("Content-Range", ""), await answer.read()


async def test_names_and_parts_of_files_are_given(tmp_path: Path) -> None:
    async with tapped(tmp_path) as tap:
        tap.commit()
        tap.seal()
        directory = tap.history.store.directory
        for folder in ("claims", "first", "manifest", "schemas"):
            status, _, body = await asked(tap, "names", folder=folder)
            there = sorted(path.name for path in (directory / folder).iterdir())
            assert (status, body.decode()) == (200, str(there).replace("'", '"'))
        (entry,) = (directory / "manifest").iterdir()
        name, content = f"manifest/{entry.name}", entry.read_bytes()
        size = len(content)
        assert await asked(tap, "file", name=name) == (206, f"bytes 0-{size - 1}/{size}", content)
        assert await asked(tap, "file", "bytes=3-9", name=name) == (206, f"bytes 3-9/{size}", content[3:10])
        assert await asked(tap, "file", "bytes=7-", name=name) == (
            206,
            f"bytes 7-{size - 1}/{size}",
            content[7:],
        )
        status, told, body = await asked(tap, "file", f"bytes={size}-", name=name)
        assert (status, told) == (416, f"bytes */{size}"), body


@pytest.mark.parametrize(
    "name",
    ["", "lock", "../shop.toml", "manifest/../../shop.toml", "manifest/..", "/etc/passwd", "segments//x",
     "consumers/lake.json", "segments/a/b/c", "manifest/a\\b", "manifest/\0"],
)  # fmt: skip
async def test_other_files_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "shop.toml").write_text("password")
    async with tapped(tmp_path) as tap:
        status, _, body = await asked(tap, "file", name=name)
        assert status == 400 and b"password" not in body, body


@pytest.mark.parametrize(
    ("path", "wanted", "query", "status"),
    [
        ("names", "", {"folder": "consumers"}, 400),
        ("names", "", {}, 400),
        ("names", "", {"folder": "manifest", "x": "1"}, 400),
        ("names", "", {"folder": "../.."}, 400),
        ("file", "", {"name": "manifest/none"}, 404),
        ("file", "bytes=-5", {"name": "manifest/none"}, 416),
        ("file", "lines=1-2", {"name": "manifest/none"}, 416),
    ],
)
async def test_a_wrong_request_is_refused(
    tmp_path: Path, path: str, wanted: str, query: dict[str, str], status: int
) -> None:
    async with tapped(tmp_path) as tap:
        assert (await asked(tap, path, wanted, **query))[0] == status
