"""Test the reading of documents from datasets of the Hub."""

import json
from pathlib import Path

import pytest

from bloomery.base.errors import InputError
from bloomery.config.sources import HubSource
from data_prep.corpus.rows import BadRow, Row
from data_prep.corpus.sources.hub import read_hub

LIMIT = 10_000


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    folder = tmp_path / "dataset"
    folder.mkdir()
    rows = [{"text": f"row {number}", "lang": "fr"} for number in range(5)] + [{"text": "", "lang": "fr"}]
    (folder / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


@pytest.mark.slow
def test_a_dataset_folder_is_streamed_with_the_datasets_library(dataset: Path) -> None:
    source = HubSource(name="s", kind="hub", dataset=str(dataset), language_field="lang", max_documents=6)
    *rows, empty = read_hub(source, LIMIT)
    assert rows[0] == Row("train:1", "row 0", "fr", {})
    assert len(rows) == 5
    assert (type(empty), empty.reason) == (BadRow, "empty text")
    assert len(list(read_hub(source.model_copy(update={"max_documents": 2}), LIMIT))) == 2


@pytest.mark.slow
def test_a_dataset_saved_to_disk_is_read_from_its_folder(dataset: Path, tmp_path: Path) -> None:
    import datasets

    saved = datasets.Dataset.from_list([{"text": f"row {number}", "lang": "sw", "n": number} for number in range(3)])
    saved.save_to_disk(tmp_path / "one")
    datasets.DatasetDict({"train": saved, "test": saved.select([1])}).save_to_disk(tmp_path / "several")
    source = HubSource(name="s", kind="hub", dataset=str(tmp_path / "one"), language_field="lang", id_field="n")
    assert [row.key for row in read_hub(source, LIMIT) if isinstance(row, Row)] == ["0", "1", "2"]
    several = source.model_copy(update={"dataset": str(tmp_path / "several"), "split": "test", "id_field": None})
    assert list(read_hub(several, LIMIT)) == [Row("test:1", "row 1", "sw", {"n": 1})]
    with pytest.raises(InputError, match="split 'nope' cannot be read"):
        list(read_hub(several.model_copy(update={"split": "nope"}), LIMIT))


@pytest.mark.slow
def test_a_missing_dataset_or_split_is_an_input_error(dataset: Path) -> None:
    with pytest.raises(InputError, match=r"sources\[s\]\.dataset"):
        list(read_hub(HubSource(name="s", kind="hub", dataset=str(dataset), split="nope"), LIMIT))
    with pytest.raises(InputError):
        list(read_hub(HubSource(name="s", kind="hub", dataset=str(dataset / "none")), LIMIT))
