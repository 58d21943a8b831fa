"""Whether a statement's time zone may give two instants one local time."""

import pytest

from pipeline.schema.ddl.local_times import has_instants, may_move_instants
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types import column_types as t


@pytest.mark.parametrize("zone", ["", "+00:00", "-13:59", "+5:30", "UTC", "utc"])
def test_a_zone_whose_clock_never_goes_back_moves_no_instant(zone: str) -> None:
    assert not may_move_instants(zone, system_is_utc=False)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "MET", "Etc/GMT+5", "+00:00x"])
def test_any_other_zone_may(zone: str) -> None:
    assert may_move_instants(zone, system_is_utc=True)


def test_the_servers_own_zone_may_unless_it_is_utc() -> None:
    assert may_move_instants("SYSTEM", system_is_utc=False)
    assert not may_move_instants("SYSTEM", system_is_utc=True)


def test_only_a_timestamp_is_an_instant() -> None:
    columns = tuple(Column(kind.wire, kind, nullable=True) for kind in (t.DateTime(0), t.Date(), t.Time(3)))
    assert not has_instants(TableSchema(TableId("d", "t"), columns, ()))
    assert has_instants(TableSchema(TableId("d", "t"), (*columns, Column("ts", t.Timestamp(0), False)), ()))
