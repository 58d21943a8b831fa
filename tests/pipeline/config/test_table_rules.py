"""Rules of the lake: which one holds for a table."""

from pipeline.config.table_rules import PLAIN, LakeRule, SchemaChanges, Tiers, rule_of
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId

AUDIT = LakeRule(TableFilter(("shop\\.audit_.*",)), Tiers.CHANGELOG)
SHOP = LakeRule(TableFilter(("crm\\.a", "shop\\..*")), before_images=True)


def test_the_first_rule_that_matches_holds() -> None:
    assert rule_of((AUDIT, SHOP), TableId("shop", "audit_log")) is AUDIT
    assert rule_of((SHOP, AUDIT), TableId("shop", "audit_log")) is SHOP
    assert rule_of((AUDIT, SHOP), TableId("shop", "orders")) is SHOP


def test_a_table_that_no_rule_matches_is_kept_in_both_tiers_without_before_images() -> None:
    found = rule_of((AUDIT, SHOP), TableId("crm", "orders"))
    assert found is PLAIN
    assert (found.tiers, found.before_images) == (Tiers.BOTH, False)
    assert found.schema_changes is SchemaChanges.APPLY
