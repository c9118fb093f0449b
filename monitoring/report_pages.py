"""Find the pages of a run's reports."""

from __future__ import annotations

from bloomery.contracts.paths import RunPaths


def report_pages(paths: RunPaths) -> dict[str, str]:
    """Return the path of each report's page that exists, by the name of the report."""
    pages = {name: paths.report / f"{name}.html" for name in ("corpus", "tokenizer", "training")}
    return {name: page.as_posix() for name, page in pages.items() if page.is_file()}
