"""What people see of changes: a line for each row, with what an update changed made bold, and no colours in a pipe."""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from actors.http.changes.readers import ServiceStops
from actors.service.cli import main
from actors.service.commands.change_text import ChangeText, IncomingLines
from pipeline.errors import Transient
from pipeline.snapshot.checkpoint import Ready
from tests.actors.http.changes.journals import TYPED, Tapped, tapped

TOML = """
name = "shop"
tables = ["shop\\\\..*"]
source = {{ host = "127.0.0.1", port = 1, user = "tidemark", server_id = 7 }}
journal = {{ path = "{}" }}
lake = {{ path = "lake" }}
"""


def line(op: str, scn: int = 5, absent: tuple[str, ...] = (), **row: object) -> bytes:
    told = {"table": "shop.t", "op": op, "scn": scn, "ordinal": 0, "gtid": "g:1"}
    more = {"absent": list(absent)} if absent else {}
    return json.dumps({**told, "time": "2026-05-01T12:00:00.000001Z", **more, "row": row}).encode()


def test_each_row_has_its_sign_and_what_an_update_changed_is_bold() -> None:
    text = ChangeText()
    lines = [line("b", id=1, note="old"), line("u", id=1, note="new"), line("d", absent=("note",), id=1, note=None),
             line("t", id=None, note=None), b'{"checkpoint":"j.1.5","scn":5}']  # fmt: skip
    found = list(text.lines(lines, as_json=False))
    head = "12:00:00.000001 5 shop.t"
    assert list(map(click.unstyle, found)) == [
        f'{head} < id=1 note="old"', f'{head} ~ id=1 note="new"', f"{head} - id=1", f"{head} !",
    ]  # fmt: skip
    bold = "\x1b[1m"
    assert bold in found[1].split("note")[0][-8:] and bold not in found[1].split("note")[0][:-8]
    assert text.checkpoint == "j.1.5"


def test_a_table_that_stops_or_begins_again_is_named() -> None:
    text = ChangeText()
    told = b'{"checkpoint":"j.1.5","scn":5,"restarted":["shop.t"],"stopped":{"shop.u":"it has no key"}}'
    assert list(map(click.unstyle, text.lines([told], as_json=False))) == [
        "shop.t begins again: changes are lacking, and the lake has its rows",
        "shop.u has stopped: it has no key",
    ]
    assert list(text.lines([told], as_json=True)) == [told.decode()]


@pytest.mark.parametrize("as_json", [False, True])
def test_why_the_service_sends_no_more_is_told(as_json: bool) -> None:
    text, printed = ChangeText(), list[str]()
    told = [line("c", id=1), b'{"checkpoint":"j.1.5","scn":5}']
    told.append(b'{"error":"the journal ends:\\u001b[2J read the lake"}')
    with pytest.raises(Transient) as raised:
        printed.extend(map(click.unstyle, text.lines(told, as_json=as_json)))
    assert str(raised.value) == r"the service sends no more changes: the journal ends:\x1b[2J read the lake"
    assert text.checkpoint == "j.1.5"
    assert printed == (list(map(bytes.decode, told)) if as_json else ["12:00:00.000001 5 shop.t + id=1"])


async def test_tail_ends_with_the_reason_that_the_service_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stops(_: object) -> AsyncIterator[bytes]:
        async def parts() -> AsyncIterator[bytes]:
            yield b'{"checkpoint":"j.1.5","scn":5}\n'
            raise ServiceStops("the service stops: continue with the last checkpoint")

        return parts()

    async with tapped(tmp_path) as tap:
        monkeypatch.setattr("actors.service.client.address_file", lambda _: tap.bench.address)
        monkeypatch.setattr(tap.bench.changes, "follow", stops)
        tap.commit()
        tap.seal()
        told = await tail(tap, tmp_path)
        assert (told.exit_code, told.stdout) == (1, "")
        assert told.stderr == (
            "tidemark: the service sends no more changes: the service stops: continue with the last checkpoint\n"
        )


