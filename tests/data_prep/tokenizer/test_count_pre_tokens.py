"""Test the pre-token counts: exact, sorted, the same however texts are spread over shards, and in bounded memory."""

import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bloomery.base.digest import digest_file, digest_json
from bloomery.base.errors import InputError
from bloomery.config.stages import CountStage
from data_prep.formats.shard import manifest_path, read_manifest, read_table
from data_prep.tokenizer import _bpe
from data_prep.tokenizer.count_pre_tokens import count_shards, summary
from data_prep.tokenizer.merge_counts import COUNT_SCHEMA
from data_prep.tokenizer.pre_tokenizer import build

BLOOM = CountStage(pre_tokenizer="bloom")
WAYS = [CountStage(pre_tokenizer=name, split_digits=digits) for name in ("bloom", "modern") for digits in (False, True)]
TEXTS = st.dictionaries(st.sampled_from(["en", "fr", "zhs"]), st.lists(st.text("ab é人.1\n", max_size=20), max_size=4))
Texts = dict[str, list[str]]
MakeShard = Callable[[str, Texts], Path]


def expected(stage: CountStage, texts: Texts) -> dict[tuple[str, str], int]:
    """Count the pre-tokens of the texts with `tokenizers`."""
    split = build(stage.pre_tokenizer, stage.split_digits)
    found: Counter[tuple[str, str]] = Counter()
    for language, some in texts.items():
        for text in some:
            found.update((language, text[start:end]) for _, (start, end) in split.pre_tokenize_str(text))
    return dict(found)


def counted(path: Path) -> dict[tuple[str, str], int]:
    return {(row["language"], row["piece"]): row["count"] for row in read_table(path).to_pylist()}


def random_texts(seed: int, words: int = 3000) -> Texts:
    generator = random.Random(seed)
    known = ["".join(generator.choices("abcdéक人", k=generator.randrange(1, 7))) for _ in range(words)]
    return {code: [" ".join(generator.choices(known, k=400)) for _ in range(20)] for code in ("en", "fr", "sw")}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=30)
@given(texts=TEXTS, stage=st.sampled_from(WAYS))
def test_pre_tokens_are_counted_per_language_and_sorted(
    make_shard: MakeShard, tmp_path: Path, texts: Texts, stage: CountStage
) -> None:
    count_shards(stage, [make_shard("s/00000", texts)], tmp_path / "counts.parquet")
    table = read_table(tmp_path / "counts.parquet")
    assert table.schema.equals(COUNT_SCHEMA)
    assert counted(tmp_path / "counts.parquet") == expected(stage, texts)
    keys = [(row["language"], row["piece"].encode()) for row in table.to_pylist()]
    assert keys == sorted(set(keys))


def test_the_manifest_records_what_was_counted(make_shard: MakeShard, tmp_path: Path) -> None:
    shard = make_shard("s/00000", {"en": ["a b a", "c"], "fr": ["dé"]})
    stage = CountStage(pre_tokenizer="modern", split_digits=True)
    count_shards(stage, [shard], tmp_path / "counts.parquet")
    manifest = read_manifest(tmp_path / "counts.parquet")
    assert manifest["kind"] == "pre_token_counts"
    assert manifest["inputs"] == {"documents.0": digest_file(shard)}
    assert manifest["parameters"] == digest_json(stage.model_dump(mode="json"))
    assert manifest["counts"] == {
        "pre_tokenizer": {"preset": "modern", "split_digits": True},
        "pre_tokens": {"en": 4, "fr": 1},
        "bytes": {"en": 6, "fr": 3},
        "long_pieces": {},
    }


def test_an_empty_shard_gives_an_empty_table(make_shard: MakeShard, tmp_path: Path) -> None:
    manifest = count_shards(BLOOM, [make_shard("s/00000", {})], tmp_path / "counts.parquet")
    assert read_table(tmp_path / "counts.parquet").num_rows == 0
    assert manifest["counts"]["pre_tokens"] == {}


def test_the_bytes_do_not_depend_on_how_the_texts_are_distributed(make_shard: MakeShard, tmp_path: Path) -> None:
    texts = random_texts(1)
    one = make_shard("one/00000", texts)
    many = [make_shard(f"many/{n}", {code: some[n::3] for code, some in texts.items()}) for n in range(3)]
    digests = set()
    for number, shards in enumerate(([one], many, many[::-1])):
        output = tmp_path / f"{number}.parquet"
        count_shards(BLOOM, shards, output)
        digests.add(digest_file(output))
        inputs = read_manifest(output)["inputs"]
        assert list(inputs.values()) == sorted(map(digest_file, shards))
    assert len(digests) == 1
    assert counted(tmp_path / "1.parquet") == expected(BLOOM, texts)


