"""Options are read in any case, and each wrong one is named with its remedy."""

import pytest

from pipeline.gtid.gtid_set import GtidSet
from pipeline.lake.stream.source_options import (
    BYTES_PER_TRIGGER,
    SourceOptions,
    StreamBegin,
    WrongOption,
    check_read_once,
    parse_options,
    unknown_tables,
)
from pipeline.schema.table_schema import TableId

ORDERS, ITEMS = TableId("shop", "orders"), TableId("shop", "items")
LEAST = {"journal": "/j", "table": "shop.orders"}
GTIDS = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-23"


def test_what_is_left_out_has_a_default() -> None:
    assert parse_options(LEAST) == SourceOptions("/j", (ORDERS,), bytes=BYTES_PER_TRIGGER)
    assert parse_options({"journal": "/j", "tables": "shop.orders"}).several


def test_every_option_is_read_in_any_case() -> None:
    given = {
        "JOURNAL": " s3://bucket/journal ",
        "tables": "shop.orders, `shop`.items",
        "From": "12",
        "through": GTIDS,
        "schemasegment": "7",
        "restartedThrough": "6",
        "maxRowsPerTrigger": "1000",
        "consumer": "orders_stream",
    }
    assert parse_options(given) == SourceOptions(
        "s3://bucket/journal",
        (ORDERS, ITEMS),
        several=True,
        begins=12,
        through=GtidSet.parse(GTIDS),
        columns_at=7,
        restarted_through=6,
        rows=1000,
        bytes=None,
        consumer="orders_stream",
    )


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        ("Latest", StreamBegin.LATEST),
        ("earliest", StreamBegin.EARLIEST),
        ("1", 1),
        (GTIDS, GtidSet.parse(GTIDS)),
    ],
)
def test_a_stream_begins_at_an_end_or_at_a_place(text: str, begins: object) -> None:
    assert parse_options({**LEAST, "from": text}).begins == begins


@pytest.mark.parametrize(("text", "size"), [("1024", 1024), ("256m", 256 << 20), ("2GB", 2 << 30)])
def test_bytes_may_have_a_unit(text: str, size: int) -> None:
    assert parse_options({**LEAST, "maxBytesPerTrigger": text}).bytes == size


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, ["journal: it is missing; give the path", "table, tables: both are missing; give table ="]),
        ({**LEAST, "tables": "a.b"}, ["table, tables: both are given"]),
        ({**LEAST, "maxRowPerTriger": "1"}, ["no such option; did you mean maxRowsPerTrigger?"]),
        ({**LEAST, "colour": "1"}, ["colour: there is no such option; there are journal, table,"]),
        ({**LEAST, "path": "/x"}, ['path: load() was given a path; call .option("journal", …).load()']),
        ({"journal": "", "table": "shop.orders"}, ["journal: it is empty"]),
        ({"journal": "/j", "table": "orders"}, ["table: 'orders' isn't database.table; quote"]),
        (
            {"journal": "/j", "table": "a.b,a.c"},
            ["table: 'a.b,a.c' isn't", "give several as the option tables"],
        ),
        ({"journal": "/j", "tables": "a.b,"}, ["tables: '' isn't database.table; quote"]),
        ({"journal": "/j", "tables": "a.b,a.b"}, ["tables: a table is named twice; name each once"]),
        (
            {**LEAST, "from": "newest"},
            ["from: 'newest' is no place in the journal; give earliest, latest, an SCN"],
        ),
        ({**LEAST, "from": "0"}, ["from: '0' is no place"]),
        ({**LEAST, "through": "latest"}, ["through: 'latest' is no place in the journal; give an SCN"]),
        ({**LEAST, "through": ","}, ["through: the GTID set is empty"]),
        ({**LEAST, "schemaSegment": "-1"}, ["schemaSegment: '-1' isn't a whole number above 0"]),
        ({**LEAST, "maxRowsPerTrigger": "1e6"}, ["maxRowsPerTrigger: '1e6' isn't a whole number above 0"]),
        (
            {**LEAST, "maxBytesPerTrigger": "big"},
            ["maxBytesPerTrigger: 'big' isn't a number of bytes above 0"],
        ),
        ({**LEAST, "maxBytesPerTrigger": "1", "maxRowsPerTrigger": "1"}, ["maxRowsPerTrigger is given too"]),
        ({**LEAST, "consumer": "No"}, ["consumer: 'No' can't be a consumer's name; use a-z"]),
        ({**LEAST, "consumer": "lake"}, ["consumer: 'lake' is the service's own consumer; give a name"]),
    ],
)
def test_a_wrong_option_is_named(given: dict[str, str], said: list[str]) -> None:
    with pytest.raises(WrongOption) as refused:
        parse_options(given)
    assert all(each in str(refused.value) for each in said), str(refused.value)


def test_what_is_read_once_has_no_consumer() -> None:
    check_read_once(parse_options(LEAST))
    with pytest.raises(
        WrongOption, match=r"consumer: spark\.read .*; use spark\.readStream, or leave the option out"
    ):
        check_read_once(parse_options({**LEAST, "consumer": "reports"}))


def test_all_mistakes_come_at_once() -> None:
    with pytest.raises(WrongOption) as refused:
        parse_options({"jurnal": "x", "table": "y", "from": "z"})
    assert [line.partition(":")[0] for line in str(refused.value).splitlines()] == [
        "jurnal",
        "journal",
        "table",
        "from",
    ]


def test_an_unknown_table_is_named_with_the_closest() -> None:
    assert unknown_tables([ORDERS], [ORDERS, ITEMS], "/j") is None
    error = unknown_tables([TableId("shop", "ordrs"), TableId("x", "y")], [ORDERS, ITEMS], "/j")
    assert "shop.ordrs is no captured table of the journal in /j; did you mean shop.orders?" in str(error)
    assert "x.y is no captured table of the journal in /j; there are shop.items, shop.orders" in str(error)
    assert "there are none so far" in str(unknown_tables([ORDERS], [], "/j"))
