"""The docs' site is built strictly: each link of each page leads to a place that is there."""

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urldefrag

import pytest
import yaml

from deploy.site.outside_pages import PAGES, document_of, place_of, rewritten
from deploy.toolchain.cache import REPOSITORY
from tests.browser.chromium import WITHIN_MS, launched, page

SETTINGS = REPOSITORY / "deploy" / "site" / "mkdocs.yml"


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves a folder, and says nothing."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Links(HTMLParser):
    """What a page links to and loads, and the places in it that links can lead to."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.anchors: set[str] = {""}
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name == "id":
                self.anchors.add(value)
            elif value and name == "href":
                (self.links if tag == "a" else self.loads).add(value)
            elif value and name == "src":
                self.loads.add(value)


def build(into: Path, settings: Path = SETTINGS) -> subprocess.CompletedProcess[str]:
    command: list[str | Path] = [sys.executable, "-m", "mkdocs", "build", "--config-file", settings]
    command += ["--site-dir", into]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "site"
    built = build(folder)
    assert built.returncode == 0, built.stderr
    return folder


def documents_in(site: Path) -> list[Path]:
    """The pages that are documents. Those of the source's text are long, and only the theme's links are in them."""
    return [
        path for path in (*site.glob("*.html"), *site.glob("source/**/README.html")) if path.stem != "404"
    ]


def broken(site: Path) -> Iterator[str]:
    """Yields what a page links to or loads, and isn't there."""
    pages = {path: Links(path) for path in documents_in(site)}
    for path, links in pages.items():
        for link in links.links | links.loads:
            if re.match(r"[a-z]+:", link):
                continue
            target, anchor = urldefrag(unquote(link))
            found = (path.parent / target).resolve() if target else path
            if found.is_dir():
                found /= "index.html"
            if not found.exists() or (found in pages and anchor not in pages[found].anchors):
                yield f"{path.relative_to(site)}: {link}"


def test_each_link_leads_to_what_is_there(site: Path) -> None:
    assert list(broken(site)) == []
    (site / "broken.html").write_text('<a href="none.html">a</a><a href="lake.html#none">b</a><p id="c">')
    assert sorted(broken(site)) == ["broken.html: lake.html#none", "broken.html: none.html"]
    (site / "broken.html").unlink()


def test_no_page_loads_anything_of_another_host(site: Path) -> None:
    loaded = Links(site / "index.html").loads | Links(site / "source/actors/spark_sink.py.html").loads
    assert len(loaded) > 5
    assert [load for load in loaded if "//" in load] == []


@pytest.mark.full
async def test_the_search_finds_a_word_in_a_browser(site: Path) -> None:
    handler = partial(QuietHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}/"
            async with launched() as browser, page(browser, url) as shown:
                await shown.goto(url)
                await shown.fill("input[data-md-component=search-query]", "read_your_writes")
                found = shown.locator(".md-search-result__link").first
                await found.wait_for(timeout=WITHIN_MS)
                assert "read-your-writes.html" in (await found.get_attribute("href") or "")
        finally:
            server.shutdown()
            thread.join()


def test_each_document_is_a_page_that_the_navigation_names(site: Path) -> None:
    documents = {path.name for path in (REPOSITORY / "docs").glob("*.md")} - {"README.md"} | set(
        PAGES.values()
    )
    named = set(re.findall(r"[\w-]+\.md", SETTINGS.read_text().partition("\nnav:")[2]))
    assert named == documents
    assert {path.with_suffix(".md").name for path in site.glob("*.html")} - {"404.md"} == documents
    # What a page quotes of the source is there as its own text.
    assert "SparkSink" in (site / place_of("actors/spark_sink.py")).with_suffix(".html").read_text()


def test_lists_and_tables_are_such(site: Path) -> None:
    for path in site.glob("*.html"):
        article = path.read_text(encoding="utf-8").partition("<article")[2].partition("</article>")[0]
        prose = re.sub(r"<pre.*?</pre>|<code>.*?</code>", "", article, flags=re.DOTALL)
        assert re.findall(r"<(?:p|li|td)>[^<]*\n *(?:[-*] |\| |\d+\. |```)", prose) == [], path.name


def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text("# A page\n\n[there](#a-page), [gone](gone.md), [far](#far)\n")
    settings = re.sub(r"docs_dir: .*", f"docs_dir: {docs}", SETTINGS.read_text().partition("\nnav:")[0])
    settings = re.sub(r"^(theme:\n(?:  .*\n)+|hooks: .*\n|plugins: .*\n)", "", settings, flags=re.MULTILINE)
    (tmp_path / "mkdocs.yml").write_text(settings)
    built = build(tmp_path / "site", tmp_path / "mkdocs.yml")
    assert built.returncode == 1
    assert "'gone.md'" in built.stderr and "'#far'" in built.stderr and "'#a-page'" not in built.stderr


@pytest.mark.parametrize(
    "document", [*PAGES, "docs/lake.md", "actors/spark_sink.py", "tests/chaos/README.md"]
)
def test_a_page_is_of_one_document(document: str) -> None:
    known = document in PAGES or (REPOSITORY / document).exists()
    assert not known or document_of(place_of(document)) == document


def test_links_lead_to_pages() -> None:
    text = "[a](../README.md#x) [b](lake.md) [c](../actors/spark_sink.py) [d](https://example.org/x.md) [e](none.md)"
    assert rewritten("docs/verify.md", text) == (
        "[a](index.md#x) [b](lake.md) [c](source/actors/spark_sink.py.md) [d](https://example.org/x.md) [e](none.md)"
    )
    assert rewritten("actors/spark_sink.py", text) == text


def test_the_settings_are_as_strict_as_they_can_be() -> None:
    checks = re.search(r"^validation:\n((?:  .*\n)+)", SETTINGS.read_text(), re.MULTILINE)
    assert checks is not None and set(yaml.safe_load(checks[1]).values()) == {"warn"}
    assert "\nstrict: true\n" in SETTINGS.read_text()
