"""When the journal's quota makes capture wait, and when capture continues."""

import pytest

from pipeline.journal.quota import quota_reached
from pipeline.messages.journal import Full, HasSpace, Room

MIB = 1 << 20
FULL = Full("so")


@pytest.mark.parametrize(
    ("size", "behind", "room", "waits"),
    [
        (100 * MIB - 1, "lake", HasSpace(), False),
        (100 * MIB, "lake", HasSpace(), True),
        # Whatever it's kept for, no consumer makes room by getting on.
        (100 * MIB, None, HasSpace(), False),
        (100 * MIB, None, FULL, False),
        # A quarter of the way down to what's kept anyway.
        (85 * MIB, "lake", FULL, True),
        (85 * MIB - 1, "lake", FULL, False),
        (85 * MIB, "lake", HasSpace(), False),
    ],
)
def test_capture_waits_at_the_quota_for_a_consumer(
    size: int, behind: str | None, room: Room, waits: bool
) -> None:
    reason = quota_reached(100, 40, size, behind, room)
    assert (reason is not None) is waits
    if reason is not None:
        assert "journal.quota_mib (100)" in reason
        assert "'lake'" in reason


def test_without_a_quota_nobody_waits() -> None:
    assert quota_reached(0, 40, 1 << 60, "lake", HasSpace()) is None
