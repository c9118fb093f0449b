"""Compare the samples of a whole index with a plain concatenation of its documents."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from bloomery.base.errors import InputError, ResourceError
from bloomery.contracts.index import open_array, open_token_file, write_idx
from bloomery.contracts.sample_reader import SampleReader
from data_prep.formats.sidecar import sidecar_path
from data_prep.index.write_blend import quotas


def documents_of(run):
    """Map the number of every document to (id, language, tokens), read from the token files."""
    found = []
    for part in run.parts:
        prefix = run.index / "tokens" / part
        file = open_token_file(prefix)
        for row in pq.read_table(sidecar_path(prefix)).to_pylist():
            span = slice(row["first_token"], row["first_token"] + row["tokens"])
            found.append((row["id"], row["language"], file.tokens[span].tolist()))
    return dict(enumerate(found))


def files_below(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_training_samples_are_parts_of_the_concatenated_shuffled_documents(run):
    reader, documents = SampleReader(run.index), documents_of(run)
    length = reader.sequence_length
    streams = []
    for entry in reader.manifest.train:
        order = open_array(run.index, entry.documents).tolist()
        unique = entry.unique_documents
        epochs = [order[begin : begin + unique] for begin in range(0, len(order), unique)]
        assert all(sorted(epoch) == sorted(epochs[0]) for epoch in epochs[: entry.epochs])
        assert len(set(epochs[0])) == unique
        assert {documents[number][1] for number in order} == {entry.language}
        streams.append([token for number in order for token in documents[number][2]])
    taken = [0] * len(streams)
    for number in range(reader.train_samples):
        dataset, sample = reader.locate(number)
        assert sample == taken[dataset]
        taken[dataset] += 1
        entry = reader.manifest.train[dataset]
        start = int(open_array(run.index, entry.shuffle)[sample]) * length
        tokens = reader.train(number)
        assert tokens.dtype == np.int64
        assert tokens.tolist() == streams[dataset][start : start + length + 1]
        assert len(tokens) == length + 1
    assert dict(zip(reader.train_names, taken, strict=True)) == quotas(run.weights, reader.train_samples)


def test_validation_samples_are_held_out_documents_in_corpus_order(run):
    reader, documents = SampleReader(run.index), documents_of(run)
    trained = {number for entry in reader.manifest.train for number in open_array(run.index, entry.documents).tolist()}
    assert reader.validation_names
    for entry in reader.manifest.validation:
        held_out = [
            (number, tokens)
            for number, (name, language, tokens) in sorted(documents.items())
            if language == entry.language and int(name[:16], 16) / 2**64 < 0.2
        ]
        assert not trained & {number for number, _ in held_out}
        stream = [token for _, tokens in held_out for token in tokens]
        available = (len(stream) - 1) // reader.sequence_length
        assert reader.validation_samples(entry.name) == min(8, available)
        for sample in range(reader.validation_samples(entry.name)):
            start = sample * available // min(8, available) * reader.sequence_length
            found = reader.validation(entry.name, sample).tolist()
            assert found == stream[start : start + reader.sequence_length + 1]


def test_the_same_inputs_give_the_same_bytes(own_run):
    before = files_below(own_run.index)
    own_run.build()
    assert files_below(own_run.index) == before


def test_another_seed_gives_other_arrays_and_removes_the_stale_ones(own_run):
    digest = SampleReader(own_run.index).manifest.digest
    (own_run.index / "arrays" / ("0" * 32)).mkdir()
    own_run.build(seed=8)
    manifest = SampleReader(own_run.index).manifest
    assert manifest.digest != digest
    assert [path.name for path in (own_run.index / "arrays").iterdir()] == [manifest.digest]


def test_arrays_that_the_disk_cannot_hold_are_refused_before_any_is_written(own_run):
    before = files_below(own_run.index)
    with pytest.raises(ResourceError, match="the arrays of 10000000000000 samples take"):
        own_run.build(train_samples=10**13)
    assert files_below(own_run.index) == before


def test_build_keeps_folders_that_it_did_not_make(own_run):
    theirs = own_run.index / "arrays" / "measurements"
    theirs.mkdir()
    own_run.build(seed=8)
    assert theirs.is_dir()


def test_a_language_is_trained_on_if_all_of_it_would_be_held_out(own_run):
    own_run.build(validation_share=1.0)
    reader = SampleReader(own_run.index)
    assert reader.validation_names == [], "if all documents would be held out, none is held out"
    assert {entry.unique_documents for entry in reader.manifest.train} == {21}


def test_a_short_language_repeats_until_it_fills_its_quota(own_run):
    own_run.build(sequence_length=2048, train_samples=400)
    reader = SampleReader(own_run.index)
    assert all(entry.epochs > 1 and entry.samples >= 1 for entry in reader.manifest.train)
    assert all(len(reader.train(number)) == 2049 for number in range(0, 400, 10))


def test_languages_outside_the_mixture_are_left_out(own_run):
    own_run.mixture.write_text(json.dumps({"languages": {"en": {"weight": 1.0}, "fr": {"weight": 0}}}))
    own_run.build()
    assert SampleReader(own_run.index).train_names == ["en"]


def test_a_mixture_without_text_is_an_error(own_run):
    own_run.mixture.write_text(json.dumps({"languages": {"zu": {"weight": 1.0}}}))
    with pytest.raises(InputError, match="no document to train on"):
        own_run.build()


def test_tokens_of_another_tokenizer_are_refused(own_run):
    own_run.tokenizer.write_text(own_run.tokenizer.read_text() + "\n")
    with pytest.raises(InputError, match="another tokenizer"):
        own_run.build()


def test_a_swapped_token_file_is_refused(own_run):
    tokens = own_run.index / "tokens/s"
    for suffix in (".bin", ".idx"):
        (tokens / f"00000{suffix}").rename(tokens / f"swap{suffix}")
        (tokens / f"00002{suffix}").rename(tokens / f"00000{suffix}")
    with pytest.raises(InputError, match="sidecar"):
        own_run.build()


@pytest.mark.parametrize(("length", "what"), [(-5, "out of range"), (7, "tokens")])
def test_a_damaged_length_is_refused(own_run, length, what):
    path = own_run.index / "tokens/s/00000.idx"
    data = bytearray(path.read_bytes())
    assert int.from_bytes(data[34:38], "little") != length
    data[34:38] = length.to_bytes(4, "little", signed=True)
    path.write_bytes(data)
    with pytest.raises(InputError, match=what):
        own_run.build()


def test_a_sidecar_without_digests_is_refused(own_run):
    path = sidecar_path(own_run.index / "tokens/s/00000").with_suffix(".json")
    manifest = json.loads(path.read_text())
    del manifest["counts"]["idx_digest"]
    path.write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="states no digests"):
        own_run.build()


def test_more_samples_only_append_to_what_a_dataset_reads(own_run):
    def orders():
        reader = SampleReader(own_run.index)
        found = {}
        for entry in reader.manifest.train:
            arrays = (open_array(own_run.index, each) for each in (entry.documents, entry.shuffle))
            found[entry.name] = [array.tolist() for array in arrays]
        return found

    short = orders()
    own_run.build(train_samples=2100)
    long = orders()
    assert all(len(long[name][1]) > len(short[name][1]) for name in ("en", "fr", "hi"))
    for name, (documents, shuffle) in long.items():
        before = short[name]
        assert (documents[: len(before[0])], shuffle[: len(before[1])]) == tuple(before)


def test_int32_token_files_give_the_same_samples_as_uint16_ones(own_run):
    """Adopted files may be int32 although the vocabulary would fit into uint16."""
    prefix = own_run.index / "tokens/s/00000"
    file = open_token_file(prefix)
    lengths, tokens = np.array(file.lengths), np.array(file.tokens)
    before = [SampleReader(own_run.index).train(number).tolist() for number in range(50)]
    prefix.with_name("00000.bin").write_bytes(tokens.astype("<i4").tobytes())
    write_idx(prefix.with_name("00000.idx"), lengths, np.dtype("<i4"))
    own_run.build()
    assert [SampleReader(own_run.index).train(number).tolist() for number in range(50)] == before


@pytest.mark.parametrize("epochs", [1.0, 2.5])
def test_a_length_in_epochs_reads_the_training_tokens_so_often(own_run, epochs):
    own_run.build(train_samples=1, epochs={"train_epochs": epochs, "batch": {"global_batch_size": 4}})
    manifest = SampleReader(own_run.index).manifest
    tokens = sum(entry.unique_tokens for entry in manifest.train)
    read = manifest.train_samples * manifest.sequence_length
    assert 0 <= epochs * tokens - read <= 5 * manifest.sequence_length
    assert manifest.train_samples % 4 == 0


def test_a_dataset_without_weight_does_not_lengthen_an_epoch(own_run):
    length = {"train_epochs": 1.0, "batch": {"global_batch_size": 1}}
    own_run.build(train_samples=1, epochs=length, blend=[{"weights": {"fr": 1.0}}])
    manifest = SampleReader(own_run.index).manifest
    (french,) = manifest.train
    assert manifest.train_samples == (french.unique_tokens - 1) // manifest.sequence_length


def test_epochs_that_are_too_short_for_the_batch_or_the_blend_are_refused(own_run):
    length = {"train_epochs": 0.001, "batch": {"global_batch_size": 64}}
    with pytest.raises(InputError, match="do not fill the first batch of 64 samples"):
        own_run.build(train_samples=1, epochs=length)
    length = {"train_epochs": 1.0, "batch": {"global_batch_size": 4}}
    late = [{"spread_to": 10**6}, {"from_sample": 10**6}]
    with pytest.raises(InputError, match="the training reads only"):
        own_run.build(train_samples=1, epochs=length, blend=late)
    with pytest.raises(InputError, match="is less than"):
        own_run.build(train_samples=1, epochs=length, blend=[{"spread_to": 8}])
