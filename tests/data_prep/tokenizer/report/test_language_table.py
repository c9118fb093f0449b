"""Figures per language: those counted by hand, those of a plain re-computation, references, each language's own."""

from __future__ import annotations

import json
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import regex
from tokenizers import Tokenizer
from typer.testing import CliRunner

from bloomery.base.errors import InputError, ResourceError
from data_prep.tokenizer import sample_documents as sampling
from data_prep.tokenizer.cli import app
from data_prep.tokenizer.count_tables import find_tables
from data_prep.tokenizer.report import counts as counts_module
from data_prep.tokenizer.report.monolingual import monolingual_size, train_monolingual
from data_prep.tokenizer.report.report_inputs import find_shards
from data_prep.tokenizer.report.reported_tokenizer import Subject
from data_prep.tokenizer.sample_documents import sample_documents

WORDS = {
    "en": ["the", "of", "and", "to", "in", "is", "that", "for", "it", "as", "was", "with", "his", "but", "at"],
    "hi": ["के", "में", "है", "की", "और", "से", "का", "को", "पर", "यह", "था", "कि", "लिए", "एक"],
    "zhs": [*"的一是在不了有和人这中大为上个国", "时来用们"],
}


def texts(language: str, number: int = 12) -> list[str]:
    """Sentences of a small vocabulary, always the same."""
    chosen = random.Random(language)
    joint = "" if language == "zhs" else " "
    return [joint.join(chosen.choices(WORDS[language], k=30)) + "." for _ in range(number)]


def test_figures_are_those_counted_by_hand(plant, make_shard, report):
    make_shard("s/00000", {"en": ["abab ab"], "fr": ["é, a"]})
    found = report(plant(["ab"]))
    english, french = found["languages"]["en"], found["languages"]["fr"]
    assert (found["reference"], found["vocabulary"], found["parity_by"]) == ("en", 261, "bytes")
    # "abab ab": ab ab, space, ab: 4 tokens, 7 bytes, 2 words, 1 single byte
    assert (english["tokens"], english["bytes"], english["words"], english["single_byte_tokens"]) == (4, 7, 2, 1)
    assert (english["tokens_per_word"], english["bytes_per_token"], english["parity"]) == (2.0, 1.75, 1.0)
    # "é, a": two bytes, comma, space, a: 5 tokens of 5 bytes, 4 characters, 2 words
    assert (french["tokens"], french["characters"], french["words"], french["single_byte_share"]) == (5, 4, 2, 1.0)
    assert french["parity"] == 1.75


def test_figures_are_those_of_a_plain_computation(plant, make_shard, report):
    corpus = {language: texts(language) for language in WORDS}
    make_shard("s/00000", corpus)
    own, other = plant([" the", "of", " के", "में", "人这"]), plant([" that", "is"], name="other")
    found = report(own, "--reference", f"other={other}")
    assert found["references"] == {
        "other": {"vocabulary": Tokenizer.from_file(str(other)).get_vocab_size(), "commit": None}
    }
    for language, of_language in corpus.items():
        entry = found["languages"][language]
        for path, figures in ((own, entry), (other, entry["references"]["other"])):
            tokenizer = Tokenizer.from_file(str(path))
            ids = [token for text in of_language for token in tokenizer.encode(text).tokens]
            words = r"[\p{L}\p{N}]" if language == "zhs" else r"[\p{L}\p{M}\p{N}]+"
            number = sum(len(regex.findall(words, text)) for text in of_language)
            size = sum(len(text.encode()) for text in of_language)
            assert figures["tokens"] == len(ids)
            assert figures["tokens_per_word"] == pytest.approx(len(ids) / number, abs=1e-4)
            assert figures["bytes_per_token"] == pytest.approx(size / len(ids), abs=1e-4)
            assert figures["characters_per_token"] == pytest.approx(sum(map(len, of_language)) / len(ids), abs=1e-4)
            assert figures["single_byte_share"] == pytest.approx(
                sum(len(token) == 1 for token in ids) / len(ids), abs=1e-4
            )
        least = entry["references"]["other"]["tokens"]
        assert entry["over_reference"] == pytest.approx(entry["tokens"] / least - 1, abs=1e-4)


