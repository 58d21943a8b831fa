"""Arrays that compiled code works on: the names of their types, and what a cell may be."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Cells = NDArray[np.int32]  # of one column
CellTable = NDArray[np.int32]  # [columns, room]
Ends = NDArray[np.int32]  # where each value ends
Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]
Int = int | np.integer[Any]  # compiled code knows but the latter
SLACK: Final = 8  # bytes
NULL: Final = -1
ABSENT: Final = -2
