"""The file channel: over real files that grow, are cut off and replaced, and across restarts."""

import asyncio
import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors.signals import file
from actors.signals.file import SignalFile
from pipeline.messages.signals import SignalAccepted, SignalRejected
from pipeline.signals.signal import LONGEST_SIGNAL, MalformedSignal, parse_signal
from pipeline.snapshot.checkpoint import Checkpoint
from pipeline.snapshot.snapshot import Completed, Progress, Snapshot, SnapshotWaiting
from tests.pipeline.builders import ORDERS, gtids

PAUSE = '{"id":"p","type":"pause-snapshot"}\n'
RESUME = '{"id":"r","type":"resume-snapshot"}\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "signals.jsonl"


def append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as signals:
        signals.write(text)


def overwrite(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def remove_folder(path: Path) -> None:
    path.rmdir()


def answers(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.with_name(path.name + ".answers").read_text().splitlines()]


async def texts(channel: SignalFile, count: int) -> list[str]:
    async with asyncio.timeout(60):
        return [bytes((await channel.receive()).text).decode() for _ in range(count)]  # type: ignore[arg-type]


async def nothing(channel: SignalFile) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await channel.receive()


async def test_lines_come_as_they_are_written(path: Path) -> None:
    channel = SignalFile(path, 0.01)
    waiting = asyncio.create_task(channel.receive())
    append(path, PAUSE[:10])
    await nothing(SignalFile(path, 0.01))
    append(path, PAUSE[10:] + "\n" + RESUME)
    assert bytes((await waiting).text).decode() == PAUSE.strip()  # type: ignore[arg-type]
    assert await texts(channel, 1) == [RESUME.strip()]


async def test_answers_are_written_beside_it(path: Path) -> None:
    append(path, PAUSE + RESUME)
    channel = SignalFile(path, 0.01)
    await (await channel.receive()).answer(SignalAccepted("p", "paused"))
    await (await channel.receive()).answer(SignalRejected("r", "nothing is paused"))
    first, second = answers(path)
    assert (first["id"], first["outcome"], first["detail"]) == ("p", "accepted", "paused")
    assert (second["id"], second["outcome"], second["reason"]) == ("r", "rejected", "nothing is paused")


def begun(*ids: str) -> Checkpoint:
    """A checkpoint with a snapshot under way for each of the ids."""
    return Checkpoint(
        gtids("a:1"), snapshots=tuple(Snapshot(id_, {ORDERS.table: SnapshotWaiting()}) for id_ in ids)
    )


async def test_how_far_its_own_signals_come_is_appended(path: Path) -> None:
    append(path, PAUSE + RESUME)
    channel = SignalFile(path, 0.01)
    await (await channel.receive()).answer(SignalAccepted("s1", "snapshot of shop.orders"))
    await (await channel.receive()).answer(SignalRejected("s2", "no such table"))
    await channel.sealed(begun("s1", "s2", "s3"))
    await channel.sealed(begun("s1", "s2", "s3"))
    again = SignalFile(path, 0.01)
    await nothing(again)
    done = Checkpoint(gtids("a:1"), snapshots=(Snapshot("s1", {ORDERS.table: Completed(Progress())}),))
    await again.sealed(done)
    assert [(answer["id"], answer["outcome"], "line" in answer) for answer in answers(path)] == [
        ("s1", "accepted", True),
        ("s2", "rejected", True),
        ("s1", "running", False),
        ("s1", "running", False),
        ("s1", "done", False),
    ]


async def test_after_a_restart_only_what_is_unanswered_comes_again(path: Path) -> None:
    append(path, PAUSE + RESUME)
    channel = SignalFile(path, 0.01)
    await (await channel.receive()).answer(SignalAccepted("p", "paused"))
    await channel.receive()
    again = SignalFile(path, 0.01)
    assert await texts(again, 1) == [RESUME.strip()]
    await nothing(again)


async def test_a_repeated_line_comes_once(path: Path) -> None:
    append(path, PAUSE + PAUSE + RESUME)
    channel = SignalFile(path, 0.01)
    assert await texts(channel, 2) == [PAUSE.strip(), RESUME.strip()]
    await nothing(channel)


async def test_a_line_that_was_rejected_may_be_appended_once_more(path: Path) -> None:
    """It comes again neither with a restart, nor if the file is replaced by one with the same lines."""
    append(path, RESUME + RESUME)
    channel = SignalFile(path, 0.01)
    first = await channel.receive()
    await nothing(channel)
    await first.answer(SignalRejected("r", "nothing is paused"))
    assert [(answer["outcome"], answer["lines"]) for answer in answers(path)] == [("rejected", 2)]
    await nothing(channel)
    await nothing(SignalFile(path, 0.01))
    append(path, RESUME)
    assert await texts(SignalFile(path, 0.01), 1) == [RESUME.strip()]
    again = await channel.receive()
    other = path.with_suffix(".new")
    other.write_text(RESUME * 3)
    other.replace(path)
    await nothing(channel)
    await again.answer(SignalAccepted("r", "resumed"))
    append(path, RESUME)
    await nothing(channel)
    await nothing(SignalFile(path, 0.01))


async def test_a_rejection_by_an_earlier_version_is_one_of_all_such_lines(path: Path) -> None:
    append(path, RESUME)
    channel = SignalFile(path, 0.01)
    await (await channel.receive()).answer(SignalRejected("r", "nothing is paused"))
    [answer] = answers(path)
    del answer["lines"]
    overwrite(path.with_name(path.name + ".answers"), json.dumps(answer).encode() + b"\n")
    append(path, RESUME + PAUSE)
    assert await texts(SignalFile(path, 0.01), 1) == [PAUSE.strip()]


def place_of(path: Path) -> Path:
    return path.with_name(path.name + ".place")


async def answer_next(channel: SignalFile, given: SignalAccepted | SignalRejected) -> None:
    async with asyncio.timeout(60):
        await (await channel.receive()).answer(given)


async def settled(path: Path, *answered: str) -> SignalFile:
    """A channel that has accepted these signals of the file, and has put its place."""
    append(path, "".join(f'{{"id":"{id_}","type":"pause-snapshot"}}\n' for id_ in answered))
    channel = SignalFile(path, 0.01)
    for id_ in answered:
        await answer_next(channel, SignalAccepted(id_, "paused"))
    await nothing(channel)
    return channel


async def test_what_is_answered_takes_no_memory_and_is_not_read_by_the_next_start(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the lines before the place nor their answers: these are gone here."""
    monkeypatch.setattr(file, "MOST_ACCEPTED", 2)
    append(path, RESUME)
    channel = SignalFile(path, 0.01)
    await answer_next(channel, SignalRejected("r", "nothing is paused"))
    for number in range(5):
        append(path, f'{{"id":"{number}"}}\n')
        await answer_next(channel, SignalAccepted(f"{number}", "snapshot of shop.orders"))
    await channel.sealed(begun("1"))
    await nothing(channel)
    append(path, PAUSE)
    await answer_next(channel, SignalAccepted("p", "paused"))
    await nothing(channel)
    assert not channel._seen and not channel._met and not channel._rejected
    assert list(channel._accepted) == ["1", "4", "p"], "1 is under way"
    path.with_name(path.name + ".answers").unlink()
    again = SignalFile(path, 0.01)
    await nothing(again)
    await again.sealed(begun("0", "1"))
    assert [(answer["id"], answer["outcome"]) for answer in answers(path)] == [("1", "running")]
    append(path, '{"id":"later"}\n')
    assert await texts(again, 1) == ['{"id":"later"}']


async def test_lines_after_the_place_are_looked_up_among_the_answers(path: Path) -> None:
    channel = await settled(path, "p")
    append(path, RESUME)
    await answer_next(channel, SignalRejected("r", "nothing is paused"))
    await nothing(channel)
    place = place_of(path).read_bytes()
    append(path, RESUME + '{"id":"q"}\n{"id":"p","type":"pause-snapshot"}\n')
    await answer_next(channel, SignalRejected("r", "nothing is paused"))
    await answer_next(channel, SignalAccepted("q", "paused"))
    await nothing(channel)
    assert [answer.get("lines") for answer in answers(path)] == [None, 1, 2, None]
    overwrite(place_of(path), place)  # as if a crash had come before the next one
    again = SignalFile(path, 0.01)
    await nothing(again)
    append(path, RESUME)
    assert await texts(again, 1) == [RESUME.strip()]
    await nothing(again)


@pytest.mark.parametrize(
    "torn", [b"", b'{"offset": 1', b"[]", b'{"offset": 7, "answered": 0, "accepted": []}']
)
async def test_without_a_whole_place_the_answers_are_read(path: Path, torn: bytes) -> None:
    await settled(path, "p", "q")
    overwrite(place_of(path), torn)
    await nothing(SignalFile(path, 0.01))
    append(path, RESUME)
    assert await texts(SignalFile(path, 0.01), 1) == [RESUME.strip()]


async def test_a_place_is_of_the_file_with_the_same_bytes_before_it(path: Path) -> None:
    await settled(path, "p", "q")
    kept = "".join(f'{{"id":"{id_}","type":"pause-snapshot"}}\n' for id_ in ("p", "q"))
    overwrite(path, f"\n{RESUME}{kept}".encode())
    channel = SignalFile(path, 0.01)
    arrived = await channel.receive()
    assert arrived.text == RESUME.strip().encode()
    await nothing(channel)
    await arrived.answer(SignalRejected("r", "nothing is paused"))
    await nothing(channel)
    overwrite(path, b"")
    await nothing(channel)
    append(path, kept + RESUME)
    assert await texts(channel, 1) == [RESUME.strip()], "in an empty file each line is a new one"


async def test_a_line_of_before_comes_again_after_both_files_were_emptied(path: Path) -> None:
    """And the signals that were accepted before are known after a restart: they may still be under way."""
    await settled(path, "p")
    overwrite(path, b"")
    await nothing(SignalFile(path, 0.01))
    append(path, RESUME)
    channel = SignalFile(path, 0.01)
    await answer_next(channel, SignalRejected("r", "nothing is paused"))
    await nothing(channel)
    overwrite(path, b"")
    overwrite(path.with_name(path.name + ".answers"), b"")
    await nothing(channel)
    append(path, RESUME)
    again = SignalFile(path, 0.01)
    assert await texts(again, 1) == [RESUME.strip()]
    assert list(again._accepted) == ["p"]


async def test_a_place_that_can_not_be_put_is_put_later(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    channel, other = await settled(path, "p"), path.with_name("other")
    other.write_bytes(b"other")
    place_of(path).unlink()
    place_of(path).symlink_to(other)
    append(path, RESUME)
    await answer_next(channel, SignalAccepted("r", "resumed"))
    await nothing(channel)
    assert other.read_bytes() == b"other" and channel._met
    assert capsys.readouterr().out.count("can't be written") == 1
    place_of(path).unlink()
    await nothing(channel)
    assert not channel._met and place_of(path).is_file()


async def test_the_file_may_be_cut_off_or_replaced(path: Path) -> None:
    append(path, PAUSE + RESUME)
    channel = SignalFile(path, 0.01)
    await texts(channel, 2)
    overwrite(path, b'{"id":"3"}\n')
    assert await texts(channel, 1) == ['{"id":"3"}']
    other = path.with_suffix(".new")
    other.write_text('{"id":"4"}\n' * 20)
    other.replace(path)
    assert await texts(channel, 1) == ['{"id":"4"}']


@pytest.mark.parametrize("read", [PAUSE, PAUSE + RESUME[:-5], PAUSE * 100])
async def test_a_file_that_was_cut_and_grew_beyond_its_old_size_is_read_whole(path: Path, read: str) -> None:
    """Between two looks at it; its inode stays the same."""
    append(path, read)
    channel = SignalFile(path, 0.01)
    await texts(channel, 1)
    await nothing(channel)
    fresh = [f'{{"id":"{number}"}}' for number in range(500)]
    overwrite(path, ("\n".join(fresh) + "\n").encode())
    assert await texts(channel, 500) == fresh


async def test_an_answer_cut_off_by_a_crash_is_none(path: Path) -> None:
    append(path, PAUSE)
    append(path.with_name(path.name + ".answers"), '{"line": "abc", "id"')
    channel = SignalFile(path, 0.01)
    await (await channel.receive()).answer(SignalAccepted("p", "paused"))
    cut, whole = path.with_name(path.name + ".answers").read_text().splitlines()
    assert cut == '{"line": "abc", "id"'
    assert json.loads(whole)["id"] == "p"
    await nothing(SignalFile(path, 0.01))


async def test_a_line_that_is_too_long_is_refused_and_the_next_one_comes(path: Path) -> None:
    append(path, "x" * (3 * 2**20) + "\n" + PAUSE)
    long, good = await texts(SignalFile(path, 0.01), 2)
    assert LONGEST_SIGNAL < len(long) <= 2**20 + LONGEST_SIGNAL + 1
    with pytest.raises(MalformedSignal, match="longer than"):
        parse_signal(long)
    assert good == PAUSE.strip()


async def test_bytes_that_are_no_text_are_refused(path: Path) -> None:
    overwrite(path, b"\xff\xfe\n")
    arrived = await SignalFile(path, 0.01).receive()
    with pytest.raises(MalformedSignal):
        parse_signal(arrived.text)


MAKES: dict[str, Callable[[Path, Path], None]] = {
    "link": lambda wrong, other: wrong.symlink_to(other),
    "pipe": lambda wrong, _: os.mkfifo(wrong),
    "folder": lambda wrong, _: wrong.mkdir(),
}


@pytest.mark.parametrize("kind", MAKES)
@pytest.mark.parametrize("name", ["signals.jsonl", "signals.jsonl.answers"])
async def test_what_is_no_regular_file_is_neither_read_nor_written(
    path: Path, kind: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A link would lead to a file of the service's user, and a pipe would hold its reader for ever."""
    other, wrong = path.with_name("other"), path.with_name(name)
    other.write_text(PAUSE)
    channel = SignalFile(path, 0.01)
    MAKES[kind](wrong, other)
    if wrong != path:
        append(path, PAUSE)
    await nothing(channel)
    await nothing(channel)
    assert other.read_text() == PAUSE
    told = capsys.readouterr().out
    assert told.count("the signals' file can't be read") == 1 and f"signals.file: {wrong} " in told
    assert f"signals.file: {wrong} " in channel.status()["problem"]


async def test_what_can_be_read_again_is_read(path: Path) -> None:
    answered = path.with_name(path.name + ".answers")
    append(path, PAUSE)
    await (await SignalFile(path, 0.01).receive()).answer(SignalAccepted("p", "paused"))
    kept = answered.read_bytes()
    replace_by_folder(answered)
    append(path, RESUME)
    channel = SignalFile(path, 0.01)
    await nothing(channel)
    await channel.sealed(begun("p"))
    remove_folder(answered)
    overwrite(answered, kept)
    assert await texts(channel, 1) == [RESUME.strip()], "the other line has its answer"
    assert channel.status()["problem"] is None
    await channel.sealed(begun("p"))
    assert [(each["id"], each["outcome"]) for each in answers(path)] == [("p", "accepted"), ("p", "running")]
    replace_by_folder(path)
    await nothing(channel)
    assert channel.status()["problem"] is not None
    remove_folder(path)
    append(path, '{"id":"later"}\n')
    assert await texts(channel, 1) == ['{"id":"later"}']


@pytest.mark.parametrize("kind", MAKES)
async def test_answers_wait_for_a_regular_file(
    path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    other, wrong = path.with_name("other"), path.with_name(path.name + ".answers")
    other.write_text(PAUSE)
    append(path, PAUSE + RESUME)
    channel = SignalFile(path, 0.01)
    arrived = [await channel.receive() for _ in range(2)]
    MAKES[kind](wrong, other)
    async with asyncio.timeout(60):
        await arrived[0].answer(SignalAccepted("p", "paused"))
        await arrived[1].answer(SignalAccepted("r", "resumed"))
    await nothing(channel)
    assert other.read_text() == PAUSE
    told = capsys.readouterr().out
    assert told.count("the answers to signals can't be written") == 1 and f"{path}.answers" in told
    if wrong.is_dir() and not wrong.is_symlink():
        wrong.rmdir()
    else:
        wrong.unlink()
    await nothing(channel)
    assert [answer["id"] for answer in answers(path)] == ["p", "r"]


async def test_answers_that_find_no_room_are_written_later_and_lines_wait_for_them(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "MOST_UNWRITTEN", 2)
    append(path, "".join(f'{{"id":"{number}"}}\n' for number in range(3)))
    channel = SignalFile(path, 0.01)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        for number in range(2):
            await (await channel.receive()).answer(SignalRejected(f"{number}", "no such signal"))
        await nothing(channel)
    assert await texts(channel, 1) == ['{"id":"2"}']
    assert [answer["id"] for answer in answers(path)][-2:] == ["0", "1"]