def test_no_name_and_no_value_moves_the_cursor() -> None:
    told = json.dumps({"checkpoint": "j.1.5", "restarted": ["shop.\x1b[2J"], "stopped": {"shop.t": "\x9b1A"}})
    row: dict[str, Any] = {"a\x1b]0;x\x07": "\x9b31m\x7f\u2028\u202e"}
    rows = [line("c", **row), told.encode()]
    found = "".join(map(click.unstyle, ChangeText().lines(rows, as_json=False)))
    assert found.isprintable() and all(shown in found for shown in (r"\x1b]0;x\x07", r"\x9b31m\x7f"))


def test_lines_are_whole_however_they_come() -> None:
    incoming = IncomingLines()
    parts = (b"a", b"b\nc\nd", b"", b"e", b"\n", b"\nf\n")
    assert [incoming.take(part) for part in parts] == [[], [b"ab", b"c"], [], [], [b"de"], [b"", b"f"]]


def test_a_long_line_takes_time_that_is_linear_in_its_size() -> None:
    """As that of a row of 32 MiB comes: a network's part after the other."""

    def seconds(parts: int) -> float:
        incoming, part = IncomingLines(), bytes(1 << 14)
        began = time.process_time()
        for _ in range(parts):
            assert incoming.take(part) == []
        (line,) = incoming.take(b"\n")
        assert len(line) == parts << 14
        return time.process_time() - began

    assert min(seconds(2048) for _ in range(3)) < 1.0


def test_filters_leave_the_other_rows_out() -> None:
    text = ChangeText([("note", "new"), ("id", "1")])
    rows = [line("c", id=1, note="new"), line("c", id=2, note="new"), line("c", id=1, note="old")]
    assert list(text.lines(rows, as_json=True)) == [rows[0].decode()]


@pytest.mark.parametrize("note", ['say "hi"', '"', "C:\\new", "two\nlines", "ö", ""])
def test_a_filter_means_a_text_as_it_is(note: str) -> None:
    rows = [line("c", id=1, note=note), line("c", id=2, note="\\"), line("c", id=3, note=None)]
    assert list(ChangeText([("note", note)]).lines(rows, as_json=True)) == [rows[0].decode()]


def test_a_filter_means_anything_else_as_it_is_printed() -> None:
    rows = [line("c", note=note) for note in (None, True, 5, {"a": [1, 2]})]
    for number, text in enumerate(("null", "true", "5", '{"a":[1,2]}')):
        assert list(ChangeText([("note", text)]).lines(rows, as_json=True)) == [rows[number].decode()]


def test_an_update_whose_before_image_alone_passes_a_filter_leaves_nothing_behind() -> None:
    text = ChangeText([("note", "paid")])
    rows = [line("b", id=1, note="paid"), line("u", id=1, note="new"), line("b", note="new", more=2)]
    found = list(text.lines([*rows, line("u", note="paid", more=2)], as_json=False))
    assert [click.unstyle(each).split(" shop.t ")[1] for each in found] == [
        '< id=1 note="paid"',
        '~ note="paid" more=2',
    ]


async def tail(tap: Tapped, folder: Path, *more: str) -> Result:
    """What the command prints of the journal's changes, as in a pipe."""
    (folder / "shop.toml").write_text(TOML.format(tap.bench.address.parent / "journal"))
    arguments = ["tail", str(folder / "shop.toml"), "--since", "earliest", "--through", "now", *more]
    return await asyncio.to_thread(CliRunner().invoke, main, arguments)


