"""Numbers of ENUM and SET become the server's texts; one that no known label has is refused."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.types import enum_labels
from pipeline.types.enum_labels import (
    UNKNOWN_CHARACTER,
    LabelsTooLong,
    NoLabel,
    enum_texts,
    labels_agree,
    set_texts,
)

LABELS = ("new", "paid")


def test_an_index_becomes_its_label() -> None:
    assert enum_texts(pa.array([2, None, 0, 1], pa.int32()), LABELS).to_pylist() == ["paid", None, "", "new"]


@pytest.mark.parametrize("index", [-1, 3])
def test_an_index_without_a_label_is_refused(index: int) -> None:
    with pytest.raises(NoLabel, match="2 labels"):
        enum_texts(pa.array([1, index], pa.int32()), LABELS)


def test_bits_become_their_labels() -> None:
    assert set_texts(pa.array([3, 0, None, 2], pa.int64()), LABELS).to_pylist() == [
        "new,paid",
        "",
        None,
        "paid",
    ]


@pytest.mark.parametrize(
    ("labels", "texts"),
    [
        (("", "a", "b"), ["", "", "a", "a", "b", "b", "a,b", "a,b"]),
        (("a", "", "b"), ["", "a", "", "a,", "b", "a,b", "b", "a,,b"]),
    ],
)
def test_an_empty_label_has_a_comma_only_after_some_text(labels: tuple[str, ...], texts: list[str]) -> None:
    assert set_texts(pa.array(range(8), pa.int64()), labels).to_pylist() == texts


def test_the_highest_of_64_bits_is_a_label_too() -> None:
    labels = tuple(map(str, range(64)))
    assert set_texts(pa.array([-(1 << 63)], pa.int64()), labels).to_pylist() == ["63"]


def test_a_bit_without_a_label_is_refused() -> None:
    with pytest.raises(NoLabel, match="0x4"):
        set_texts(pa.array([4], pa.int64()), LABELS)


def test_a_label_that_is_not_known_is_refused_only_where_it_is_a_value() -> None:
    labels = ("new", UNKNOWN_CHARACTER)
    assert enum_texts(pa.array([1], pa.int32()), labels).to_pylist() == ["new"]
    with pytest.raises(NoLabel, match="ENUM"):
        enum_texts(pa.array([2], pa.int32()), labels)
    with pytest.raises(NoLabel, match="SET"):
        set_texts(pa.array([2], pa.int64()), labels)


def test_labels_are_alike_where_an_unknown_character_may_be_the_other() -> None:
    assert labels_agree((UNKNOWN_CHARACTER,), ("?",)) and labels_agree(
        ("\N{GRINNING FACE}",), (UNKNOWN_CHARACTER,)
    )
    assert (
        not labels_agree((UNKNOWN_CHARACTER,), ("a",))
        and not labels_agree(LABELS, ("new",))
        and not labels_agree(("ab",), (UNKNOWN_CHARACTER,))
    )


@given(st.lists(st.none() | st.integers(0, 3)))
def test_enum_texts(indices: list[int | None]) -> None:
    labels = ("a", "b", "ü")
    wanted = [None if i is None else ["", *labels][i] for i in indices]
    assert enum_texts(pa.array(indices, pa.int32()), labels).to_pylist() == wanted


@given(st.lists(st.none() | st.integers(0, 2**64 - 1)), st.just(tuple(f"l{i}" for i in range(64))))
def test_set_texts_of_64_labels(patterns: list[int | None], labels: tuple[str, ...]) -> None:
    signed = [None if p is None else p - 2**64 * (p >> 63) for p in patterns]
    wanted = [None if p is None else ",".join(labels[b] for b in range(64) if p >> b & 1) for p in patterns]
    assert set_texts(pa.array(signed, pa.int64()), labels).to_pylist() == wanted


def test_numbers_that_no_label_has() -> None:
    for indices in ([3], [-1, 1]):
        with pytest.raises(NoLabel, match="2 labels"):
            enum_texts(pa.array(indices, pa.int32()), ("a", "b"))
    with pytest.raises(NoLabel, match="the value 0x4"):
        set_texts(pa.array([4], pa.int64()), ("a", "b"))


def test_texts_that_arrows_offsets_do_not_reach_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds of some bytes stand for 2 GiB."""
    indices, bits = pa.array([2, 2, None, 0], pa.int32()), pa.array([2, 2, None, 0], pa.int64())
    for most, fits in ((8, True), (7, False)):
        monkeypatch.setattr(enum_labels, "_MOST_BYTES", most)
        for texts, numbers in ((enum_texts, indices), (set_texts, bits)):
            if fits:
                assert texts(numbers, LABELS).to_pylist() == ["paid", "paid", None, ""]
            else:
                with pytest.raises(LabelsTooLong, match="shorter labels"):
                    texts(numbers, LABELS)
    monkeypatch.setattr(enum_labels, "_MOST_BYTES", 4)
    with pytest.raises(LabelsTooLong, match="2 GiB"):
        set_texts(pa.array([1, 2], pa.int64()), LABELS)
    assert set_texts(pa.array([None, None], pa.int64()), LABELS).null_count == 2
