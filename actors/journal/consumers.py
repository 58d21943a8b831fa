"""The readers of the journal, and the progress of each, for which retention keeps segments.

    consumers/lake.json        a consumer has everything through this segment
    consumers/lake.forgotten   what the lake's consumer has to know if it returns, as it was when it was forgotten

A consumer's own cursor is where its output is, in the same commit, if that received anything. Segments without data for
it leave no trace there. So the progress in this file may be ahead of the output, and retention may have removed the
segments between. A consumer that begins again has them all in one case. The file also has what its output reported at
that time (`reported`), and the output reports the same now. Of the lake the file also has the last segment that brought
something (`brought`), and the lake has that segment. An older copy of the output hasn't, and a newer one reports more
(`pipeline.lake.step.complete_through`).

Of the topics the file also has the position that the sink last committed, with the name of its topic (`sent`). Another
position topic may be older, and then the topics have more than it says.

No output is ever ahead of the journal, unless an older copy of the journal was put in its place. Then capture seals
other segments under the numbers that the output has, and nobody could tell them apart any more. So before capture seals
anything, the file gets the journal's end (`unchecked_end`). It keeps that through restarts until the consumer has
compared its output with it. If the consumer can't look at a part of its output then, it continues with the others. The
file keeps the end for that part alone (`unseen`). A store may carry out a write late, after it was repeated, and bring
back a file from before the comparison. So the process that has compared remembers that, and its next write says so.

The output of a consumer that is forgotten stays, and so does what it lacks. Of the lake nothing else says that: which
tables have lost rows, and what isn't compared yet. So its file is renamed, and counts when the consumer returns.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from actors.journal.files import Files
from actors.journal.writer_epochs import FIRST, JSON_SUFFIX, first_segment
from pipeline.config.settings import NAME, NAME_WORDS
from pipeline.errors import Definite
from pipeline.journal.consumer_names import CONSUMERS, LAKE_CONSUMER
from pipeline.journal.missing_generations import LostScans
from pipeline.kafka.position import NamedPosition, named_from_json, named_to_json
from pipeline.schema.table_schema import TableId

_FORGOTTEN: Final = ".forgotten"


class ConsumerDamaged(Definite):
    """The file of a consumer can't be read."""


@dataclass(frozen=True, slots=True)
class Consumer:
    """It has everything through `segment`, and reported that at `reported_at` (µs since the epoch).

    `reported`: the segment that its output reported at that time; None if the output lacks something older. `brought`:
    the last segment with which the output got something by then; 0 if that isn't known.
    `unchecked_end`: the segment with which the journal ended before the writer began. The output must not be ahead of
    it. None once that is checked. `lost`: the tables whose changes in its output don't add up to their rows.
    `sent`: of the topics, the position of the last Kafka transaction; None in a file of an earlier version.
    """

    segment: int
    reported_at: int
    reported: int | None
    unchecked_end: int | None = None
    lost: LostScans = field(default_factory=dict)
    unseen: Mapping[TableId, int] = field(default_factory=dict)
    brought: int = 0
    sent: NamedPosition | None = None


