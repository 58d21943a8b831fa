"""Checkpoints: through JSON and back, and what counts as more than the position's movement."""

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given

from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.witness import Witness
from pipeline.schema.foreign_key import ForeignKey
from pipeline.schema.table_schema import TableId
from pipeline.snapshot import checkpoint as checkpoints
from pipeline.snapshot.checkpoint import Checkpoint, Filling, Mirror, Moving, Ready
from pipeline.snapshot.prepared_xa import XaPrepared
from pipeline.snapshot.snapshot import Snapshot, SnapshotWaiting
from tests.pipeline.builders import ITEMS, ORDERS, gtid, gtids
from tests.pipeline.declarations import is_value
from tests.pipeline.strategies import checkpoints as any_checkpoint

EMPTY = Checkpoint(gtids(""))
BY_ITEMS = ForeignKey(ORDERS.table, ITEMS.table, ("id", "code"), deletes=True, updates=False)

# A checkpoint that differs from EMPTY, by the field in which it does.
DIFFERENT: dict[str, Checkpoint] = {
    "position": replace(EMPTY, position=gtids("a:1")),
    "scn": replace(EMPTY, scn=1),
    "schemas": replace(EMPTY, schemas={ORDERS.table: ORDERS}),
    "mirrors": replace(EMPTY, mirrors={ORDERS.table: Filling(7)}),
    "snapshots": replace(EMPTY, snapshots=(Snapshot("s1", {ORDERS.table: SnapshotWaiting()}),)),
    "signals": replace(EMPTY, signals=("s1",)),
    "paused": replace(EMPTY, paused=True),
    "stopped": replace(EMPTY, stopped={ORDERS.table: "so"}),
    "moving": replace(EMPTY, moving=Moving("s1", gtids("a:7"))),
    "unproven": replace(EMPTY, unproven=frozenset({ORDERS.table})),
    "unread": replace(EMPTY, unread={ORDERS.table: 7}),
    "server": replace(EMPTY, server="a"),
    "witnesses": replace(EMPTY, witnesses=(Witness(gtid("a:7"), 20, 10),)),
    "prepared": replace(EMPTY, prepared=(XaPrepared("a", 7, (ORDERS.table,), gtids("a:7")),)),
    "recapturing": replace(EMPTY, recapturing={ORDERS.table: "s1"}),
    "unknown_engines": replace(EMPTY, unknown_engines=frozenset({ORDERS.table})),
    "scanned": replace(EMPTY, scanned=frozenset({ORDERS.table})),
    "log_end": replace(EMPTY, log_end=Coordinates("binlog.000007", 40)),
    "foreign_keys": replace(EMPTY, foreign_keys=(BY_ITEMS,)),
}
MOVEMENT = {"position", "scn", "witnesses", "prepared", "log_end"}


def through_json(checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint, written and read; its schemas are kept beside it, by version."""
    versions = {schema.version: schema for schema in checkpoint.schemas.values()}
    value: dict[str, Any] = json.loads(json.dumps(checkpoints.to_json(checkpoint)))
    return checkpoints.from_json(value, versions)


@given(any_checkpoint())
def test_a_checkpoint_comes_back_from_json(checkpoint: Checkpoint) -> None:
    assert through_json(checkpoint) == checkpoint


def test_no_foreign_keys_are_something_else_than_unknown_ones() -> None:
    none = replace(EMPTY, foreign_keys=())
    assert through_json(none) == none
    earlier = {name: value for name, value in checkpoints.to_json(EMPTY).items() if name != "foreign_keys"}
    assert checkpoints.from_json(earlier, {}).foreign_keys is None


def test_schemas_are_written_by_their_version_only() -> None:
    assert checkpoints.to_json(DIFFERENT["schemas"])["schemas"] == [["shop", "orders", ORDERS.version]]


def test_a_schema_whose_version_is_unknown_is_not_guessed() -> None:
    with pytest.raises(KeyError, match=ORDERS.version):
        checkpoints.from_json(checkpoints.to_json(DIFFERENT["schemas"]), {})


def test_each_field_is_tried() -> None:
    assert list(DIFFERENT) == [field.name for field in fields(Checkpoint)]


@pytest.mark.parametrize("field", DIFFERENT)
def test_no_field_is_lost_in_json(field: str) -> None:
    assert through_json(DIFFERENT[field]) == DIFFERENT[field] != EMPTY


@pytest.mark.parametrize("field", DIFFERENT)
def test_only_position_and_scn_are_mere_movement(field: str) -> None:
    assert EMPTY.same_but_position(DIFFERENT[field]) == (field in MOVEMENT)
    assert DIFFERENT[field].same_but_position(EMPTY) == (field in MOVEMENT)


def test_a_mirror_is_written_by_its_state_and_its_generation() -> None:
    mirrors: dict[TableId, Mirror] = {ORDERS.table: Filling(7), ITEMS.table: Ready(9)}
    written = checkpoints.to_json(replace(EMPTY, mirrors=mirrors))["mirrors"]
    assert written == [["shop", "orders", "filling", 7], ["shop", "items", "ready", 9]]


def test_a_journal_of_before_these_were_kept_has_no_witnesses_and_no_xa_transactions() -> None:
    written = checkpoints.to_json(DIFFERENT["witnesses"])
    del written["witnesses"], written["prepared"], written["log_end"]
    assert checkpoints.from_json(written, {}) == EMPTY


def test_a_checkpoint_is_a_value() -> None:
    assert is_value(Checkpoint)
