"""Test the list of a run's checkpoints, the digest of a manifest, and the mark of a damaged checkpoint."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from bloomery.base.atomic import read_json, write_json
from bloomery.base.errors import InputError
from bloomery.base.self_digest import KEY
from bloomery.contracts.checkpoint import (
    DAMAGED_NAME,
    MANIFEST_NAME,
    CheckpointManifest,
    mark_damaged,
    newest_manifest,
    read_checkpoint,
    read_manifest,
    step_folders,
    step_name,
    write_manifest,
)
from bloomery.contracts.file_entry import FileEntry
from bloomery.contracts.sample_prefix import SamplePrefix


def test_an_unreadable_checkpoint_folder_raises_instead_of_listing_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(_folder: Path) -> None:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    assert step_folders(tmp_path / "none") == []
    monkeypatch.setattr(os, "scandir", gone)
    with pytest.raises(OSError, match="Stale"):
        step_folders(tmp_path)


def _manifest(iteration: int = 10) -> CheckpointManifest:
    return CheckpointManifest(
        identity="x",
        prefix=SamplePrefix(samples=0, stages=[], datasets={}),
        # Nested keys and texts that look like the manifest's own digest must not be taken for it.
        config={KEY: "0" * 32, "text": f'\n  "{KEY}": "{"0" * 32}",\n'},
        iteration=iteration,
        consumed_samples=80,
        consumed_tokens=0,
        tensor_parallel=1,
        pipeline_parallel=1,
        data_parallel=1,
        vocabulary_size=1,
        vocabulary_rows=1,
        layers=1,
        versions={"torch": "2.13"},
        files={"é": FileEntry(bytes=1, sha256="0" * 64)},
    )


def test_one_changed_byte_anywhere_in_a_manifest_is_found(tmp_path: Path) -> None:
    write_manifest(tmp_path, _manifest())
    path = tmp_path / MANIFEST_NAME
    whole = path.read_bytes()
    assert read_checkpoint(tmp_path) == _manifest()
    for position, byte in enumerate(whole):
        # Besides one flipped bit, write in turn a space, a line feed, a digit, another case, and an invalid byte.
        other = (32, 10, 48 + (byte + 1) % 10, byte ^ 0x20, 0xFF)[position % 5]
        for changed in {byte ^ 1, other} - {byte}:
            path.write_bytes(whole[:position] + bytes([changed]) + whole[position + 1 :])
            with pytest.raises(InputError):
                read_checkpoint(tmp_path)
    other_iteration = whole.replace(b'"iteration": 10', b'"iteration": 11')
    for content in (whole + b"\n", whole[:-1], whole.replace(b"\n", b"\r\n"), other_iteration):
        path.write_bytes(content)
        with pytest.raises(InputError, match="changed after it was written"):
            read_checkpoint(tmp_path)


def test_a_manifest_of_an_older_version_has_no_digest_and_is_read(tmp_path: Path) -> None:
    write_json(tmp_path / MANIFEST_NAME, _manifest().model_dump(mode="json"))
    assert read_checkpoint(tmp_path) == _manifest()


def test_a_rewritten_manifest_gets_a_new_digest(tmp_path: Path) -> None:
    write_manifest(tmp_path, _manifest())
    first = read_json(tmp_path / MANIFEST_NAME)
    write_manifest(tmp_path, read_checkpoint(tmp_path).model_copy(update={"iteration": 11}))
    assert read_checkpoint(tmp_path).iteration == 11
    assert read_json(tmp_path / MANIFEST_NAME)[KEY] != first[KEY]


def test_every_reader_skips_a_checkpoint_that_is_marked_as_damaged(tmp_path: Path) -> None:
    for iteration in (10, 20):
        folder = tmp_path / step_name(iteration)
        folder.mkdir()
        write_manifest(folder, _manifest(iteration))
    assert newest_manifest(tmp_path) == read_manifest(folder)
    mark_damaged(folder, "the logits differ")
    newest = newest_manifest(tmp_path)
    assert newest is not None
    assert newest.iteration == 10
    with pytest.raises(InputError, match="marked as damaged: the logits differ") as caught:
        read_checkpoint(folder)
    assert caught.value.expected is not None
    assert f"delete its file {DAMAGED_NAME}" in caught.value.expected
    assert read_manifest(folder).iteration == 20
    (folder / DAMAGED_NAME).write_text("{")
    with pytest.raises(InputError, match="marked as damaged"):
        read_checkpoint(folder)
    (folder / DAMAGED_NAME).unlink()
    assert read_checkpoint(folder).iteration == 20
