"""A checkpoint is read again as it was written, and anything else is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.changes.checkpoint import ChangesCheckpoint, MalformedCheckpoint, parse_checkpoint

GTIDS = GtidSet.parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-23,00000000-0000-0000-0000-00000000000b:tag:5")


@given(st.integers(1, 10**12), st.integers(0, 2**63 - 1), st.sampled_from((None, GTIDS)))
def test_it_is_read_again(segment: int, scn: int, without: GtidSet | None) -> None:
    checkpoint = ChangesCheckpoint("3f5c0a", segment, scn, without)
    assert parse_checkpoint(str(checkpoint)) == checkpoint


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a.b.c",
        "3f5c0a.1",
        "3f5c0a.0.1",
        "3f5c0a.1.x",
        f"3f5c0a.1.{1 << 63}",
        ".1.2",
        "3f5c0a.1.2.nonsense",
        "a.-1.2",
    ],
)
def test_another_text_is_refused_by_name(text: str) -> None:
    with pytest.raises(MalformedCheckpoint, match="is no checkpoint"):
        parse_checkpoint(text)