def test_without_english_the_language_with_most_text_is_the_reference(plant, make_shard, report):
    make_shard("s/00000", {"fr": ["ab"], "es": ["abab", "x"]})
    assert report(plant(["ab"]))["reference"] == "es"


def test_a_corpus_without_text_gives_a_report_without_languages(plant, make_shard, report):
    make_shard("s/00000", {})
    found = report(plant(["ab"]), settings={"gate": {"max_parity": 2}})
    assert found["languages"] == {}
    assert found["gate"]["status"] == "failed", "nothing was checked"


def test_each_language_is_held_to_a_tokenizer_of_its_own(plant, make_shard, make_counts, report):
    corpus = {language: texts(language, 40) for language in ("en", "hi")}
    counts = make_counts(make_shard("s/00000", corpus))
    found = report(plant([" the", "of"]), "--counts", counts, settings={"monolingual_vocabulary": 600})
    for language in corpus:
        entry = found["languages"][language]
        own = entry["monolingual"]
        # At most the shared tokenizer's size, so here 4 special tokens aside no merge more than that has.
        assert own["vocabulary"] <= found["vocabulary"] + 4
        assert own["pieces"] > 10
        assert entry["over_monolingual"] == pytest.approx(entry["tokens"] / own["tokens"] - 1, abs=1e-4)
    assert found["languages"]["hi"]["over_monolingual"] > 0, "the shared one knows no Hindi"


def test_an_own_tokenizer_encodes_as_the_library_does_with_it(plant, make_shard, make_counts, tmp_path):
    shard = make_shard("s/00000", {"en": texts("en", 40)})
    counts = counts_module.Counts.read(find_tables([make_counts(shard)]), tmp_path / "sums")
    own = train_monolingual(Subject.load(plant([" the"])), counts.by_language()["en"], 400)
    of_language = texts("en", 40)
    own.tokenizer.encode_special_tokens = True
    expected = [token for text in of_language for token in own.tokenizer.encode(text).ids]
    assert own.encoder.encode(of_language)[0].tolist() == expected
    assert len(expected) < sum(map(len, of_language)), "it has merges"


def test_an_own_tokenizer_is_as_large_as_asked_as_the_shared_one_and_as_text_repeats():
    assert monolingual_size(32_768, 250_680, 10**6) == 32_768
    assert monolingual_size(32_768, 2_048, 10**6) == 2_048
    assert monolingual_size(32_768, 250_680, 44) == 300


def test_an_own_tokenizer_learns_from_the_most_frequent_pieces(plant, make_shard, make_counts, report, monkeypatch):
    counts = make_counts(make_shard("s/00000", {"en": texts("en", 40)}))
    monkeypatch.setattr(counts_module, "MOST_PIECES", 5)
    found = report(plant([" the"]), "--counts", counts)
    assert found["languages"]["en"]["monolingual"]["pieces"] == 5


@pytest.mark.parametrize("settings", [{"monolingual_vocabulary": None}, {}])
def test_without_counts_or_wish_there_is_no_own_tokenizer(plant, make_shard, make_counts, report, settings):
    counts = make_counts(make_shard("s/00000", {"en": texts("en")}))
    found = report(plant([" the"]), *(["--counts", counts] if settings else []), settings=settings)
    assert found["languages"]["en"]["monolingual"] is None
    assert found["languages"]["en"]["over_monolingual"] is None


def test_the_same_corpus_gives_the_same_bytes(plant, make_shard, make_counts, report, tmp_path):
    corpus = {language: texts(language) for language in WORDS}
    counts = make_counts(make_shard("s/00000", corpus), make_shard("s/00001", {"en": ["the of"]}))
    written = []
    for _ in range(2):
        report(plant([" the", "of"]), "--counts", counts)
        written.append([(tmp_path / f"out/tokenizer.{kind}").read_bytes() for kind in ("json", "html")])
    assert written[0] == written[1]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["tokenizer.html", "tokenizer.json"]


