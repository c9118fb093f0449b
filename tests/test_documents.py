"""Test that the documents agree with the repository and with each other."""

from __future__ import annotations

import importlib.util
import re
import xml.etree.ElementTree as ElementTree

import pytest
from repository import ROOT

NO_ASSUMPTIONS = {"CHANGELOG.md", "config/README.md"}
"""Pages that need no line about what they assume: a list of changes, and the reference of all keys."""


@pytest.fixture(scope="module")
def site():
    specification = importlib.util.spec_from_file_location("site_hooks", ROOT / "docs/site_hooks.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_every_link_leads_to_a_file_and_a_heading_that_exist(site) -> None:
    pages = [str(page) for page in site.page_paths()]
    assert {"README.md", "csrc/README.md", "docs/how-to/corpus.md", "docs/models/tr11-176b.md"} <= set(pages)
    assert sum(len(site.links((ROOT / page).read_text())) for page in pages) > 100
    assert site.broken_links() == []


def test_broken_links_and_anchors_are_found(site, tmp_path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/there.md").write_text("# A heading, with `code` and [a link](https://example.org)\n")
    (tmp_path / "README.md").write_text(
        "[a](docs/there.md#a-heading-with-code-and-a-link) ![b](docs/absent.svg)\n"
        "[c](docs/there.md#absent) [d](#absent)\n"
        "`[not](a-link.md)`\n\n```\n[nor](this-one.md)\n```\n"
    )
    assert site.broken_links(tmp_path) == [
        "README.md: docs/absent.svg: no such file",
        "README.md: docs/there.md#absent: no such heading",
        "README.md: #absent: no such heading",
    ]


def test_every_document_says_at_its_top_what_it_assumes(site) -> None:
    for page in site.page_paths():
        top = "\n".join((ROOT / page).read_text(encoding="utf-8").splitlines()[:20])
        assert "**Assumes:**" in top or str(page) in NO_ASSUMPTIONS, page


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


@pytest.mark.parametrize("page", ["docs/how-to-add.md", "docs/glossary.md", "docs/reference.md", "docs/design.md"])
def test_files_that_a_document_names_exist(page) -> None:
    folders = "bloomery|data_prep|training|export|monitoring|planner|csrc|config|tests|bench|workflow|docs"
    text = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(rf"`((?:{folders})/[\w./-]+\.(?:py|pyi|md|smk|toml|cpp|hpp|yaml))`", text)
    created = {"data_prep/corpus/sources/mykind.py", "tests/data_prep/corpus/sources/test_mykind.py"}
    assert len(named) > 5
    assert {path for path in named if not (ROOT / path).is_file()} <= created


def test_the_picture_of_the_architecture_stands_alone_in_light_and_dark() -> None:
    text = (ROOT / "docs/architecture.svg").read_text(encoding="utf-8")
    picture = ElementTree.fromstring(text)
    tags = {element.tag.rpartition("}")[2] for element in picture.iter()}
    assert {"title", "desc", "rect"} <= tags
    assert not tags & {"image", "script", "foreignObject", "use"}
    assert "prefers-color-scheme: dark" in text
    assert not re.search(r"(href|src)=|url\(http|@import", text)


def test_no_document_refers_to_what_is_not_in_the_repository(site) -> None:
    dangling = ("founding document", "design/style", "design/house", "house decision")
    folders = (
        "bloomery",
        "data_prep",
        "training",
        "export",
        "monitoring",
        "planner",
        "workflow",
        "bench",
        "csrc",
        "config",
    )
    sources = [
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".yaml", ".toml", ".smk", ".cpp", ".hpp", ".pyi"}
    ]
    assert len(sources) > 300
    for path in [*sources, *(ROOT / page for page in site.page_paths())]:
        text = path.read_text(encoding="utf-8")
        assert not [words for words in dangling if words in text], path
        assert "issue " not in text or not re.search(r"\bissue \d", text), path
