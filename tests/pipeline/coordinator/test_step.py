"""The coordinator's golden traces: its orders in each of the stories in `traces/`.

`REWRITE_TRACES=1 pytest tests/pipeline/coordinator/test_step.py` writes the traces as the present code would. Review
the difference before you commit it. A rule without a trace isn't tested: leave a new rule out once, and see a trace
come out differently.
"""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.config.settings import MOST_WINDOWS
from pipeline.coordinator.state import Overlapping
from pipeline.errors import InvariantBroken
from tests.pipeline.builders import ORDERS, Capture, read
from tests.pipeline.trace import rewritten

TRACES = sorted((Path(__file__).parent / "traces").glob("*.txt"))


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_the_coordinator_follows_the_trace(path: Path) -> None:
    told = path.read_text()
    now = rewritten(told)
    if os.environ.get("REWRITE_TRACES"):
        path.write_text(now)
    else:
        assert now.splitlines() == told.splitlines()


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
