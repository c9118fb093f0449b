"""Test the import of tokenizers: their files do not change, unusable ones are refused, and lossy ones are reported."""

import json
from pathlib import Path

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from typer.testing import CliRunner

from bloomery.base.atomic import write_json
from bloomery.base.errors import InputError
from bloomery.contracts.tokenizer import end_of_document, load_tokenizer, vocabulary_size
from data_prep.tokenizer.cli import app
from data_prep.tokenizer.import_tokenizer import import_tokenizer
from data_prep.tokenizer.lossy_text import HOSTILE
from data_prep.tokenizer.pre_tokenizer import BLOOM_PATTERN

TEXTS = ["the cat sat on the mat, the dog sat on the log"] * 20


def save(tokenizer, folder, **roles):
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    if roles:
        write_json(folder / "tokenizer_config.json", roles)
    return folder


def byte_level(special, pre_tokenizer):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizer, decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    return tokenizer


@pytest.fixture
def gpt2(tmp_path):
    tokenizer = byte_level(["<|endoftext|>"], pre_tokenizers.ByteLevel(add_prefix_space=False))
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    role = {"content": "<|endoftext|>", "special": True}
    return save(tokenizer, tmp_path / "gpt2", eos_token=role, tokenizer_class="GPT2Tokenizer", auto_map={"x": "y.Z"})


@pytest.fixture
def wordpiece(tmp_path):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    special = ["[UNK]", "[CLS]", "[SEP]", "[PAD]"]
    trainer = trainers.WordPieceTrainer(vocab_size=200, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(TEXTS, trainer)
    return save(tokenizer, tmp_path / "bert", sep_token="[SEP]", unk_token="[UNK]")


def test_a_gpt2_tokenizer_keeps_its_bytes_its_end_token_and_its_encodings(gpt2, tmp_path, capfd):
    transformers = pytest.importorskip("transformers")
    output = tmp_path / "tokenizer"
    facts = import_tokenizer(str(gpt2), output)
    assert facts["warnings"] == []
    assert "warning" not in capfd.readouterr().err
    assert (output / "tokenizer.json").read_bytes() == (gpt2 / "tokenizer.json").read_bytes()
    tokenizer = load_tokenizer(output / "tokenizer.json")
    assert end_of_document(output / "tokenizer.json", tokenizer) == facts["end_of_document"]["id"] == 0
    config = json.loads((output / "tokenizer_config.json").read_text())
    assert (config["tokenizer_class"], config["eos_token"]) == ("PreTrainedTokenizerFast", "<|endoftext|>")
    assert "auto_map" not in config, "the configuration must not name code to run"
    theirs = transformers.AutoTokenizer.from_pretrained(output)
    assert theirs.eos_token_id == 0
    for text in [*HOSTILE.values(), *TEXTS[:1], "<|endoftext|>"]:
        assert theirs(text)["input_ids"] == tokenizer.encode(text).ids


def test_a_bloom_tokenizer_is_imported_from_its_file(tmp_path):
    split = pre_tokenizers.Split(Regex(BLOOM_PATTERN), behavior="isolated")
    pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    folder = save(byte_level(["<unk>", "<s>", "</s>", "<pad>"], pre_tokenizer), tmp_path / "bloom")
    roles = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    write_json(folder / "special_tokens_map.json", roles)
    facts = import_tokenizer(str(folder / "tokenizer.json"), tmp_path / "out")
    assert facts["end_of_document"] == {"token": "</s>", "id": 2}
    assert facts["warnings"] == []
    written = json.loads((tmp_path / "out/special_tokens_map.json").read_text())
    assert written == roles
    assert facts["files"].keys() == {"tokenizer.json", "special_tokens_map.json"}


def test_a_wordpiece_tokenizer_needs_an_end_token_and_is_reported_as_lossy(wordpiece, tmp_path, capfd):
    with pytest.raises(InputError, match=r"does not state an eos_token.*such as \[CLS\], \[PAD\], \[SEP\]"):
        import_tokenizer(str(wordpiece), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    facts = import_tokenizer(str(wordpiece), tmp_path / "out", end_of_document="[SEP]")
    assert facts["end_of_document"]["token"] == "[SEP]"
    said = capfd.readouterr().err
    words = (
        "change when they are encoded and decoded",
        "normaliser BertNormalizer",
        "drops spaces",
        "'[UNK]' replaces text",
    )
    for word in words:
        assert word in said
    output = tmp_path / "out/tokenizer.json"
    assert end_of_document(output, load_tokenizer(output)) == 2


def test_a_space_added_at_the_beginning_is_reported(tmp_path):
    tokenizer = byte_level(["<|endoftext|>"], pre_tokenizers.ByteLevel(add_prefix_space=True))
    folder = save(tokenizer, tmp_path / "spaced", eos_token="<|endoftext|>")
    (warning,) = import_tokenizer(str(folder), tmp_path / "out")["warnings"]
    assert "the pre-tokenizer 'ByteLevel' adds a space at the beginning of a text" in warning
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert theirs("the cat")["input_ids"] == tokenizer.encode("the cat").ids != tokenizer.encode("cat").ids


def test_the_vocabulary_size_includes_ids_without_a_token(tmp_path):
    vocabulary = {"</s>": 0, "a": 1, "b": 7}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="</s>"))
    tokenizer.add_special_tokens([AddedToken("</s>", special=True), AddedToken("<new>", special=True)])
    facts = import_tokenizer(str(save(tokenizer, tmp_path / "holes", eos_token="</s>")), tmp_path / "out")
    size = 1 + max(tokenizer.get_vocab().values())
    assert facts["vocabulary"] == size == vocabulary_size(tokenizer) > facts["tokens"] == 4
    assert f"{size - 4} of the tokenizer's {size} ids have no token" in " ".join(facts["warnings"])
    assert any(
        "the text '</s>', this text is encoded as the end-of-document token" in each for each in facts["warnings"]
    )


