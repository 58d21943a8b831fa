"""A low watermark holds what had passed when the chunk was ordered."""

from pipeline.snapshot import watermark
from tests.pipeline.builders import gtids


def test_low_is_unusable_if_it_lacks_one_transaction_that_had_passed_when_asked() -> None:
    assert not watermark.is_usable_low(low=gtids("a:1-4"), ordered_at=gtids("a:1-5"))
    assert not watermark.is_usable_low(low=gtids("a:1-4:6"), ordered_at=gtids("a:1-5"))
    assert not watermark.is_usable_low(low=gtids("a:1-9"), ordered_at=gtids("a:1-5,b:1"))
    assert not watermark.is_usable_low(low=gtids("a:1-9"), ordered_at=gtids("a:tag:1"))


def test_low_is_usable_if_it_holds_all_that_had_passed_when_asked_and_more() -> None:
    assert watermark.is_usable_low(low=gtids("a:1-5"), ordered_at=gtids("a:1-5"))
    assert watermark.is_usable_low(low=gtids("a:1-9,b:7"), ordered_at=gtids("a:1-5"))
    assert watermark.is_usable_low(low=gtids(""), ordered_at=gtids(""))
