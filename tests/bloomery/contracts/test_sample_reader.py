"""Compare the sample reader with a naive concatenation of the documents, on an index written by hand."""

import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloomery.base.atomic import write_json
from bloomery.base.errors import BloomeryError, InputError, TryAgainError
from bloomery.contracts import sample_reader
from bloomery.contracts.index import write_idx
from bloomery.contracts.sample_reader import SampleRangeError, SampleReader

DOCUMENTS = st.lists(st.lists(st.integers(0, 400), min_size=1, max_size=6), min_size=1, max_size=4)


def write_array(folder, name, values, dtype):
    array = np.array(values, dtype)
    np.save(folder / f"{name}.npy", array)
    return {"path": f"{name}.npy", "dtype": str(array.dtype), "shape": list(array.shape), "digest": ""}


def write_index(folder, files, order, sequence_length, shuffle, starts=None):
    """Write an index whose dataset `en` serves training and validation, and open it.

    `files` lists the documents of each token file. `order` lists (file, document) pairs.
    """
    entries = []
    for number, documents in enumerate(files):
        np.array([token for tokens in documents for token in tokens], "<u2").tofile(folder / f"{number}.bin")
        write_idx(folder / f"{number}.idx", np.array([len(tokens) for tokens in documents], np.int32), np.dtype("<u2"))
        digests = dict.fromkeys(("bin_digest", "idx_digest", "sidecar_digest"), "")
        entries.append({"prefix": str(number), "documents": len(documents), "tokens": 0, **digests})
    first = [sum(map(len, files[:number])) for number in range(len(files))]
    owner = [(position, at) for position, (f, d) in enumerate(order) for at in range(len(files[f][d]))]
    dataset = {
        "name": "en",
        "language": "en",
        "unique_documents": 0,
        "unique_tokens": 0,
        "epochs": 1,
        "samples": len(shuffle),
        "identity": "",
        "documents": write_array(folder, "documents", [first[file] + document for file, document in order], np.uint32),
        "sample_starts": write_array(folder, "starts", starts or owner[::sequence_length], np.uint32),
        "shuffle": write_array(folder, "shuffle", shuffle, np.uint32),
    }
    index = {
        "format": 2,
        "digest": "",
        "sequence_length": sequence_length,
        "vocabulary_size": 401,
        "end_of_document": 2,
        "tokenizer_digest": "",
        "token_files": entries,
        "train": [dataset],
        "validation": [dataset],
        "blend_dataset": write_array(folder, "blend_dataset", [0] * len(shuffle), np.int32),
        "blend_sample": write_array(folder, "blend_sample", range(len(shuffle)), np.int64),
        "train_samples": len(shuffle),
        "stages": [],
        "shares": {"en": 1.0},
    }
    write_json(folder / "index.json", index)
    return SampleReader(folder)


@given(files=st.lists(DOCUMENTS, min_size=1, max_size=4), sequence_length=st.integers(1, 9), random=st.randoms())
def test_samples_are_the_concatenation_of_the_documents(tmp_path_factory, files, sequence_length, random):
    order = [(number, document) for number, documents in enumerate(files) for document in range(len(documents))]
    random.shuffle(order)
    stream = [token for number, document in order for token in files[number][document]]
    shuffle = list(range((len(stream) - 1) // sequence_length))
    random.shuffle(shuffle)
    reader = write_index(tmp_path_factory.mktemp("x"), files, order, sequence_length, shuffle)
    assert reader.train_samples == reader.validation_samples("en") == len(shuffle)
    for number, sample in enumerate(shuffle):
        wanted = stream[sample * sequence_length : (sample + 1) * sequence_length + 1]
        for found in (reader.train(number), reader.validation("en", number)):
            assert found.dtype == np.int64
            assert found.tolist() == wanted


@pytest.fixture
def reader(tmp_path):
    return write_index(tmp_path, [[[5, 6, 7, 2]], [[8, 2], [9, 2]]], [(1, 0), (0, 0), (1, 1)], 3, [1, 0])


def test_the_reader_lists_its_datasets(reader):
    assert reader.train_names == reader.validation_names == ["en"]
    assert reader.train(0).tolist() == [6, 7, 2, 9]


@pytest.mark.parametrize("number", [-1, 2, 10**12])
def test_a_sample_number_out_of_range_raises_sample_range_error(reader, number):
    with pytest.raises(SampleRangeError, match="0 to 1"):
        reader.train(number)
    with pytest.raises(IndexError):
        reader.validation("en", number)
    assert issubclass(SampleRangeError, BloomeryError)


def test_an_unknown_validation_set_is_refused_with_the_known_names(reader):
    with pytest.raises(SampleRangeError, match="one of en"):
        reader.validation("fr", 0)


def test_samples_beyond_the_documents_are_refused(tmp_path):
    reader = write_index(tmp_path, [[[5, 2]]], [(0, 0)], 3, [0], starts=[(0, 0), (0, 1)])
    with pytest.raises(InputError, match="need more documents than the index lists"):
        reader.train(0)


def test_the_number_of_open_token_files_is_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(sample_reader, "OPEN_TOKEN_FILES", 2)
    files = [[[number, 2]] for number in range(10)]
    reader = write_index(tmp_path, files, [(number, 0) for number in range(10)], 19, [0])
    assert reader.train(0).tolist() == [token for number in range(10) for token in (number, 2)]
    assert len(reader._open_files) == 2


def linked_index(tmp_path, name, token):
    """Write an index as a result of the workflow, and link the documented folder `index` to it."""
    folder, index = tmp_path / name, tmp_path / "index"
    folder.mkdir()
    write_index(folder, [[[token, 2]], [[token, 2]]], [(0, 0), (1, 0)], 2, [0])
    (folder / "token_files").mkdir()
    for path in [*folder.glob("*.bin"), *folder.glob("*.idx")]:
        path.rename(folder / "token_files" / path.name)
    manifest = (folder / "index.json").read_text()
    (folder / "index.json").write_text(manifest.replace('"prefix": "', '"prefix": "token_files/'))
    index.mkdir(exist_ok=True)
    (index / "index.json").unlink(missing_ok=True)
    (index / "index.json").symlink_to(folder / "index.json")
    return index


def test_an_open_reader_does_not_follow_the_links_to_a_new_index(tmp_path):
    reader = SampleReader(linked_index(tmp_path, "old", 5))
    index = linked_index(tmp_path, "new", 7)
    assert reader.train(0).tolist() == [5, 2, 5]
    assert SampleReader(index).train(0).tolist() == [7, 2, 7]


def test_a_reader_of_a_removed_index_reports_that_a_new_one_replaced_it(tmp_path):
    reader = SampleReader(linked_index(tmp_path, "old", 5))
    linked_index(tmp_path, "new", 7)
    shutil.rmtree(tmp_path / "old")
    with pytest.raises(TryAgainError, match=r"a new index replaced the index.*run the command again"):
        reader.train(0)


@pytest.mark.parametrize("suffix", [".bin", ".idx"])
def test_a_token_file_that_was_deleted_is_named_with_what_to_do(tmp_path, suffix):
    reader = SampleReader(linked_index(tmp_path, "old", 5))
    path = tmp_path / f"old/token_files/1{suffix}"
    path.unlink()
    with pytest.raises(InputError, match=r"token file was deleted.*start the workflow") as caught:
        reader.train(0)
    assert caught.value.where == str(path)


def test_a_folder_without_an_index_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        SampleReader(tmp_path)
