"""Hooks of MkDocs (mkdocs.yml), and the functions by which tests check links between the Markdown files.

MkDocs expects all pages in one folder. The pages of this repository are in several folders and link to each other by
relative paths. The hooks therefore use the paths of the repository as the paths of the site. Other files that a page
links to, such as a configuration, are copied into the site.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parents[1]
FOLDERS = ("docs", "config", "csrc", "bench")
"""Folders whose Markdown files are pages, in addition to the files of the repository's root."""

_FENCE = re.compile(r"^(```|~~~).*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
_INLINE_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\]\(\s*<?([^)>\s]+)>?[^)]*\)")
_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t]*#*$", re.MULTILINE)
_LINKED_TEXT = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")


def page_paths(root: Path = ROOT) -> list[Path]:
    """Return the paths of all pages, relative to `root`."""
    found = [*root.glob("*.md"), *(path for folder in FOLDERS for path in (root / folder).rglob("*.md"))]
    return sorted(path.relative_to(root) for path in found)


def slug(heading: str, separator: str = "-") -> str:
    """Return the anchor of a heading's plain text, as GitHub computes it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings of a page."""
    headings = _HEADING.findall(_FENCE.sub("", text))
    return {slug(_LINKED_TEXT.sub(r"\1", heading)) for heading in headings}


def links(text: str) -> list[str]:
    """Return the targets of a page's links and images, except those with a URL scheme such as `https:`."""
    targets = _LINK.findall(_INLINE_CODE.sub("``", _FENCE.sub("", text)))
    return [target for target in targets if not re.match(r"[a-z][a-z0-9+.-]*:", target)]


def broken_links(root: Path = ROOT) -> list[str]:
    """Return a line for each link to a file or an anchor that does not exist."""
    problems = []
    for page in page_paths(root):
        for target in links((root / page).read_text(encoding="utf-8")):
            path, _, anchor = target.partition("#")
            found = (root / page).parent / path if path else root / page
            if not found.is_file():
                problems.append(f"{page}: {target}: no such file")
            elif anchor and anchor not in anchors(found.read_text(encoding="utf-8")):
                problems.append(f"{page}: {target}: no such heading")
    return problems


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Give headings the anchors that links in the repository use."""
    config.mdx_configs["toc"] = {"slugify": slug, "permalink": "#"}
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace the files of docs/ by all pages of the repository and the files that they link to."""
    from mkdocs.structure.files import File
    from mkdocs.structure.files import Files as AllFiles

    docs = Path(config.docs_dir).resolve()
    chosen = [file for file in files if file.src_dir is None or Path(file.src_dir).resolve() != docs]
    pages = page_paths()
    linked = {
        ((ROOT / page).parent / target.partition("#")[0]).resolve().relative_to(ROOT)
        for page in pages
        for target in links((ROOT / page).read_text(encoding="utf-8"))
        if not target.startswith("#")
    }
    for path in sorted({*pages, *linked}):
        if (ROOT / path).is_file():  # MkDocs reports links to missing files.
            chosen.append(File(path.as_posix(), str(ROOT), config.site_dir, config.use_directory_urls))
    return AllFiles(chosen)
