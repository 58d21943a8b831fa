"""What describes the images of many events is what describes each of them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.binlog.rows.image_descriptions import describe_images
from pipeline.messages.row_images import ImageKind

FIRST = st.sampled_from([ImageKind.INSERT, ImageKind.UPDATE_BEFORE, ImageKind.DELETE])
EVENTS = st.lists(
    st.tuples(
        FIRST,
        st.integers(0, 2**31 - 1),  # transaction
        st.integers(0, 6),  # images
        st.integers(0, 2**31 - 100),  # the first ordinal
        st.integers(0, 2**62),  # position
        st.integers(0, 2**32 - 1),  # server
        st.integers(-1, 2**32 - 1),  # thread
    ),
    max_size=5,
)


@given(EVENTS)
def test_each_image_has_what_its_event_has(events: list[tuple[int, ...]]) -> None:
    told = np.array(events, np.int64).reshape(-1, 7).T
    counts = np.ascontiguousarray(told[2])
    size = int(counts.sum())
    origin = np.ascontiguousarray(np.vstack([np.zeros_like(counts), told[4:7], np.full_like(counts, -1)]))
    kinds, threaded = np.empty(size, np.int8), np.empty(size, np.bool_)
    transactions, ordinals, rows = (np.empty(size, np.int32) for _ in range(3))
    places, servers, threads = np.empty(size, np.int64), np.empty(size, np.uint32), np.empty(size, np.uint32)
    describe_images(
        told[0].astype(np.int8), told[1].astype(np.int32), origin, counts, np.ascontiguousarray(told[3]),
        kinds, transactions, ordinals, rows, places, servers, threads, threaded,
    )  # fmt: skip
    found = [
        (kind, transaction, ordinal, row, place, server, thread if known else None)
        for kind, transaction, ordinal, row, place, server, thread, known in zip(
            *(
                each.tolist()
                for each in (kinds, transactions, ordinals, rows, places, servers, threads, threaded)
            ),
            strict=True,
        )
    ]
    assert found == [
        (
            first + image % 2 if first == ImageKind.UPDATE_BEFORE else first,
            transaction,
            ordinal + image,
            image // 2 if first == ImageKind.UPDATE_BEFORE else image,
            place,
            server,
            thread if thread >= 0 else None,
        )
        for first, transaction, images, ordinal, place, server, thread in events
        for image in range(images)
    ]
