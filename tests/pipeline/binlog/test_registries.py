"""What the stream remembers, and the compiled parser looks up."""

from pipeline.binlog.registries import TableMapRegistry, TsidRegistry
from pipeline.gtid.gtid_set import Tsid
from pipeline.messages.row_images import TableUnreadable
from pipeline.schema.table_schema import TableId

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
    content, ends, captured, slots = maps.known
    assert [content[ends[n] : ends[n + 1]].tobytes() for n in range(1000)] == described
    assert sorted(slots[slots >= 0].tolist()) == list(range(1000))
    assert len(slots) >= 2000
    assert captured[:1000].tolist() == [0, 1] * 500
    assert not maps.wants(0)
    assert maps.captured(1) == UNREADABLE
    maps.forget()
    assert (len(maps), maps.number(b"1")) == (0, None)
