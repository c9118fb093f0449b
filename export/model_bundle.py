"""Collect the files of an exported model that are published: parity.json and exactly the files that it lists."""

from __future__ import annotations

from pathlib import Path

from bloomery.base.bundle import Bundle, LocalFile
from bloomery.base.errors import CheckFailedError
from bloomery.contracts.parity import PARITY_NAME, Parity, read_parity
from bloomery.contracts.remote_code import refuse_remote_code
from bloomery.contracts.safe_path import refuse_outside


def model_bundle(folder: Path, name: str) -> tuple[Bundle, Parity]:
    """Return the files of the exported model, and the content of its parity.json.

    Raises:
        InputError: parity.json is missing, a file is a link to a place outside of the folder, or a configuration
            file names Python code that transformers would run.
        CheckFailedError: the exported model's logits differ too much from those of the training (parity.json), or a
            file is missing or differs from the verified file.
    """
    parity = read_parity(folder)
    if not parity.passed:
        raise CheckFailedError(
            f"parity does not hold: the logits of the exported model and of the training model differ by up to "
            f"{parity.max_difference:.3g} of the largest logit",
            where=str(folder / PARITY_NAME),
            expected=f"a difference of at most {parity.tolerance:g}; export the model again (bloomery export model)",
        )
    files: dict[str, LocalFile] = {}
    for path, entry in parity.files.items():
        if not (folder / path).is_file():
            raise CheckFailedError(
                "the file is missing, although parity.json lists it",
                where=str(folder / path),
                expected="every file that parity.json lists; export the model again (bloomery export model)",
            )
        refuse_outside(folder, folder / path)
        if path.endswith("config.json"):
            refuse_remote_code(folder / path)
        files[path] = LocalFile.of(folder / path)
        if files[path].sha256 != entry.sha256:
            raise CheckFailedError(
                "the file has changed since the exported model was verified",
                where=str(folder / path),
                expected="the verified file; export the model again (bloomery export model)",
            )
    files[PARITY_NAME] = LocalFile.of(folder / PARITY_NAME)
    return Bundle(name, files, mirror=True), parity
