"""Test what publishing refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from hostile_run import make_hostile_run

from bloomery.base.errors import InputError
from bloomery.contracts.result import Place
from export.publish import publish_run


def test_a_model_whose_origin_cannot_be_read_is_not_published(tmp_path: Path) -> None:
    run = make_hostile_run(tmp_path)
    place = Place.of(run.paths.results / "publish" / "tiny-bloom.json")
    manifest = run.paths.corpus / "clean/books/00000.json"
    manifest.write_text(manifest.read_text()[:-9])
    with pytest.raises(InputError, match="nothing was published, because a file of the corpus cannot be read") as found:
        publish_run(run.publish, run.paths, place)
    assert found.value.where == str(manifest)
