"""Draws the flow and the rooms into the documents that show them.

    python -m docs.draw README.md docs/architecture.md

replaces the text between each pair of markers by a Mermaid picture: of the topology (`pipeline.messages.topology`), or
of the rooms and their imports (`docs.rooms`). A test compares every document that has these markers with the code.
"""

import argparse
from pathlib import Path

from docs import rooms
from pipeline.messages.topology import EDGES, ActorName, Edge, WhenFull

BEGIN = "<!-- flow: begin (python -m docs.draw) -->"
END = "<!-- flow: end -->"

# What the actors have to do with outside: this has no mailbox, so it isn't in the topology.
WORLD = {
    "Signals": "REST, file, Kafka",
    "Log": "MySQL: binary log",
    "Tables": "MySQL: SELECT",
    "Journal": "journal: sealed segments",
    "Lake": "Delta tables: changelog, mirror",
    "Topics": "Kafka: a topic for each table",
}
CONTACTS = (
    ("Log", ActorName.BINLOG_READER),
    ("Tables", ActorName.CHUNK_SELECTOR),
    ("Signals", ActorName.SIGNAL_LISTENER),
    (ActorName.JOURNAL_WRITER, "Journal"),
    ("Journal", ActorName.SPARK_SINK),
    (ActorName.SPARK_SINK, "Lake"),
    ("Journal", ActorName.KAFKA_SINK),
    (ActorName.KAFKA_SINK, "Topics"),
)

_ARROWS = {WhenFull.WAIT: "-->", WhenFull.BOUNDED: "-.->", WhenFull.NEWEST: "==>"}


def mermaid() -> str:
    """The flow: solid where a sender waits, dotted where the protocol bounds it, thick where the newest counts."""
    lines = ["```mermaid", "flowchart LR"]
    lines += [f'    {actor}["{actor}"]' for actor in ActorName]
    lines += [f'    {name}[("{text}")]' for name, text in WORLD.items()]
    lines += [f"    {sender} --- {receiver}" for sender, receiver in CONTACTS]
    lines += [
        f'    {edge.sender} {_ARROWS[edge.when_full]}|"{_label(edge)}"| {edge.receiver}' for edge in EDGES
    ]
    return "\n".join([*lines, "```"])


def drawn(document: str) -> str:
    """The document with the present pictures between its markers. Raises ValueError where it has none for the flow."""
    document = replaced(document, BEGIN, END, mermaid())
    for top in rooms.TOPS:
        begin, end = room_markers(top)
        if begin in document:
            document = replaced(document, begin, end, rooms.mermaid(top))
    return document


def room_markers(top: str) -> tuple[str, str]:
    """The markers around the picture of the rooms of `pipeline` or `actors`."""
    return f"<!-- rooms of {top}: begin (python -m docs.draw) -->", f"<!-- rooms of {top}: end -->"


def replaced(document: str, begin: str, end: str, part: str) -> str:
    """The document with this part between the two markers. Raises ValueError where these are missing."""
    before, found, rest = document.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found or not found_end:
        raise ValueError(f"the document has no {begin} … {end}")
    return f"{before}{begin}\n\n{part}\n\n{end}{after}"


def _label(edge: Edge) -> str:
    names = "<br>".join(message.__name__ for message in edge.messages)
    size = "" if edge.bytes is None else f", or {edge.bytes >> 20} MiB"
    return f"{names}<br>at most {edge.bound}{size}"


def main() -> None:
    """Draw into the documents that the command line names."""
    parser = argparse.ArgumentParser(
        prog="python -m docs.draw", description="Draw the flow and the rooms into documents."
    )
    parser.add_argument("documents", nargs="+", type=Path, help="as README.md docs/architecture.md")
    for path in parser.parse_args().documents:
        path.write_text(drawn(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
