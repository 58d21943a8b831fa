"""MkDocs' hook: what the docs link to outside of docs/ becomes pages of the site, so that no link leaves it.

README, changelog and the like are pages of their own. Any other file that a page links to, mostly a module or a test,
becomes a page below `source/` that shows its text. Links are rewritten accordingly.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[2]

# Files of the repository that are pages by themselves.
PAGES: Final = {
    "README.md": "index.md",
    "docs/README.md": "questions.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "deploy/helm/tidemark/README.md": "chart.md",
}

_LINK: Final = re.compile(r"\]\((?!\w+:|#|<)([^)#\s]+)(#[^)\s]*)?\)")
_LANGUAGES: Final = {
    ".py": "python",
    ".toml": "toml",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".json": "json",
    ".sql": "sql",
}
# Longer than any row of backticks in a file that is shown.
_FENCE: Final = "`````"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that aren't in docs/, and those that they link to in turn."""
    known = {f"docs/{file.src_uri}" for file in files}
    waiting = [*sorted(path for path in known if path.endswith(".md")), *PAGES]
    while waiting:
        document = waiting.pop()
        text = (ROOT / document).read_text(encoding="utf-8")
        if document in PAGES:
            files.append(File.generated(config, PAGES[document], content=text))
        for target in _targets(document, text):
            if target not in known and target not in PAGES and (ROOT / target).is_file():
                known.add(target)
                files.append(File.generated(config, place_of(target), content=page_of(target)))
                if target.endswith(".md"):
                    waiting.append(target)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - MkDocs' call
    """Have a page's links lead to the places that documents have in the site."""
    return rewritten(document_of(page.file.src_uri), markdown)


def document_of(place: str) -> str:
    """Returns the file of the repository that a page is made of; the opposite of `place_of`."""
    outside = {page: document for document, page in PAGES.items()}
    if place in outside:
        return outside[place]
    if place.startswith("source/"):
        path = place.removeprefix("source/")
        return path if (ROOT / path).is_file() else path.removesuffix(".md")
    return f"docs/{place}"


def place_of(document: str) -> str:
    """Returns the page of a file of the repository."""
    if document in PAGES:
        return PAGES[document]
    if document.startswith("docs/") and not document.endswith(".py"):
        return document.removeprefix("docs/")
    return f"source/{document}" if document.endswith(".md") else f"source/{document}.md"


def page_of(document: str) -> str:
    """Returns the Markdown of a file's page below `source/`."""
    text = (ROOT / document).read_text(encoding="utf-8")
    if document.endswith(".md"):
        return text
    language = _LANGUAGES.get(Path(document).suffix, "text")
    hidden = "---\nsearch:\n  exclude: true\n---\n"
    return f"{hidden}# {document}\n\n{_FENCE}{language}\n{text}\n{_FENCE}\n"


def rewritten(document: str, markdown: str) -> str:
    """Returns the text of a document with the links that its page has."""
    if not document.endswith(".md"):
        return markdown
    here = posixpath.dirname(place_of(document))

    def lead(link: re.Match[str]) -> str:
        target = _resolve(document, link[1])
        if not (ROOT / target).is_file():
            return link[0]  # MkDocs reports it
        return f"]({posixpath.relpath(place_of(target), here or '.')}{link[2] or ''})"

    return _LINK.sub(lead, markdown)


def _targets(document: str, text: str) -> Iterator[str]:
    """Yields the files of the repository that a document links to."""
    for link in _LINK.finditer(text):
        yield _resolve(document, link[1])


def _resolve(document: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(document), link))
