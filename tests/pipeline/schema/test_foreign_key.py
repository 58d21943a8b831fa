"""Foreign keys, through JSON and back."""

import json

import pytest

from pipeline.schema import foreign_key
from pipeline.schema.foreign_key import ForeignKey
from pipeline.schema.table_schema import TableId


@pytest.mark.parametrize(("deletes", "updates"), [(True, False), (False, True)])
def test_a_foreign_key_comes_back_from_json(deletes: bool, updates: bool) -> None:
    key = ForeignKey(TableId("shop", "lines"), TableId("store", "items"), ("id", "code"), deletes, updates)
    assert foreign_key.from_json(json.loads(json.dumps(foreign_key.to_json(key)))) == key
