"""Messages about chunks that say something by themselves."""

import pytest

from pipeline.messages.chunks import SourceOverloaded


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        (SourceOverloaded("many threads run"), "many threads run"),
        (SourceOverloaded(None, "it is down"), "it is down"),
        (SourceOverloaded("many threads run", "it is down"), "it is down"),
    ],
)
def test_what_somebody_has_to_end_is_the_reason_before_an_overload(
    report: SourceOverloaded, reason: str
) -> None:
    assert report.reason == reason
