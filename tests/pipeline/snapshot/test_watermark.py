"""A low watermark holds what had passed when the chunk was ordered."""

from collections.abc import Iterable

import pytest

from pipeline.gtid.gtid_set import GtidSet
from pipeline.snapshot import watermark
from pipeline.snapshot.prepared_xa import XaPrepared, left_out
from tests.pipeline.builders import gtids, place

PREPARED = (XaPrepared("x", 1, (), gtids("a:6")),)


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
    passed = watermark.StreamPosition(None, gtids("a:1-5:7-9"), prepared=PREPARED)
    assert passed.has(gtids("a:1-9"))
    assert not passed.has(gtids("a:1-10")), "the second phase, whose rows a SELECT may have seen"
    assert not watermark.StreamPosition(None, gtids("a:1-5:7-9")).has(gtids("a:1-9"))


def test_what_prepared_xa_transactions_leave_out_is_united_only_for_a_set_beyond_the_position(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There may be hundreds of them, and each open window asks at each message."""
    united: list[GtidSet] = []

    def counted(prepared: Iterable[XaPrepared]) -> GtidSet:
        united.append(left_out(prepared))
        return united[-1]

    monkeypatch.setattr(watermark, "left_out", counted)
    passed = watermark.StreamPosition(place(20), gtids("a:1-5:7-9"), frozenset({"m"}), PREPARED)
    assert passed.has(place(20)) and not passed.has(place(21))
    assert passed.has(watermark.MarkerRow("m")) and not passed.has(watermark.MarkerRow("n"))
    assert passed.has(gtids("a:1-5"))
    assert not united
    assert passed.has(gtids("a:1-6")) and united == [gtids("a:6")]
