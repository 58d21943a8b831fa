"""Of a hundred readers none may miss a change, or have one twice, without an error."""

import pyarrow as pa
import pytest

from bench._change_readers import Passage

COLUMNS = pa.schema({"small_0": pa.struct({"id": pa.int64(), "n": pa.int64()})})
HEAD = COLUMNS.serialize().to_pybytes()


def chunk(checkpoint: str, *counters: int) -> bytes:
    """What comes through this checkpoint: changes of one row, whose counter becomes these numbers."""
    rows = pa.RecordBatch.from_pylist([{"small_0": {"id": 1, "n": n}} for n in counters], schema=COLUMNS)
    written = pa.BufferOutputStream()
    with pa.ipc.new_stream(written, COLUMNS) as writer:
        writer.write_batch(rows, custom_metadata={"checkpoint": checkpoint})
    return bytes(memoryview(written.getvalue())[len(HEAD) : -8])


def test_readers_that_have_each_change_once_pass() -> None:
    passage = Passage("a.1.0")
    for _ in range(3):
        assert passage.after("a.1.0", HEAD, chunk("a.2.0", 4, 5)) == "a.2.0"
        # Nothing changes for a while, and a reader learns how far the journal is.
        assert passage.after("a.2.0", HEAD, chunk("a.3.0")) == "a.2.0"
        assert passage.after("a.2.0", HEAD, chunk("a.4.0", 6)) == "a.4.0"
    assert len(passage.chunks) == 2


@pytest.mark.parametrize(
    "wrong",
    [
        chunk("a.3.0", 7),  # one is missing
        chunk("a.3.0", 5, 6),  # one comes again
        chunk("a.3.0", 6, 6),
    ],
)
def test_the_first_reader_fails_for_a_wrong_change(wrong: bytes) -> None:
    passage = Passage("a.1.0")
    passage.after("a.1.0", HEAD, chunk("a.2.0", 4, 5))
    with pytest.raises(AssertionError, match=r"small_0, 1: \d comes after"):
        passage.after("a.2.0", HEAD, wrong)


def test_another_fails_for_other_bytes() -> None:
    passage = Passage("a.1.0")
    passage.after("a.1.0", HEAD, chunk("a.2.0", 4, 5))
    passage.after("a.2.0", HEAD, chunk("a.3.0", 6))
    for wrong in (chunk("a.2.0", 5), chunk("a.2.0", 4, 5, 6), chunk("a.3.0", 4, 5)):
        with pytest.raises(AssertionError, match="readers got different bytes"):
            passage.after("a.1.0", HEAD, wrong)
