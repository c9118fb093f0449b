"""Test the adoption of Megatron's token files: valid files that megatron-core's own builder wrote, and damaged
files."""

import hashlib
import json
import os
import struct
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from typer.testing import CliRunner

from bloomery.base.digest import digest_file
from bloomery.base.errors import InputError
from bloomery.config.stages import IndexStage
from bloomery.contracts.index import open_array, open_token_file, write_idx
from bloomery.contracts.index_manifest import IndexManifest
from data_prep.formats.shard import read_manifest
from data_prep.formats.sidecar import SIDECAR_SCHEMA, sidecar_path
from data_prep.index import adopt
from data_prep.index.adopt import adopt_tokens, prefix_of
from data_prep.index.build_index import build_index
from data_prep.index.cli import app
from data_prep.index.split_keys import id_hashes
from data_prep.index.verify_index import verify_index

END = "<|endoftext|>"
TEXTS = [
    "All human beings are born free and equal in dignity and rights.",
    "Tous les êtres humains naissent libres et égaux en dignité et en droits.",
    "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।",
    "人人生而自由,在尊严和权利上一律平等。",
    "",
    "All human beings are born free and equal in dignity and rights.",
    "  if x:\n\treturn 'é'\r\n" * 40,
]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a byte-level tokenizer like GPT-2's, with an end-of-document token that Bloomery's tokenizers lack."""
    folder = tmp_path_factory.mktemp("tokenizer")
    made = Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        TEXTS, trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False, special_tokens=[END])
    )
    made.add_tokens([AddedToken("naissent libres", special=False)])
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": END}))
    return folder / "tokenizer.json"


def encoded(tokenizer: Path, texts: list[str] = TEXTS) -> list[list[int]]:
    made = Tokenizer.from_file(str(tokenizer))
    return [[*made.encode(text).ids, made.token_to_id(END)] for text in texts]


def write_pair(prefix: Path, documents: list[list[int]], dtype: str = "<u2") -> Path:
    prefix.parent.mkdir(parents=True, exist_ok=True)
    prefix.with_name(f"{prefix.name}.bin").write_bytes(
        np.array([token for document in documents for token in document], dtype=dtype).tobytes()
    )
    lengths = np.array([len(document) for document in documents], dtype=np.int32)
    write_idx(prefix.with_name(f"{prefix.name}.idx"), lengths, np.dtype(dtype))
    return prefix


@pytest.fixture
def pair(tokenizer: Path, tmp_path: Path) -> Path:
    return write_pair(tmp_path / "theirs" / "my.corpus_text_document", encoded(tokenizer))


def adopted(pair: Path, tokenizer: Path, output: Path, **options: bool) -> dict[str, object]:
    return adopt_tokens(pair, tokenizer, "web", "fr", output, **options)["counts"]


def refused(pair: Path, tokenizer: Path, tmp_path: Path, match: str, **options: bool) -> InputError:
    output = tmp_path / "run" / "00000"
    with pytest.raises(InputError, match=match) as caught:
        adopted(pair, tokenizer, output, **options)
    assert not output.parent.exists() or not list(output.parent.iterdir())
    assert "my.corpus_text_document" in str(caught.value)
    return caught.value


@pytest.mark.parametrize("dtype", [np.uint16, np.int32])
def test_files_that_megatron_wrote_are_adopted(tokenizer: Path, tmp_path: Path, dtype: type) -> None:
    indexed = pytest.importorskip(
        "megatron.core.datasets.indexed_dataset",
        reason="megatron-core is not installed, so its writer cannot be compared",
    )
    import torch

    documents = encoded(tokenizer)
    builder = indexed.IndexedDatasetBuilder(str(tmp_path / "theirs.bin"), dtype=dtype)
    for document in documents:
        builder.add_document(torch.tensor(document), [len(document)])
    builder.add_document(
        torch.tensor([], dtype=torch.int64), []
    )  # Megatron's preprocessing adds this for an empty text
    builder.finalize(str(tmp_path / "theirs.idx"))
    counts = adopted(tmp_path / "theirs", tokenizer, tmp_path / "run" / "00000")
    assert counts["documents"] == len(documents)
    file = open_token_file(tmp_path / "run" / "00000")
    assert file.dtype == dtype
    ends = np.cumsum(file.lengths)
    assert [part.tolist() for part in np.split(file.tokens, ends[:-1])] == documents


def test_links_and_sidecar_describe_the_files(pair: Path, tokenizer: Path, tmp_path: Path) -> None:
    output = tmp_path / "run" / "index" / "00003"
    counts = adopted(pair, tokenizer, output)
    for suffix in (".bin", ".idx"):
        link = output.with_name(output.name + suffix)
        assert link.is_symlink()
        assert link.readlink() == pair.with_name(pair.name + suffix)
        assert link.readlink().is_absolute()
        assert counts[f"{suffix[1:]}_digest"] == digest_file(link)
    documents = encoded(tokenizer)
    sidecar = pq.read_table(sidecar_path(output))
    assert sidecar.schema.equals(SIDECAR_SCHEMA)
    lengths = [len(document) for document in documents]
    assert sidecar["tokens"].to_pylist() == lengths
    assert sidecar["first_token"].to_pylist() == [sum(lengths[:number]) for number in range(len(lengths))]
    assert sidecar["row"].to_pylist() == list(range(len(documents)))
    assert set(sidecar["shard"].to_pylist()) == {"my.corpus_text_document"}
    assert (set(sidecar["source"].to_pylist()), set(sidecar["language"].to_pylist())) == ({"web"}, {"fr"})
    expected = [hashlib.blake2b(struct.pack(f"<{len(d)}i", *d), digest_size=16).hexdigest() for d in documents]
    assert sidecar["id"].to_pylist() == expected
    assert expected[0] == expected[5], "equal documents have the same id"
    assert np.array_equal(np.asarray(sidecar["split_key"]), id_hashes(sidecar["id"]))
    manifest = read_manifest(sidecar_path(output))
    assert manifest["parameters"] == digest_file(tokenizer)
    size = {"documents": len(TEXTS), "bytes": sum(len(text.encode()) for text in TEXTS), "tokens": sum(lengths)}
    assert manifest["counts"]["languages"] == {"fr": size}
    assert manifest["counts"]["ends_with_end_of_document"] is True


def test_ids_do_not_depend_on_the_type_of_the_tokens(pair: Path, tokenizer: Path, tmp_path: Path) -> None:
    wide = write_pair(tmp_path / "wide" / pair.name, encoded(tokenizer), "<i4")
    adopted(pair, tokenizer, tmp_path / "a" / "00000")
    adopted(wide, tokenizer, tmp_path / "b" / "00000")
    sidecars = [sidecar_path(tmp_path / folder / "00000").read_bytes() for folder in "ab"]
    assert sidecars[0] == sidecars[1]


def test_adopting_again_or_in_other_batches_gives_the_same_bytes(
    pair: Path, tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adopted(pair, tokenizer, tmp_path / "a" / "00000")
    adopted(pair, tokenizer, tmp_path / "a" / "00000")  # replaces its own links
    monkeypatch.setattr(adopt, "BATCH_TOKENS", 40)  # longer documents are read in pieces
    monkeypatch.setattr(adopt, "BATCH_DOCUMENTS", 3)
    adopted(pair, tokenizer, tmp_path / "b" / "00000")
    for name in ("00000.documents.parquet", "00000.documents.json", "00000.bin", "00000.idx"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == sorted(
        ["00000.bin", "00000.idx", "00000.documents.parquet", "00000.documents.json"]
    )


def test_the_files_of_the_user_are_never_changed(pair: Path, tokenizer: Path, tmp_path: Path) -> None:
    pair.with_name(f"{pair.name}.bin").chmod(0o444)
    before = {path: (digest_file(path), path.stat().st_mtime_ns) for path in pair.parent.iterdir()}
    adopted(pair, tokenizer, tmp_path / "run" / "00000")
    assert {path: (digest_file(path), path.stat().st_mtime_ns) for path in pair.parent.iterdir()} == before
    (tmp_path / "linked").symlink_to(pair.parent)
    for place in (pair, tmp_path / "linked" / pair.name):
        with pytest.raises(InputError, match="would replace the file that it points to"):
            adopted(pair, tokenizer, place)
    assert {path: (digest_file(path), path.stat().st_mtime_ns) for path in pair.parent.iterdir()} == before


def test_a_relative_prefix_gives_absolute_links(
    pair: Path, tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(pair.parent)
    adopted(Path(pair.name), tokenizer, tmp_path / "run" / "00000")
    monkeypatch.chdir("/")
    assert (tmp_path / "run" / "00000.bin").is_file()


def test_a_pair_without_documents_is_adopted(tokenizer: Path, tmp_path: Path) -> None:
    write_pair(tmp_path / "empty", [])
    counts = adopted(tmp_path / "empty", tokenizer, tmp_path / "run" / "00000")
    assert (counts["documents"], counts["tokens"], counts["languages"]) == (0, 0, {})


def cut(pair: Path, suffix: str, bytes_left: int) -> None:
    path = pair.with_name(pair.name + suffix)
    path.write_bytes(path.read_bytes()[:bytes_left])


@pytest.mark.parametrize("left", [0, 20, 60, -1])
def test_a_cut_idx_is_refused(pair: Path, tokenizer: Path, tmp_path: Path, left: int) -> None:
    cut(pair, ".idx", left)
    refused(pair, tokenizer, tmp_path, "bytes")


@pytest.mark.parametrize("left", [0, -1, -2])
def test_a_cut_bin_is_refused(pair: Path, tokenizer: Path, tmp_path: Path, left: int) -> None:
    cut(pair, ".bin", left)
    refused(pair, tokenizer, tmp_path, "as the .idx file beside it states")


@pytest.mark.parametrize("suffix", [".bin", ".idx"])
def test_a_missing_file_is_named(pair: Path, tokenizer: Path, tmp_path: Path, suffix: str) -> None:
    pair.with_name(pair.name + suffix).unlink()
    assert suffix in str(refused(pair, tokenizer, tmp_path, "no such file"))


def test_a_bin_of_another_idx_is_refused(pair: Path, tokenizer: Path, tmp_path: Path) -> None:
    other = write_pair(tmp_path / "other" / "x", encoded(tokenizer, [*TEXTS[1:], TEXTS[0]]))
    other.with_name("x.bin").replace(pair.with_name(f"{pair.name}.bin"))  # of the same size
    error = refused(pair, tokenizer, tmp_path, "document 0 ends with the token id")
    assert "the .bin and the .idx belong together" in str(error)


def test_tokens_that_the_tokenizer_lacks_are_refused(tokenizer: Path, tmp_path: Path) -> None:
    documents = encoded(tokenizer)
    documents[2][1] = 40_000
    pair = write_pair(tmp_path / "my.corpus_text_document", documents)
    refused(pair, tokenizer, tmp_path, "document 2 has the token id 40000")
    documents[2][1] = -1
    refused(write_pair(pair, documents, "<i4"), tokenizer, tmp_path, "document 2 has the token id -1")


def test_an_id_without_a_token_is_refused(tokenizer: Path, tmp_path: Path) -> None:
    raw = json.loads(tokenizer.read_text())
    raw["model"]["vocab"]["ZZZZ"] = 5000
    (tmp_path / "tokenizer.json").write_text(json.dumps(raw))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": END}))
    documents = encoded(tmp_path / "tokenizer.json")
    documents[3][0] = 4999
    pair = write_pair(tmp_path / "my.corpus_text_document", documents)
    refused(pair, tmp_path / "tokenizer.json", tmp_path, "document 3 has the token id 4999")


def test_documents_without_an_end_token_are_refused_unless_this_is_declared(tokenizer: Path, tmp_path: Path) -> None:
    documents = [document[:-1] for document in encoded(tokenizer) if len(document) > 1]
    pair = write_pair(tmp_path / "my.corpus_text_document", documents)
    error = refused(pair, tokenizer, tmp_path, "document 0 ends with the token id")
    assert "ends_with_end_of_document: false" in str(error)
    counts = adopted(pair, tokenizer, tmp_path / "run" / "00000", ends_with_end_of_document=False)
    assert counts["ends_with_end_of_document"] is False
    assert counts["languages"]["fr"]["bytes"] == sum(len(text.encode()) for text in TEXTS)


def test_an_empty_sequence_is_refused(tokenizer: Path, tmp_path: Path) -> None:
    pair = write_pair(tmp_path / "my.corpus_text_document", [*encoded(tokenizer), []])
    refused(pair, tokenizer, tmp_path, f"sequence {len(TEXTS)} is empty")


def test_files_that_are_split_into_sentences_are_refused(pair: Path, tokenizer: Path, tmp_path: Path) -> None:
    idx = pair.with_name(f"{pair.name}.idx")
    raw = bytearray(idx.read_bytes())
    sequences = len(TEXTS)
    bounds = [0, 1, 4, *range(5, sequences + 1)]
    raw[26:34] = struct.pack("<Q", len(bounds))
    idx.write_bytes(bytes(raw[: 34 + 12 * sequences]) + struct.pack(f"<{len(bounds)}q", *bounds))
    error = refused(pair, tokenizer, tmp_path, "document 1 has 3 sequences")
    assert "--split-sentences" in str(error)


@pytest.mark.parametrize(
    ("at", "data", "what"),
    [
        (0, b"TNTIDX\0\0\0", "not a Megatron .idx but fairseq's older form"),
        (0, b"PK\3\4", "not a Megatron .idx"),
        (9, b"\2", "not a Megatron .idx"),
        (17, b"\7", "token type code 7: a floating-point type"),
        (17, b"\5", "token type code 5: int64"),
        (34, b"\1", "offsets do not follow"),
    ],
)
def test_foreign_and_damaged_headers_are_refused(
    pair: Path, tokenizer: Path, tmp_path: Path, at: int, data: bytes, what: str
) -> None:
    idx = pair.with_name(f"{pair.name}.idx")
    raw = bytearray(idx.read_bytes())
    raw[at : at + len(data)] = data
    idx.write_bytes(raw)
    refused(pair, tokenizer, tmp_path, what)


def test_a_multimodal_file_is_refused(pair: Path, tokenizer: Path, tmp_path: Path) -> None:
    idx = pair.with_name(f"{pair.name}.idx")
    idx.write_bytes(idx.read_bytes() + bytes(len(TEXTS)))
    refused(pair, tokenizer, tmp_path, "as in multimodal files")


def test_a_file_that_shrinks_while_it_is_read_is_an_error(
    pair: Path, tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spell = adopt.token_byte_lengths

    def cut_first(made: object) -> object:
        os.truncate(pair.with_name(f"{pair.name}.bin"), 10)
        return spell(made)

    monkeypatch.setattr(adopt, "token_byte_lengths", cut_first)
    refused(pair, tokenizer, tmp_path, "became shorter while it was read")


def test_adopt_accepts_a_prefix_or_either_file(pair: Path, tokenizer: Path, tmp_path: Path) -> None:
    for number, prefix in enumerate((pair, f"{pair}.idx", f"{pair}.bin")):
        output = tmp_path / "run" / f"{number:05d}"
        options = ["--tokenizer", str(tokenizer), "--source", "web", "--language", "fr", "--output", f"{output}.idx"]
        done = CliRunner().invoke(app, ["adopt", str(prefix), *options])
        assert done.exit_code == 0, done.output
        assert open_token_file(output).tokens.size
    assert prefix_of(Path("a/c4.en")) == Path("a/c4.en")


def add_empty_document(pair: Path) -> None:
    """Add a document without a sequence to the .idx, as Megatron's preprocessing does for an empty text."""
    idx = pair.with_name(f"{pair.name}.idx")
    raw = idx.read_bytes()
    bounds = int.from_bytes(raw[26:34], "little")
    idx.write_bytes(raw[:26] + struct.pack("<Q", bounds + 1) + raw[34:] + raw[-8:])