class Consumers:
    """The consumers of one journal; for any process."""

    def __init__(self, files: Files) -> None:
        self._files = files
        # What this process has found out of the consumers' outputs: for which tables it couldn't compare them.
        self._checked: dict[str, Mapping[TableId, int]] = {}

    def record_progress(
        self,
        name: str,
        segment: int,
        reported: int | None = None,
        lost: LostScans | None = None,
        brought: int = 0,
        sent: NamedPosition | None = None,
    ) -> None:
        """This consumer has everything through the segment, or never will have what it lacks.

        What isn't compared with the journal's end stays so. `lost`: as the Consumer has it; None for nothing, or for
        what the consumer had lost when it was forgotten. `brought`, `sent`: as the Consumer has them.
        """
        if not NAME.fullmatch(name):
            raise Definite(f"{name!r} can't be a consumer's name: use {NAME_WORDS}")
        now = time.time_ns() // 1000
        told = Consumer(segment, now, reported, lost=lost or {}, brought=brought, sent=sent)
        if (known := self.known(name)) is None and (known := self._forgotten(name)) is not None:
            told = replace(told, lost=known.lost if lost is None else lost)
        if known is not None:
            told = replace(told, unchecked_end=known.unchecked_end, unseen=known.unseen)
        self._put(name, told)

    def record_lost(self, name: str, lost: LostScans) -> None:
        """Records what a consumer has lost, if it's known or was forgotten."""
        self._change(name, lambda known: replace(known, lost=lost))

    def leave_unchecked(self, name: str, end: int) -> None:
        """Records that the journal ends with this segment, if a consumer is known or was forgotten, and no earlier end
        is unchecked."""
        self._checked.pop(name, None)
        self._change(
            name,
            lambda known: replace(
                known, unchecked_end=end if known.unchecked_end is None else known.unchecked_end
            ),
        )

    def checked(self, name: str, unseen: Mapping[TableId, int] | None = None) -> None:
        """Records that a consumer's output isn't ahead of the journal, except perhaps for tables that are `unseen`."""
        self._checked.pop(name, None)
        self._change(name, lambda known: replace(known, unchecked_end=None, unseen=unseen or {}))
        self._checked[name] = unseen or {}

    def _change(self, name: str, change: Callable[[Consumer], Consumer]) -> None:
        """Changes what is known of a consumer, or what waits for its return."""
        for suffix in (JSON_SUFFIX, _FORGOTTEN):
            if (known := self._read(name, suffix)) is not None:
                if (after := change(known)) != known:
                    self._put(name, after, suffix)
                return

    def _put(self, name: str, consumer: Consumer, suffix: str = JSON_SUFFIX) -> None:
        value: dict[str, Any] = {
            "segment": consumer.segment,
            "told_at": consumer.reported_at,
            "said": consumer.reported,
        }
        if consumer.brought:
            value["brought"] = consumer.brought
        if consumer.sent is not None:
            value["sent"] = named_to_json(consumer.sent)
        if consumer.unchecked_end is not None:
            value["unchecked_end"] = consumer.unchecked_end
        if consumer.lost:
            value["lost"] = [[t.database, t.name, sorted(ids)] for t, ids in sorted(consumer.lost.items())]
        if consumer.unseen:
            value["unseen"] = [[t.database, t.name, end] for t, end in sorted(consumer.unseen.items())]
        self._files.put(f"{CONSUMERS}/{name}{suffix}", json.dumps(value).encode())

    def all(self) -> dict[str, Consumer]:
        """All of them, by name. Raises ConsumerDamaged where one can't be read."""
        found = {name: self.known(name) for name in self._names()}
        return {name: consumer for name, consumer in found.items() if consumer is not None}

    def _names(self) -> list[str]:
        files = sorted(self._files.listed(CONSUMERS))
        return [file.removesuffix(JSON_SUFFIX) for file in files if file.endswith(JSON_SUFFIX)]

    def known(self, name: str) -> Consumer | None:
        """Returns a consumer; None if there is none, or it was forgotten meanwhile. Raises as `all` does."""
        return self._read(name, JSON_SUFFIX)

    def _forgotten(self, name: str) -> Consumer | None:
        """Returns the lake's consumer as it was forgotten; None if it wasn't. Raises as `all` does."""
        return self._read(name, _FORGOTTEN)

    def _read(self, name: str, suffix: str) -> Consumer | None:
        try:
            value = json.loads(self._files.read(f"{CONSUMERS}/{name}{suffix}"))
            told = Consumer(
                int(value["segment"]),
                int(value["told_at"]),
                value.get("said"),
                value.get("unchecked_end"),
                {TableId(d, t): frozenset(ids) for d, t, ids in value.get("lost", ())},
                {TableId(d, t): end for d, t, end in value.get("unseen", ())},
                value.get("brought", 0),
                named_from_json(value["sent"]) if "sent" in value else None,
            )
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise ConsumerDamaged(
                f"{self._files.shown}/{CONSUMERS}/{name}{suffix} is damaged: run tidemark forget-consumer FILE {name}, "
                "and the consumer reports again"
            ) from error
        unseen = self._checked.get(name)
        return told if unseen is None else replace(told, unchecked_end=None, unseen=unseen)

    def slowest_before(self, segment: int) -> str | None:
        """Returns the slowest one, if it hasn't reported this segment."""
        slowest = min(((each.segment, name) for name, each in self.all().items()), default=None)
        return slowest[1] if slowest is not None and slowest[0] < segment else None

    def forget(self, name: str) -> None:
        """Keep nothing for this consumer any more. Raises Definite where there's no such one.

        Raises ConsumerDamaged if it may have been the lake's and can't be read: then what it has lost isn't known.
        """
        if f"{name}{JSON_SUFFIX}" not in self._files.listed(CONSUMERS):
            self._forgotten(name)
            # By their files' names, since another one's file may be damaged.
            known = ", ".join(self._names()) or "none"
            raise Definite(
                f"{name!r} isn't a consumer of the journal in {self._files.shown}; there are: {known}"
            )
        if name == LAKE_CONSUMER:
            self.known(name)
            self._files.rename(f"{CONSUMERS}/{name}{JSON_SUFFIX}", f"{CONSUMERS}/{name}{_FORGOTTEN}")
        else:
            self._files.remove(f"{CONSUMERS}/{name}{JSON_SUFFIX}")

    def forget_damaged(self, name: str, may_be: Consumer) -> None:
        """Keep nothing for this consumer any more. If it returns, what it has lost is as here."""
        self._put(name, may_be, _FORGOTTEN)
        self._files.remove(f"{CONSUMERS}/{name}{JSON_SUFFIX}")

    def first(self) -> int:
        """The segment that the journal is whole from."""
        return first_segment(self._files)

    def begin_at(self, segment: int) -> None:
        """Make durable that the journal is whole from this segment on, and from no earlier one."""
        before = [name for name in self._files.listed(FIRST) if name.isdecimal() and int(name) < segment]
        # Its name says it all: an empty file has room on a filesystem that's full.
        self._files.put(f"{FIRST}/{segment:012d}", b"")
        for name in before:
            self._files.remove(f"{FIRST}/{name}")
