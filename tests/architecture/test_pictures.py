"""Pictures of the flow are drawn from the topology, and those in the documents are the present ones."""

from pathlib import Path

import pytest

from docs.draw import BEGIN, CONTACTS, END, WORLD, drawn, mermaid
from pipeline.messages.topology import EDGES, ActorName

ROOT = Path(__file__).parents[2]


def documents() -> list[Path]:
    everywhere = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return [path for path in everywhere if BEGIN in path.read_text(encoding="utf-8")]


def test_the_picture_shows_every_actor_edge_and_message() -> None:
    lines = mermaid().splitlines()
    for edge in EDGES:
        (line,) = [
            line
            for line in lines
            if line.startswith(f"    {edge.sender} ")
            and line.endswith(f"| {edge.receiver}")
            and all(message.__name__ in line for message in edge.messages)
        ]
        assert f"at most {edge.bound}" in line
    assert {end for contact in CONTACTS for end in contact} - set(ActorName) == set(WORLD)


def test_documents_show_the_present_picture() -> None:
    for path in documents():
        text = path.read_text(encoding="utf-8")
        assert drawn(text) == text, f"python -m docs.draw {path.relative_to(ROOT)}"


def test_only_what_is_between_the_markers_is_replaced() -> None:
    text = drawn(f"before\n{BEGIN}\nan old picture\n{END}\nafter\n")
    assert text.startswith(f"before\n{BEGIN}\n")
    assert text.endswith(f"{END}\nafter\n")
    assert "old" not in text
    assert drawn(text) == text
    with pytest.raises(ValueError, match="has no"):
        drawn("nothing to replace")
