"""Epochs of a journal: how a writer becomes its only one, and how a reader knows whose segments count.

    claims/00000003-1f2e3d4c.json         a writer's epoch, which fences smaller ones, and what counted before it
    claims/00000003-1f2e3d4c.begun.json   what that writer began with
    first/000000000501                    the journal is whole from this segment on

`pipeline.journal.writer_epochs` proves the order of the steps. `pipeline.journal.retention` says where the journal
begins. Once an epoch has begun, the ones before it are removed.
"""

import json
import uuid
from collections.abc import Iterable, Set

from actors.journal.files import Files
from actors.runtime.filesystem import TEMPORARY
from pipeline.errors import Definite
from pipeline.journal import writer_epochs
from pipeline.journal.writer_epochs import EpochRecord, JournalView

# Their folder's name, which stored journals have.
EPOCHS = "claims"
FIRST = "first"
MANIFEST = "manifest"
JSON_SUFFIX = ".json"
_BEGUN = f".begun{JSON_SUFFIX}"


class NoJournal(Definite):
    """There's none."""


class Fenced(Definite):
    """Another instance has taken an epoch of the journal since."""


def read_view(files: Files) -> JournalView:
    """What counts, as far as it's certain. Raises Definite where there's no journal, or where it has been damaged."""
    while True:
        entries = list_entries(files)
        known, begun = _epochs(files)
        if not begun:
            if entries:
                raise Definite(
                    f"{files.shown} holds segments without {EPOCHS}: restore them from a copy of the journal"
                )
            raise NoJournal(f"{files.shown} holds no journal: {EPOCHS} is missing, or is empty")
        greatest = max(begun)
        try:
            record = _record(files, greatest)
            if greatest == max(known):
                return writer_epochs.valid_segments(greatest, record, entries, first_segment(files))
            counted = _counted(files, greatest, (epoch for epoch in known if epoch > greatest))
        except FileNotFoundError:
            continue  # a greater one has begun, and removed it
        return JournalView(greatest, record, max(record.through, counted))


def take_epoch(files: Files, pipeline: str, tried: set[str]) -> JournalView:
    """Takes an epoch of the journal, made if there's none. Raises Fenced if another process takes one meanwhile.

    `tried`: the epochs that this process has put, or has tried to put. A store may still carry one out, so the new one,
    which is added, is greater. Raises Definite, without any effect on others, if it's another pipeline's or damaged.
    """
    before = _check_pipeline(files, pipeline)
    known, _ = _epochs(files)
    mine = writer_epochs.next_epoch(known | tried, uuid.uuid4().hex[:8])
    tried.add(mine)
    counted = {} if before is None else {"of": before.epoch, "through": before.last}
    files.put(f"{EPOCHS}/{mine}{JSON_SUFFIX}", json.dumps(counted).encode())
    check_epoch(files, mine)
    record = _past(files, pipeline)
    files.put(f"{EPOCHS}/{mine}{_BEGUN}", writer_epochs.to_json(record).encode())
    check_epoch(files, mine)
    known, begun = _epochs(files)
    for epoch in sorted(known - {mine}):
        files.remove(f"{EPOCHS}/{epoch}{JSON_SUFFIX}")
        if epoch in begun:
            files.remove(f"{EPOCHS}/{epoch}{_BEGUN}")
    return JournalView(mine, record, record.through)


def check_epoch(files: Files, mine: str, tried: Set[str] = frozenset()) -> None:
    """Checks that no one has taken an epoch since, but for what this process has `tried`. Raises Fenced."""
    known, _ = _epochs(files)
    if later := [epoch for epoch in known - tried if epoch > mine]:
        raise Fenced(
            f"another instance took the journal in {files.shown} ({max(later)} after {mine}), and continues from "
            "what was sealed before; run one instance only"
        )


def is_succeeded(files: Files, epoch: str) -> bool:
    """Returns whether a writer has taken an epoch after this one."""
    known, _ = _epochs(files)
    return max(known, default=epoch) > epoch


def first_segment(files: Files) -> int:
    """The segment that the journal is whole from: those before it have gone, or are going."""
    return max((int(name) for name in files.listed(FIRST) if name.isdecimal()), default=1)


def list_entries(files: Files) -> list[tuple[int, str]]:
    """The entries that there are, counting or not, by segment and epoch. Raises Definite for a foreign file."""
    found = []
    for name in files.listed(MANIFEST):
        if name.endswith(TEMPORARY):
            continue
        segment = (
            writer_epochs.segment_of(name.removesuffix(JSON_SUFFIX)) if name.endswith(JSON_SUFFIX) else None
        )
        if segment is None:
            raise Definite(f"{files.shown}/{MANIFEST}/{name} isn't a journal's: move it elsewhere")
        found.append(segment)
    return found


def _check_pipeline(files: Files, pipeline: str) -> JournalView | None:
    """Returns what counts, None if there's no journal. Raises Definite if it's another pipeline's."""
    try:
        view = read_view(files)
    except NoJournal:
        return None
    if (owner := view.record.pipeline) != pipeline:
        raise Definite(
            f"{files.shown} is the journal of pipeline {owner!r}: give {pipeline!r} a place of its own"
        )
    return view


def _past(files: Files, pipeline: str) -> EpochRecord:
    """The record of the next epoch: everything that counted for the last one that began."""
    entries = list_entries(files)
    _, begun = _epochs(files)
    if not begun:
        return EpochRecord(str(uuid.uuid4()), pipeline)
    before = writer_epochs.valid_segments(
        max(begun), _record(files, max(begun)), entries, first_segment(files)
    )
    return before.succeeded(min((segment for segment, _ in entries), default=1))


def _epochs(files: Files) -> tuple[set[str], set[str]]:
    """All epochs, and those that have begun."""
    names = files.listed(EPOCHS)
    begun = {name.removesuffix(_BEGUN) for name in names if name.endswith(_BEGUN)}
    known = {name.removesuffix(JSON_SUFFIX) for name in names if name.endswith(JSON_SUFFIX)}
    return {epoch for epoch in known | begun if writer_epochs.is_epoch(epoch)}, begun


def _counted(files: Files, greatest: str, pending: Iterable[str]) -> int:
    """Returns the last segment that counted for a writer whose epoch hasn't begun, 0 if none says so."""
    return max((_counted_before(files, epoch).get(greatest, 0) for epoch in pending), default=0)


def _counted_before(files: Files, epoch: str) -> dict[str, int]:
    """Returns through which segment it counted for whom before this epoch, as the epoch says; earlier ones don't."""
    name = f"{EPOCHS}/{epoch}{JSON_SUFFIX}"
    content = files.read(name)
    try:
        match json.loads(content):
            case {"of": str(of), "through": int(through)}:
                return {of: through}
            case {**others} if not others:
                return {}
    except ValueError:
        pass
    raise Definite(f"{files.shown}/{name} is damaged: restore it from a copy of the journal")


def _record(files: Files, epoch: str) -> EpochRecord:
    name = f"{EPOCHS}/{epoch}{_BEGUN}"
    content = files.read(name)
    try:
        return writer_epochs.from_json(content.decode())
    except (Definite, UnicodeDecodeError) as error:
        raise Definite(f"{files.shown}/{name} is damaged: restore it from a copy of the journal") from error
