"""What is published: two sets of files, chosen by name, so that nothing private goes along.

The model is exactly what its parity.json speaks for. The logs are the training's logs, segments, reports and the
stages' parts of the configuration; `config/ingest/` stays at home, because it names the folders of the user's
own machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bloomery.base.errors import CheckFailedError
from bloomery.base.hub import LocalFile, contains_token
from bloomery.contracts.parity import PARITY_NAME, Parity, read_parity

if TYPE_CHECKING:
    from bloomery.contracts.paths import RunPaths


@dataclass(frozen=True)
class Bundle:
    """Files of one repository: path in it -> file."""

    name: str
    files: dict[str, LocalFile]
    mirror: bool
    """Whether the repository shall hold nothing else: a stale weight file beside new ones would be loaded."""


def model_bundle(folder: Path, name: str) -> tuple[Bundle, Parity]:
    """The exported model and its proof.

    Raises:
        InputError: there is no parity.json.
        CheckFailedError: parity does not hold, or a file is not the one that was verified.
    """
    parity = read_parity(folder)
    if not parity.passed:
        raise CheckFailedError(
            f"parity does not hold: {parity.max_difference:.3g}",
            where=str(folder / PARITY_NAME),
            expected=f"at most {parity.tolerance:g}; nothing is published without it",
        )
    files = {}
    for path, entry in parity.files.items():
        if not (folder / path).is_file():
            raise CheckFailedError("file is missing", where=str(folder / path), expected="as parity.json lists it")
        files[path] = LocalFile.of(folder / path)
        if files[path].sha256 != entry.sha256:
            raise CheckFailedError(
                "is not the file that was verified", where=str(folder / path), expected="export the model again"
            )
    files[PARITY_NAME] = LocalFile.of(folder / PARITY_NAME)
    return Bundle(name, files, mirror=True), parity


def logs_bundle(paths: RunPaths, name: str, run: str, model: str) -> Bundle:
    """Logs, segments, reports and configuration, with a page that says what they are."""
    files: dict[str, LocalFile] = {}
    for folder, prefix, pattern in (
        (paths.logs, "logs", "**/*"),
        (paths.segments, "segments", "*.json"),
        (paths.report, "report", "**/*"),
        (paths.config, "config", "*.json"),
    ):
        for path in sorted(folder.glob(pattern)):
            hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
            # A symbolic link may point at anything on this machine.
            if path.is_file() and not path.is_symlink() and not hidden and path.suffix != ".tmp":
                files[f"{prefix}/{path.relative_to(folder).as_posix()}"] = LocalFile.of(path)
    files["README.md"] = LocalFile.of(_logs_page(run, model).encode())
    return Bundle(name, files, mirror=False)


def _logs_page(run: str, model: str) -> str:
    return (
        "---\ntags:\n- tensorboard\n- bloomery\n---\n\n"
        f"# Logs of the run `{run}`\n\n"
        f"What the training of `{model}` said about itself.\n\n"
        "| folder | holds |\n|---|---|\n"
        "| `logs/` | `metrics.jsonl` (one record an iteration), `main_log.txt`, TensorBoard files |\n"
        "| `segments/` | why each piece of the training ended |\n"
        "| `report/` | pages about corpus, tokenizer and training |\n"
        "| `config/` | the configuration that each stage saw |\n"
    )


def refuse_token(bundle: Bundle, token: str) -> None:
    """Raise CheckFailedError when a file of the bundle holds the token."""
    for path, file in bundle.files.items():
        if contains_token(file.content, token):
            raise CheckFailedError(
                "holds the Hub token", where=path, expected="remove it and revoke that token; nothing was published"
            )
