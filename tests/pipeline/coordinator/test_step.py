"""The coordinator's golden traces: its orders in each of the stories in `traces/`.

`REWRITE_TRACES=1 pytest tests/pipeline/coordinator/test_step.py` writes the traces as the present code would. Review
the difference before you commit it.

A rule without a trace isn't tested. So for each mutation of the coordinator (`tests.pipeline.mutations`) some trace has
to differ.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from inspect import getmembers, isfunction, signature
from pathlib import Path

import pytest

from pipeline.config.settings import MOST_WINDOWS
from pipeline.coordinator.state import Overlapping
from pipeline.errors import InvariantBroken
from tests.pipeline import mutations
from tests.pipeline.builders import ORDERS, Capture, read
from tests.pipeline.mutations import Mutation
from tests.pipeline.trace import rewritten

TRACES = sorted((Path(__file__).parent / "traces").glob("*.txt"))

# Rules of other modules, or beyond one story. Their own tests fail without them.
TESTED_ALONE = {
    mutations.files_are_compared_as_text,
    mutations.tokens_are_joined_without_lengths,
    mutations.signals_are_remembered_for_ever,
    mutations.snapshots_are_remembered_for_ever,
}


def of_the_coordinator() -> Iterator[Mutation]:
    """The mutations that some trace has to find."""
    for _, found in getmembers(mutations, isfunction):
        public = found.__module__ == mutations.__name__ and not found.__name__.startswith("_")
        if public and list(signature(found).parameters) == ["patch"] and found not in TESTED_ALONE:
            yield found


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_the_coordinator_follows_the_trace(path: Path) -> None:
    told = path.read_text()
    now = rewritten(told)
    if os.environ.get("REWRITE_TRACES"):
        path.write_text(now)
    else:
        assert now.splitlines() == told.splitlines()


@pytest.mark.parametrize("mutation", [*of_the_coordinator()], ids=lambda each: each.__name__)
def test_some_trace_comes_out_differently_with_the_mutation(
    mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation(monkeypatch)
    assert any(differs(path.read_text()) for path in TRACES)


def differs(told: str) -> bool:
    """Whether the code at hand, a mutation, writes the trace differently, or fails."""
    try:
        return rewritten(told) != told
    except (AssertionError, KeyError):  # the checkpoint that no Append has, or the coordinator itself
        return True


# What isn't a story


@pytest.mark.parametrize("most", [0, -1, MOST_WINDOWS + 1])
def test_a_number_of_windows_that_no_mailbox_holds_is_refused(most: int) -> None:
    with pytest.raises(ValueError, match=f"from 1 to {MOST_WINDOWS}, not {most}"):
        Capture(ORDERS, mode=Overlapping(most))


def test_a_window_of_a_table_that_has_no_snapshot_breaks_an_invariant() -> None:
    capture = Capture(ORDERS)
    order = capture.begin(ORDERS)
    capture.state = replace(capture.state, checkpoint=replace(capture.checkpoint, snapshots=()))
    with pytest.raises(InvariantBroken, match=r"window of shop\.orders is open"):
        capture.give(read(order, 1, high=10))
