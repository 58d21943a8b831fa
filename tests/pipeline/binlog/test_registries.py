"""What the stream remembers, and the compiled parser looks up."""

from dataclasses import replace

from pipeline.binlog.registries import TableMapRegistry, TsidRegistry
from pipeline.gtid.gtid_set import Tsid
from pipeline.messages.row_images import TableUnreadable
from pipeline.schema.table_map import MinimalMetadata, TableMap
from pipeline.schema.table_schema import TableId
from pipeline.types.column_types import Integer
from pipeline.types.field_types import FieldType, Storage

A = "0000000a-0000-0000-0000-000000000000"
UNREADABLE = TableUnreadable(TableId("shop", "orders"), "for a test")


def test_sources_are_numbered_as_they_come() -> None:
    sources = TsidRegistry()
    plain, tagged = Tsid(A), Tsid(A, "tag")
    assert [sources.number(source) for source in (plain, tagged, plain)] == [0, 1, 0]
    assert sources.all == (plain, tagged)
    assert sources.encoded[1].tobytes() == bytes.fromhex(A.replace("-", "")) + b"\x03tag" + bytes(29)


def test_maps_are_known_by_their_bytes() -> None:
    maps = TableMapRegistry()
    described = [b"%d" % (n * n) for n in range(1000)]
    for n, each in enumerate(described):
        assert maps.number(each) is None
        assert maps.add(each, UNREADABLE if n % 2 else None) == n
    assert [maps.number(each) for each in described] == list(range(1000))
    content, places, _, slots = maps.known
    ends = places[0]
    assert [content[ends[n] : ends[n + 1]].tobytes() for n in range(1000)] == described
    assert sorted(slots[slots >= 0].tolist()) == list(range(1000))
    assert len(slots) >= 2000
    assert (places[1, :1000] >= 0).tolist() == [False, True] * 500
    assert not maps.wants(0)
    assert maps.captured(1) == UNREADABLE
    maps.forget()
    assert (len(maps), maps.number(b"1")) == (0, None)


def test_maps_have_the_forms_of_their_columns() -> None:
    """One that isn't captured has none, and neither has one that can't be read."""
    maps, kind = TableMapRegistry(), Integer(4, unsigned=False)
    two = TableMap(
        TableId("shop", "two"), (kind,) * 2, (Storage(FieldType.LONG, 0),) * 2, (True,) * 2, MinimalMetadata()
    )
    three = replace(two, types=(kind,) * 3, storage=(Storage(FieldType.TINY, 0),) * 3, nullable=(True,) * 3)
    odd = replace(two, storage=(Storage(FieldType.LONG, 0), Storage(99, 0)))
    for n, each in enumerate((two, None, UNREADABLE, odd, three)):
        maps.add(b"%d" % n, each)
    forms = maps.known.forms.tolist()
    places = maps.known.places[1, :5].tolist()
    found = [None if at < 0 else forms[at + 1 : at + 1 + forms[at]] for at in places]
    assert found == [[4, 4], None, [], [], [1, 1, 1]]
