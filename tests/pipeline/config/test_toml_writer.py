"""TOML that's written is read as what it was."""

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from pipeline.config.toml_writer import Value, document

KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
PLAIN = TEXTS | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
VALUES = PLAIN | st.lists(PLAIN | st.dictionaries(KEYS, PLAIN, max_size=2), max_size=3)


@given(st.dictionaries(KEYS, VALUES | st.dictionaries(KEYS, VALUES | st.dictionaries(KEYS, VALUES))))
def test_what_is_written_is_read_again(values: dict[str, Value]) -> None:
    read = tomllib.loads(document(values))
    assert _filled(read) == _filled(values)


def _filled(values: dict[str, Value]) -> dict[str, object]:
    """Without tables that hold nothing, which aren't written."""
    filled = {name: _filled(dict(of)) if isinstance(of, dict) else of for name, of in values.items()}
    return {name: of for name, of in filled.items() if of != {}}