def test_truncation_padding_and_dropout_of_the_file_are_ignored(gpt2, tmp_path):
    tokenizer = Tokenizer.from_file(str(gpt2 / "tokenizer.json"))
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=50, pad_token="<|endoftext|>")
    description = json.loads(tokenizer.to_str())
    description["model"]["dropout"] = 0.9
    (gpt2 / "tokenizer.json").write_text(json.dumps(description))
    facts = import_tokenizer(str(gpt2), tmp_path / "out")
    assert len(facts["warnings"]) == 2
    ours = load_tokenizer(tmp_path / "out/tokenizer.json")
    text = "the cat sat on the mat and on the log"
    assert ours.decode(ours.encode(text).ids) == text
    assert len({tuple(ours.encode(text).ids) for _ in range(20)}) == 1


@pytest.mark.parametrize(
    ("files", "match"),
    [
        ({}, "has no tokenizer.json"),
        ({"tokenizer.model": b"\x0a\x0b"}, "SentencePiece's tokenizer.model but no tokenizer.json.*save_pretrained"),
        ({"vocab.json": b"{}"}, "vocab.json but no tokenizer.json"),
        ({"tokenizer.json": b"{"}, "not a tokenizer"),
        ({"tokenizer.json": b"\x80\x04\x95"}, "not a tokenizer"),
    ],
)
def test_a_folder_without_a_valid_tokenizer_is_refused(tmp_path, files, match):
    (tmp_path / "folder").mkdir()
    for name, content in files.items():
        (tmp_path / "folder" / name).write_bytes(content)
    with pytest.raises(InputError, match=match):
        import_tokenizer(str(tmp_path / "folder"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_damaged_roles_wrong_tokens_and_too_many_entries_are_refused(gpt2, tmp_path):
    with pytest.raises(InputError, match=r"has no token '</s>'.*<\|endoftext\|>"):
        import_tokenizer(str(gpt2), tmp_path / "out", end_of_document="</s>")
    with pytest.raises(InputError, match=r"vocabulary_size allows only 100.*tokenizer.vocabulary_size: 2\d\d"):
        import_tokenizer(str(gpt2), tmp_path / "out", most_entries=100)
    (gpt2 / "tokenizer_config.json").write_text("[1]")
    with pytest.raises(InputError, match="not a JSON object"):
        import_tokenizer(str(gpt2), tmp_path / "out")
    with pytest.raises(InputError, match="no such file or folder"):
        import_tokenizer(str(tmp_path / "nowhere"), tmp_path / "out")


def test_code_beside_a_tokenizer_is_neither_run_nor_copied(gpt2, tmp_path):
    marker = tmp_path / "ran"
    (gpt2 / "tokenization_own.py").write_text(f"open({str(marker)!r}, 'w')")
    (gpt2 / "tokenizer.pkl").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    import_tokenizer(str(gpt2), tmp_path / "out")
    assert not marker.exists()
    names = sorted(path.name for path in Path(tmp_path / "out").iterdir())
    assert names == ["origin.json", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json"]


def test_the_verb_reads_the_section_of_its_stage(gpt2, tmp_path):
    config = {"tokenizer": {"existing": str(gpt2), "vocabulary_size": 1000}}
    write_json(tmp_path / "tokenizer.json", config)
    by_config = ["import", "--config", str(tmp_path / "tokenizer.json"), "--output", str(tmp_path / "a")]
    by_name = ["import", str(gpt2), "--output", str(tmp_path / "b")]
    for words in (by_config, by_name):
        result = CliRunner().invoke(app, words, catch_exceptions=False)
        assert (result.exit_code, result.stdout) == (0, "")
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()
