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


def test_a_set_has_passed_though_the_position_leaves_out_the_first_phase_of_an_xa_transaction() -> None:
    passed = watermark.StreamPosition(None, gtids("a:1-5:7-9"), left_out=gtids("a:6"))
    assert passed.has(gtids("a:1-9"))
    assert not passed.has(gtids("a:1-10")), "the second phase, whose rows a SELECT may have seen"
    assert not watermark.StreamPosition(None, gtids("a:1-5:7-9")).has(gtids("a:1-9"))
