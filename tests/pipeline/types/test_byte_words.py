"""Eight bytes at a time: read, written, and copied with up to seven more."""

import numpy as np

from pipeline.types.byte_words import copy_words, put_word, word


def test_a_word_is_written_as_it_is_read() -> None:
    buffer = np.frombuffer(bytes(range(1, 17)), np.uint8).copy()
    assert int(word(buffer, 3)) == int.from_bytes(bytes(range(4, 12)), "little")
    put_word(buffer, 0, word(buffer, 8))
    assert buffer.tobytes() == bytes(range(9, 17)) * 2


def test_a_copy_takes_whole_words() -> None:
    buffer, out = np.arange(24, dtype=np.uint8), np.zeros(24, np.uint8)
    copy_words(buffer, 2, 9, out, 1)
    assert out[1:10].tolist() == list(range(2, 11))
    assert out[0] == 0 and not out[17:].any()