async def test_tail_prints_what_the_service_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with tapped(tmp_path) as tap:
        monkeypatch.setattr("actors.service.client.address_file", lambda _: tap.bench.address)
        tap.commit(2, rows=2)
        tap.seal()
        told = await tail(tap, tmp_path)
        assert told.exit_code == 0
        assert [each.split(" ", 1)[1] for each in told.stdout.splitlines()] == [
            '1 shop.orders + id=0 note="ö0"', "1 shop.items + id=1",
            '2 shop.orders + id=1000 note="ö0"', "2 shop.items + id=1001",
        ]  # fmt: skip
        as_json = await tail(
            tap, tmp_path, "--format", "json", "--tables", "shop.items", "--filter", "id=1001"
        )
        lines = [json.loads(each) for each in as_json.stdout.splitlines()]
        assert [each.get("row") for each in lines] == [{"id": 1001}, None, None]
        assert lines[-1]["complete"]
        as_arrow = await tail(tap, tmp_path, "--format", "arrow", "--tables", "shop.items")
        assert pa.ipc.open_stream(as_arrow.stdout_bytes).read_all().column("id").to_pylist() == [1, 1001]
        part = await tail(tap, tmp_path, "--key-modulo", "2:1", "--key-range", "1000..")
        assert part.stdout.split(" ", 1)[1] == "2 shop.items + id=1001\n"


async def test_one_whose_reader_has_gone_names_no_place_to_continue_with(tmp_path: Path) -> None:
    """The reader hasn't taken all that is before it."""
    async with tapped(tmp_path) as tap:
        (tmp_path / "shop.toml").write_text(TOML.format(tap.bench.address.parent))
        tap.commit()
        tap.seal()
        read, written = os.pipe()
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "actors", "tail", tmp_path / "shop.toml"),
            *("--since", "earliest", "--format", "json"),
            stdout=written,
            stderr=asyncio.subprocess.PIPE,
        )
        os.close(written)
        taken = b""
        while b"checkpoint" not in taken:
            taken += await asyncio.to_thread(os.read, read, 1)
        os.close(read)
        tap.commit(2)
        tap.seal()
        _, said = await program.communicate()
        assert (program.returncode, said) == (1, b"")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--since", "77"], 2, "the SCN 77 comes after 1"),
        (["--tables", "shop.order"], 2, "did you mean shop.orders?"),
        (["--key-range", "7"], 2, "key_range: '7' is no range"),
        (["--filter", "id"], 2, "--filter takes COLUMN=VALUE"),
        (["--filter", "id=1", "--format", "arrow"], 2, "--filter isn't for Arrow"),
    ],
)
async def test_a_mistake_is_told(
    arguments: list[str], code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with tapped(tmp_path) as tap:
        monkeypatch.setattr("actors.service.client.address_file", lambda _: tap.bench.address)
        tap.commit()
        tap.seal()
        told = await tail(tap, tmp_path, *arguments)
        assert (told.exit_code, said in told.stderr) == (code, True), told.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--filter", "ID=1000"], "of all tables, none has a column ID at present; did you mean id?"),
        (["--filter", "stauts=1"], "of all tables, none has a column stauts at present"),
        (["--tables", "shop.items", "--filter", "note=ö0"],
         "of shop.items, none has a column note at present"),
        (["--filter", "note=ö0"], None),
        (["--tables", "shop.items, shop.orders", "--filter", "note=ö0", "--filter", "id=0"], None),
    ],
)  # fmt: skip
async def test_a_column_that_no_table_has_is_named_and_an_earlier_one_may_still_be_meant(
    arguments: list[str], said: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with tapped(tmp_path) as tap:
        monkeypatch.setattr("actors.service.client.address_file", lambda _: tap.bench.address)
        tap.commit()
        tap.seal()
        told = await tail(tap, tmp_path, *arguments)
        assert (told.exit_code, told.stdout == "") == (0, said is not None)
        assert told.stderr == ("" if said is None else f"tidemark: --filter: {said}\n")


async def test_columns_that_no_table_has_together_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with tapped(tmp_path) as tap:
        monkeypatch.setattr("actors.service.client.address_file", lambda _: tap.bench.address)
        tap.history.restart(tap.items, TYPED, Ready)
        tap.seal()
        told = await tail(tap, tmp_path, "--filter", "note=ö0", "--filter", "big=1")
        assert told.stderr == (
            "tidemark: --filter: of all tables, none has all of the columns note, big at present\n"
        )
