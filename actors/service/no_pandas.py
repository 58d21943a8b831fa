"""What the service is better off without: pandas.

pyarrow loads it, where it's installed, when it makes its first value of a Python object: 51 MiB that nothing here uses.
It's installed for Spark Connect, whose session can't be imported without it.
"""

import sys
from typing import Final

_PANDAS: Final = "pandas"


class _KeptOut:
    def find_spec(self, name: str, *_: object) -> None:
        if name == _PANDAS:
            raise ModuleNotFoundError("pandas isn't loaded beside a Spark of our own", name=_PANDAS)


def block_pandas() -> None:
    """From now on it's as if pandas weren't installed; where it has been loaded before, it stays."""
    sys.meta_path.insert(0, _KeptOut())
