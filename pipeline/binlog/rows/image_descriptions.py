"""The description of each row image (`row_images.IMAGE_FIELDS`), in one compiled loop over the events of a table.

Most slices have few rows of a table. Then each step over whole arrays takes longer than all of the rows.
"""

import numpy as np
from numpy.typing import NDArray

from pipeline.messages.row_images import ImageKind
from pipeline.types.buffers import Flags, Longs
from pipeline.types.jit import compiled

_BEFORE = int(ImageKind.UPDATE_BEFORE)


@compiled(
    "void(int8[::1], int32[::1], int64[:, ::1], int64[::1], int64[::1],"
    " int8[::1], int32[::1], int32[::1], int32[::1], int64[::1], uint32[::1], uint32[::1], boolean[::1])"
)
def describe_images(
    first_kinds: NDArray[np.int8],
    event_transactions: NDArray[np.int32],
    origin: NDArray[np.int64],
    counts: Longs,
    first_ordinals: Longs,
    kinds: NDArray[np.int8],
    transactions: NDArray[np.int32],
    ordinals: NDArray[np.int32],
    rows: NDArray[np.int32],
    places: Longs,
    servers: NDArray[np.uint32],
    threads: NDArray[np.uint32],
    threaded: Flags,
) -> None:
    """Fills the last eight arrays, for each image, from the first five, which have each event.

    `origin`: as in `RowsEvents`. `counts`: the images of each event. `first_ordinals`: the ordinal of its first one.
    `threaded`: whether the thread is known.
    """
    image = 0
    for event in range(len(counts)):
        updates = first_kinds[event] == _BEFORE
        for place in range(counts[event]):
            kinds[image] = first_kinds[event] + (place & 1 if updates else 0)
            transactions[image] = event_transactions[event]
            ordinals[image] = first_ordinals[event] + place
            rows[image] = place >> 1 if updates else place
            places[image] = origin[1, event]
            servers[image] = origin[2, event]
            threads[image] = origin[3, event]
            threaded[image] = origin[3, event] >= 0
            image += 1
