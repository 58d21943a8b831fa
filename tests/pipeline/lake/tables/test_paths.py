"""Paths of the lake's tables: plain names, never shared."""

import re

from hypothesis import given
from hypothesis import strategies as st

from pipeline.lake.tables.paths import location
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import TableId


@given(
    names=st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), min_size=2, max_size=2, unique=True)
)
def test_paths_are_plain_and_never_shared(names: list[tuple[str, str]]) -> None:
    paths = [location("lake/", TableId(*name), Tier.MIRROR) for name in names]
    assert paths[0] != paths[1]
    for path in paths:
        assert re.fullmatch(
            r"lake/([A-Za-z0-9~-][A-Za-z0-9_~-]*)?/([A-Za-z0-9~-][A-Za-z0-9_~-]*)?/mirror", path
        )


def test_the_longest_names_have_paths_of_their_own_that_every_filesystem_takes() -> None:
    longest = "漢" * 63
    paths = {location("lake", TableId("d" * 64, longest + end), Tier.MIRROR) for end in "字漢あa"}
    assert len(paths) == 4
    for path in paths:
        assert all(len(name) <= 255 for name in path.split("/"))
        assert re.fullmatch(r"lake/d{64}/(~[0-9A-F]{2})+~?[0-9A-F]?~~[0-9a-f]{32}/mirror", path)