def test_counts_that_do_not_fit_in_memory_are_spilled_and_merged(
    make_shard: MakeShard, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shards = [make_shard(f"s/{n}", random_texts(n)) for n in range(4)]
    count_shards(BLOOM, shards, tmp_path / "held.parquet")
    capfd.readouterr()
    count_shards(BLOOM, shards, tmp_path / "folder/set.parquet", memory_bytes=1)
    assert capfd.readouterr().err.count("are spilled to a temporary file") == 4
    assert digest_file(tmp_path / "held.parquet") == digest_file(tmp_path / "folder/set.parquet")
    assert (
        read_manifest(tmp_path / "held.parquet")["counts"] == read_manifest(tmp_path / "folder/set.parquet")["counts"]
    )
    assert sorted(path.name for path in (tmp_path / "folder").iterdir()) == ["set.json", "set.parquet"]


def test_a_long_piece_is_counted_in_parts_that_end_between_characters(make_shard: MakeShard, tmp_path: Path) -> None:
    most = _bpe.MAX_PIECE_BYTES
    exact, long, mixed = "x" * most, "人" * most, "a" + "é" * most
    manifest = count_shards(BLOOM, [make_shard("s/0", {"en": [exact], "zh": [long, mixed]})], tmp_path / "c.parquet")
    assert manifest["counts"]["long_pieces"] == {"zh": 2}
    assert manifest["counts"]["bytes"] == {"en": most, "zh": len((long + mixed).encode())}
    found = counted(tmp_path / "c.parquet")
    assert found["en", exact] == 1
    # 1365 characters of three bytes fit into one part. The text has three such parts and a remainder.
    assert found["zh", "人" * (most // 3)] == 3
    assert found["zh", "人" * (most % (most // 3))] == 1
    assert found["zh", "é" * (most // 2)] == 1
    assert sum(len(piece.encode()) * count for (_, piece), count in found.items()) == len(
        (exact + long + mixed).encode()
    )
    assert max(len(piece.encode()) for _, piece in found) == most
    assert "2 pre-tokens longer than 4096 bytes" in summary(manifest, tmp_path / "c.parquet")


def write_foreign(path: Path, columns: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, row_group_size=2)
    return path


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_any_parquet_file_with_language_and_text_is_counted(
    tmp_path: Path, kind: pa.DataType, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = {"en": ["a b", "", "c 😀"], "fr": ["é"]}
    columns = {
        "url": [None] * 4,
        "text": pa.array([text for some in texts.values() for text in some]).cast(kind),
        "language": pa.array(["en", "en", "en", "fr"]).cast(kind),
    }
    shard = write_foreign(tmp_path / "foreign.parquet", columns)
    count_shards(BLOOM, [shard], tmp_path / "counts.parquet")
    assert counted(tmp_path / "counts.parquet") == expected(BLOOM, texts)
    assert re.search(r"foreign\.parquet: no manifest .* complete", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (
            {"language": ["en"], "body": ["a"]},
            r"has the columns language \(string\), body \(string\).*language and text",
        ),
        ({"language": [1], "text": ["a"]}, r"has the columns language \(int64\)"),
        ({"language": ["en"], "text": [b"a"]}, r"text \(binary\)"),
        ({"language": ["en", None, "en"], "text": ["a", "b", "c"]}, r"column language, row 1: is null"),
        ({"language": ["en"] * 4, "text": ["a", "b", "c", None]}, r"column text, row 3: is null"),
    ],
)
def test_a_parquet_file_without_texts_is_refused(tmp_path: Path, columns: dict[str, Any], said: str) -> None:
    shard = write_foreign(tmp_path / "in/foreign.parquet", columns)
    with pytest.raises(InputError, match=rf"foreign\.parquet.*{said}"):
        count_shards(BLOOM, [shard], tmp_path / "out/counts.parquet")
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def test_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    bad = pa.Array.from_buffers(pa.string(), 2, pa.array([b"a", b"\xff"]).buffers())
    shard = write_foreign(tmp_path / "foreign.parquet", {"language": ["en", "en"], "text": bad})
    with pytest.raises(InputError, match=r"rows 0 to 1: a text is not UTF-8"):
        count_shards(BLOOM, [shard], tmp_path / "counts.parquet")


def test_a_damaged_shard_is_refused(make_shard: MakeShard, tmp_path: Path) -> None:
    shard = make_shard("s/00000", {"en": ["a b c"]})
    content = bytearray(shard.read_bytes())
    content[len(content) // 3] ^= 1
    shard.write_bytes(content)
    with pytest.raises(InputError, match=r"damaged|cannot be read"):
        count_shards(BLOOM, [shard], tmp_path / "out/counts.parquet")
    shard.write_bytes(content[:-1])
    with pytest.raises(InputError, match=r"bytes, but its manifest records \d+ bytes"):
        count_shards(BLOOM, [shard], tmp_path / "out/counts.parquet")
    assert not (tmp_path / "out/counts.parquet").exists()


def test_a_damaged_foreign_parquet_is_refused(tmp_path: Path) -> None:
    shard = write_foreign(tmp_path / "foreign.parquet", {"language": ["en"] * 999, "text": ["a b c"] * 999})
    content = shard.read_bytes()
    shard.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match="cannot be read"):
        count_shards(BLOOM, [shard], tmp_path / "counts.parquet")
    shard.write_bytes(b"\0" * 200 + content[200:])
    with pytest.raises(InputError, match="cannot be read"):
        count_shards(BLOOM, [shard], tmp_path / "counts.parquet")


def test_wrong_inputs_and_outputs_are_refused(make_shard: MakeShard, tmp_path: Path) -> None:
    shard = make_shard("s/00000", {"en": ["a"]})
    count_shards(BLOOM, [shard], tmp_path / "counts.parquet")
    output = tmp_path / "other.parquet"
    for given_, said in (
        ([tmp_path / "missing.parquet"], "no such file"),
        ([tmp_path], "is a folder"),
        ([manifest_path(shard)], "cannot be read"),
        ([tmp_path / "counts.parquet"], "has the columns language .string., piece"),
        ([shard, shard.parent / "../s/00000.parquet"], "listed twice"),
    ):
        with pytest.raises(InputError, match=said):
            count_shards(BLOOM, given_, output)
    before = shard.read_bytes()
    with pytest.raises(InputError, match="is one of the shards to be counted"):
        count_shards(BLOOM, [shard], shard)
    with pytest.raises(InputError, match=r"ends in \.parquet"):
        count_shards(BLOOM, [shard], tmp_path / "counts.json")
    assert shard.read_bytes() == before
