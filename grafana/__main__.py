"""Writes what Grafana reads, `grafana/dashboards/*.json`, and the tables of grafana/README.md, from the code.

    python -m grafana

A test holds both against the code.
"""

import json
from pathlib import Path
from typing import Final

from docs.draw import replaced
from grafana.actors import ACTORS
from grafana.boards import Board
from grafana.kafka import KAFKA
from grafana.lake import LAKE
from grafana.overview import OVERVIEW
from grafana.snapshots import SNAPSHOTS

FOLDER: Final = Path(__file__).parent
README: Final = FOLDER / "README.md"
BEGIN: Final = "<!-- dashboards: begin (python -m grafana) -->"
END: Final = "<!-- dashboards: end -->"

BOARDS: Final = (OVERVIEW, SNAPSHOTS, ACTORS, LAKE, KAFKA)


def written(board: Board) -> str:
    """The dashboard's file."""
    return json.dumps(board.json(), indent=2, ensure_ascii=False) + "\n"


def path(board: Board) -> Path:
    """Where its file is."""
    return FOLDER / "dashboards" / f"{board.name}.json"


def told() -> str:
    """For each dashboard a table of its panels: what each shows, which value is bad, what to do then."""
    lines: list[str] = []
    for board in BOARDS:
        lines += [f"## {board.name.capitalize()}", "", board.answers, ""]
        for row in board.rows:
            lines += [f"**{row.question}**", "", "| panel | shows | bad | then |", "|---|---|---|---|"]
            for panel in (builder.build() for builder in row.panels):
                shows, bad, then = (panel.description or "").split("\n\n")
                cells = [
                    panel.title or "",
                    shows,
                    bad.removeprefix("**Bad:** "),
                    then.removeprefix("**Then:** "),
                ]
                lines.append(f"| {' | '.join(cells)} |")
            lines.append("")
    return "\n".join(lines).rstrip()


def replaced_in(document: str) -> str:
    """The document with the present tables between its markers."""
    return replaced(document, BEGIN, END, told())


def main() -> None:
    """Write all of it."""
    for board in BOARDS:
        path(board).parent.mkdir(exist_ok=True)
        path(board).write_text(written(board), encoding="utf-8")
    document = README.read_text(encoding="utf-8")
    README.write_text(replaced_in(document), encoding="utf-8")


if __name__ == "__main__":
    main()
