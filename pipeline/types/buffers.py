"""Arrays that compiled code works on: the names of their types, and what a cell may be."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

Int64s = npt.NDArray[np.int64]


Bools = npt.NDArray[np.bool_]


Bytes = NDArray[np.uint8]


Cells = NDArray[np.int32]  # of one column


CellTable = NDArray[np.int32]  # [columns, room]


Longs = NDArray[np.int64]


Flags = NDArray[np.bool_]


Int = int | np.integer[Any]  # compiled code knows but the latter


SLACK: Final = 8  # bytes


NULL: Final = -1


ABSENT: Final = -2
