"""What the service is better off without: pandas.

pyarrow loads it, where it's installed, when it makes its first value of a Python object. PySpark's client for Spark
Connect can't be imported without it. Nothing here uses it, and it takes 36 to 51 MiB. For that client a module of the
same name stands in. It has the names that the client asks for when it's imported and when it's given rows. They're
asked for a frame of pandas only, which it's never given.
"""

import sys
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import Any, Final

_PANDAS: Final = "pandas"


class _KeptOut:
    def find_spec(self, name: str, *_: object) -> None:
        if name == _PANDAS:
            raise ModuleNotFoundError("pandas isn't loaded in the service", name=_PANDAS)


class _NoFrame:
    """In the place of a class of pandas: nothing is one of these."""


def _is_none_of_these(_: object) -> bool:
    return False


def block_pandas() -> None:
    """From now on it's as if pandas weren't installed; where it has been loaded before, it stays."""
    sys.meta_path.insert(0, _KeptOut())


def stand_in_for_pandas() -> None:
    """Lets PySpark's client for Spark Connect take the stand-in for pandas. Behind `block_pandas`.

    Where pandas isn't installed or has been loaded before, all stays as it is.
    """
    try:
        installed = version(_PANDAS)
    except PackageNotFoundError:
        return
    if _PANDAS not in sys.modules:
        _have_pyarrow_do_without()
        types = _module(
            "api.types", is_datetime64_dtype=_is_none_of_these, is_timedelta64_dtype=_is_none_of_these
        )
        api = _module("api", types=types)
        _module("", __version__=installed, __path__=[], api=api, DataFrame=_NoFrame, Series=_NoFrame)


def _have_pyarrow_do_without() -> None:
    """It looks for pandas only once, with its first value."""
    import pyarrow as pa

    pa.array([None])


def _module(name: str, **holds: Any) -> ModuleType:
    full = f"{_PANDAS}.{name}" if name else _PANDAS
    made = sys.modules[full] = ModuleType(full)
    vars(made).update(holds)
    return made