def test_a_missing_reference_is_said_before_anything_is_read(plant, tmp_path):
    tokenizer = plant(["ab"])
    with pytest.raises(InputError, match=r"reference tokenizer 'x': .*no such file or folder"):
        CliRunner().invoke(
            app,
            ["report", "--tokenizer", str(tokenizer), "--corpus", str(tmp_path / "none"), "--reference", "x=/no/where",
             "--output-json", str(tmp_path / "a.json"), "--output-html", str(tmp_path / "a.html")],
            catch_exceptions=False,
        )  # fmt: skip


def test_the_verb_stands_alone_and_prints_the_languages(plant, make_shard, tmp_path):
    shard, tokenizer = make_shard("s/00000", {"en": ["abab ab"], "fr": ["é, a"]}), plant(["ab"])
    common = ["report", "--tokenizer", str(tokenizer.parent), "--corpus", str(shard),
              "--output-json", str(tmp_path / "a.json"), "--output-html", str(tmp_path / "a.html")]  # fmt: skip
    result = CliRunner().invoke(app, common, catch_exceptions=False)
    assert result.stdout.splitlines() == [
        "en\t2.00\t1.75\t1.75\t25.0 %\t1.00\t–",
        "fr\t2.50\t1.00\t0.80\t100.0 %\t1.75\t–",
    ]
    assert str(tmp_path / "a.html") in result.stderr
    result = CliRunner().invoke(app, [*common, "--json"], catch_exceptions=False)
    assert json.loads(result.stdout) == json.loads((tmp_path / "a.json").read_text())


def test_shards_are_found_in_a_run_in_a_folder_and_by_themselves(make_shard, tmp_path):
    shard = make_shard("s/00000", {"en": ["a"]})
    assert find_shards([tmp_path / "corpus"]) == {"s/00000": shard}
    assert find_shards([tmp_path / "corpus/clean/s"]) == {"00000": shard}
    assert list(find_shards([shard]).values()) == [shard]
    assert find_shards([tmp_path / "corpus"], ["s/00001"]) == {"s/00001": tmp_path / "corpus/clean/s/00001.parquet"}
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no shards"):
        find_shards([tmp_path / "empty"])


def test_the_sample_is_bounded_and_fixed(make_shard, tmp_path, monkeypatch):
    shards = {}
    for part in (f"s/{number:05d}" for number in range(4)):
        shards[part] = make_shard(part, {"en": [f"{part} {number}" for number in range(10)], "fr": ["x" * 100]})
    monkeypatch.setattr(sampling, "PER_PART", 3)
    monkeypatch.setattr(sampling, "PER_LANGUAGE", 8)
    monkeypatch.setattr(sampling, "LANGUAGE_BYTES", 150)
    found = sample_documents(shards)
    assert {language: len(of_language) for language, of_language in found.items()} == {"en": 8, "fr": 2}
    assert found == sample_documents(dict(reversed(shards.items())))


def test_a_file_from_elsewhere_is_sampled_as_a_shard_is(make_shard, tmp_path, monkeypatch):
    shard = make_shard("s/00000", {"en": [f"text {number}" for number in range(10)], "fr": ["é"]})
    foreign = tmp_path / "texts.parquet"
    pq.write_table(pq.read_table(shard, columns=["text", "id", "language"]), foreign)
    monkeypatch.setattr(sampling, "PER_PART", 3)
    assert sample_documents({"a": foreign}) == sample_documents({"a": shard})
    pq.write_table(pa.table({"id": ["a"], "language": ["en"], "text": pa.array([None], pa.string())}), foreign)
    with pytest.raises(InputError, match="is null"):
        sample_documents({"a": foreign})
    with pytest.raises(InputError, match="no such file"):
        sample_documents({"a": tmp_path / "nowhere.parquet"})


def test_a_report_beneath_a_file_is_refused(plant, make_shard, tmp_path):
    shard, tokenizer = make_shard("s/00000", {"en": ["a"]}), plant([])
    words = ["report", "--tokenizer", str(tokenizer), "--corpus", str(shard), "--output-html", str(tmp_path / "a.html")]
    result = CliRunner().invoke(app, [*words, "--output-json", str(tokenizer / "a.json")])
    assert isinstance(result.exception, ResourceError)
