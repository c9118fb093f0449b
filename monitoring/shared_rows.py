"""Texts that `summary` and `status` share: reports, files that could not be compared, and how to build again."""

from __future__ import annotations

from bloomery.contracts.paths import RunPaths


def report_pages(paths: RunPaths) -> dict[str, str]:
    """Return the path of each report's page that exists, by the name of the report."""
    pages = {name: paths.report / f"{name}.html" for name in ("corpus", "tokenizer", "training")}
    return {name: page.as_posix() for name, page in pages.items() if page.is_file()}


def unreadable_text(files: list[str]) -> str:
    """Return a text for files that cannot be read, so that it is unknown whether an artefact is stale."""
    more = f" and {len(files) - 1:,} more" if len(files) > 1 else ""
    return f"{files[0]}{more} cannot be read, so an artefact may be out of date; restore or delete each of these files"


def rebuild_text(command: str | None, target: str | None) -> str:
    """Return how to build all stale artefacts again: the command if it is known, and otherwise the target to add."""
    return command or f"repeat the command that started the run with the target {target}"
