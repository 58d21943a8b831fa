"""The server's schemas, with and without those that statements altered while it was asked."""

from dataclasses import replace

from pipeline.schema.known_schemas import KnownSchemas
from pipeline.schema.table_traits import Traits
from tests.pipeline.builders import ITEMS, ORDERS, gtids


def test_what_is_settled_has_no_table_that_a_statement_altered() -> None:
    known = KnownSchemas(
        {each.table: each for each in (ORDERS, ITEMS)},
        gtids("a:1-9"),
        folds=False,
        refused={ORDERS.table: "so"},
        traits={each.table: Traits("innodb") for each in (ORDERS, ITEMS)},
    )
    assert known.settled is known
    settled = replace(known, unsettled=frozenset({ITEMS.table})).settled
    assert settled.schemas.keys() == settled.traits.keys() == {ORDERS.table}
    assert settled == replace(known, schemas=settled.schemas, traits=settled.traits)
