"""The compiled loops as plain Python, which checks every index: what they read and write is inside of their arrays."""

import importlib.util
import sys
from types import ModuleType

import numba
import pytest

from pipeline.binlog.rows import cells, columns, row_events, stored_values, temporal
from pipeline.binlog.rows.json import (
    diff_kernels,
    document_kernels,
    document_tree,
    doubles,
    opaque_values,
    partial_update,
    path_legs,
    text_kernels,
)
from pipeline.binlog.rows.json import document as json
from pipeline.types import byte_kernels, value_kernels

# Each is loaded after those that it uses.
_COMPILED = (
    byte_kernels,
    cells,
    value_kernels,
    text_kernels,
    opaque_values,
    document_kernels,
    doubles,
    path_legs,
    document_tree,
    diff_kernels,
)
_USERS = (row_events, stored_values, columns, temporal, json, partial_update)


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the test ends, row images are decoded by plain Python."""
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    for compiled in _COMPILED:
        plain = _loaded(compiled, monkeypatch)
        for user in _USERS:
            for name, used in list(vars(user).items()):
                if used is compiled:
                    monkeypatch.setattr(user, name, plain)


def _loaded(compiled: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    specification = importlib.util.spec_from_file_location(compiled.__name__, compiled.__file__)
    assert specification is not None
    assert specification.loader is not None
    plain = importlib.util.module_from_spec(specification)
    monkeypatch.setitem(sys.modules, compiled.__name__, plain)  # where the next one finds it
    specification.loader.exec_module(plain)
    return plain