def build(tokenizer: Path, index: Path, parts: list[str]) -> IndexManifest:
    stage = IndexStage(sequence_length=16, train_samples=60, validation_samples=99, validation_share=0.3, seed=7)
    return build_index(stage, index, parts, None, tokenizer, index / "index.json")


def held_out(index: Path, manifest: IndexManifest) -> set[str]:
    """Return the ids of the validation documents."""
    ids = [
        name
        for file in manifest.token_files
        for name in pq.read_table(sidecar_path(index / file.prefix))["id"].to_pylist()
    ]
    return {ids[number] for entry in manifest.validation for number in open_array(index, entry.documents)}


def test_an_index_is_built_on_every_kind_of_pair(tokenizer: Path, tmp_path: Path) -> None:
    many = [f"{text} {number}" for number in range(12) for text in TEXTS]
    documents = encoded(tokenizer, many)
    bare = [document[:-1] for document in documents]
    pairs = {"narrow": (documents, "<u2"), "wide": (documents[:30], "<i4"), "bare": (bare[::-1], "<u2")}
    index = tmp_path / "run"
    for name, (own, dtype) in pairs.items():
        pair = write_pair(tmp_path / "theirs" / name, own, dtype)
        add_empty_document(pair)
        ends = {"ends_with_end_of_document": name != "bare"}
        adopt_tokens(pair, tokenizer, name, "fr", index / f"tokens/{name}/00000", **ends)
    alone = build(tokenizer, index, ["narrow/00000"])
    assert verify_index(index)["documents"] == len(documents)
    first = held_out(index, alone)
    assert 0 < len(first) < len(documents)
    together = build(tokenizer, index, [f"{name}/00000" for name in pairs])
    found = verify_index(index)
    assert found["tokens"] == sum(len(document) for own, _ in pairs.values() for document in own)
    assert [file.ends_with_end_of_document for file in together.token_files] == [True, True, False]
    narrow = set(pq.read_table(sidecar_path(index / "tokens/narrow/00000"))["id"].to_pylist())
    assert held_out(index, together) & narrow == first, "added files must not change which documents are held out"
