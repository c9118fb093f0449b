"""Test that the documents' site builds without a warning, can be searched, and loads nothing from another host."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest
from repository import ROOT

pytest.importorskip("mkdocs")
pytestmark = pytest.mark.slow

LOADING = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "object": "data"}
"""Elements that make a browser load something, with the attribute that names it."""


class Loads(HTMLParser):
    """Collect the addresses that a page loads, and its inline code."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.inline: list[str] = []
        self._within = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self._within = tag
        if tag in LOADING and (value := dict(attributes).get(LOADING[tag])):
            self.loaded.append(value)

    def handle_data(self, data: str) -> None:
        if self._within in {"script", "style"}:
            self.inline.append(data)

    def handle_endtag(self, _tag: str) -> None:
        self._within = ""


def elsewhere(address: str) -> bool:
    """Return whether a browser would request this address from another host."""
    return re.match(r"(https?:)?//", address) is not None


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_check_finds_what_other_hosts_would_be_asked_for() -> None:
    page = Loads('<script src="https://a.example/x.js"></script><link href="//b.example/f.css"><img src="here.png">')
    assert [address for address in page.loaded if elsewhere(address)] == ["https://a.example/x.js", "//b.example/f.css"]


def test_no_page_loads_anything_from_another_host(site) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    for path in pages:
        page = Loads(path.read_text(encoding="utf-8"))
        assert page.loaded, path
        assert not [address for address in page.loaded if elsewhere(address)], path
        assert not any(re.search(r"""["'(](https?:)?//\w""", code) for code in page.inline), path
    for path in site.rglob("*.css"):
        assert not re.search(r"""(url\(\s*["']?|@import\s+["'])(https?:)?//""", path.read_text("utf-8")), path


def test_every_local_file_that_a_page_loads_is_in_the_site(site) -> None:
    for path in site.rglob("*.html"):
        if path.name == "404.html":  # 404.html has absolute addresses, because a server shows it at any path.
            continue
        for address in Loads(path.read_text(encoding="utf-8")).loaded:
            assert (path.parent / address.partition("?")[0]).resolve().is_file(), (path, address)


def test_the_site_has_the_documents_and_the_search_knows_them(site) -> None:
    assert "Bloomery turns raw multilingual text" in (site / "index.html").read_text(encoding="utf-8")
    index = json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))
    places = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert {"docs/how-to/corpus.html", "docs/glossary.html", "config/index.html", "csrc/index.html"} <= places
    assert any(
        "quota" in entry["text"] for entry in index["docs"] if entry["location"].startswith("docs/glossary.html")
    )
