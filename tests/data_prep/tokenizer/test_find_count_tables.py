"""Test the reading of count tables that this project or another program wrote."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bloomery.base.errors import InputError
from bloomery.config.stages import CountStage
from data_prep.tokenizer.count_pre_tokens import count_shards
from data_prep.tokenizer.find_count_tables import CountTable, find_tables, pre_tokenizer_of, read_batches

ROWS = {"language": ["en", "fr", "en"], "piece": ["a", " b", "a"], "count": [3, 1, 2]}
WANTED = [("en", b"a", 3), ("fr", b" b", 1), ("en", b"a", 2)]


def write(path, kinds=None, **changed):
    """Write a table without a manifest, as another program does."""
    kinds = kinds or {}
    columns = {
        name: pa.array(values).cast(kinds.get(name, pa.array(values).type)) for name, values in (ROWS | changed).items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return CountTable(path, path.stem, "s")


def rows_of(table):
    return [tuple(row.values()) for batch in read_batches(table) for row in batch.to_pylist()]


@pytest.mark.parametrize(
    "kinds",
    [
        {},
        {"piece": pa.large_string(), "count": pa.int32(), "language": pa.large_string()},
        {"piece": pa.binary(), "count": pa.uint64()},
        {"piece": pa.large_binary(), "count": pa.int8()},
        {"piece": pa.dictionary(pa.int32(), pa.string()), "language": pa.dictionary(pa.int8(), pa.string())},
    ],
)
def test_text_bytes_dictionaries_and_any_integers_are_read(tmp_path, kinds):
    assert rows_of(write(tmp_path / "a.parquet", kinds)) == WANTED


def test_rows_with_a_count_of_0_are_left_out(tmp_path):
    assert rows_of(write(tmp_path / "a.parquet", count=[3, 0, 2])) == [WANTED[0], WANTED[2]]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"count": [3, -7, 2]}, "count of the pre-token b' b' is -7"),
        ({"piece": ["a", None, "a"]}, "1 nulls in column 'piece'"),
        ({"count": [3, None, 2]}, "1 nulls in column 'count'"),
        ({"language": ["en", None, "en"]}, "1 nulls in column 'language'"),
        ({"count": [3.0, 1.5, 2.0]}, "the column 'count' has the type double"),
        ({"piece": [1, 2, 3]}, "the column 'piece' has the type int64"),
        ({"language": [], "piece": [], "count": []}, "has no rows"),
    ],
)
def test_wrong_columns_are_refused(tmp_path, changed, message):
    with pytest.raises(InputError, match=message):
        rows_of(write(tmp_path / "a.parquet", **changed))


def test_counts_beyond_64_bits_are_refused(tmp_path):
    pq.write_table(pa.table(ROWS | {"count": pa.array([1, 2**63, 1], pa.uint64())}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="a count is too large"):
        rows_of(CountTable(tmp_path / "a.parquet", "a", "s"))


def test_missing_columns_files_and_other_formats_are_refused(tmp_path):
    pq.write_table(pa.table({"language": ["en"], "piece": ["a"]}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="no column 'count'"):
        rows_of(CountTable(tmp_path / "a.parquet", "a", "s"))
    (tmp_path / "b.parquet").write_bytes(b"")
    with pytest.raises(InputError, match="the file cannot be read"):
        rows_of(CountTable(tmp_path / "b.parquet", "b", "s"))
    with pytest.raises(InputError, match="no such file"):
        rows_of(CountTable(tmp_path / "c.parquet", "c", "s"))


def test_a_damaged_table_with_a_manifest_is_refused(make_shard, tmp_path):
    path = tmp_path / "counts/a.parquet"
    count_shards(CountStage(pre_tokenizer="bloom"), [make_shard("s/00000", {"en": ["a b"]})], path)
    blob = bytearray(path.read_bytes())
    blob[len(blob) // 2] ^= 1
    path.write_bytes(blob)
    with pytest.raises(InputError, match="damaged"):
        rows_of(CountTable(path, "a", "s"))


def test_tables_are_found_in_files_and_folders(tmp_path):
    for name in ("c/web/00001", "c/web/00000", "c/books/00000", "d"):
        write(tmp_path / f"{name}.parquet")
    found = find_tables([tmp_path / "c"])
    assert [(table.name, table.source) for table in found] == [
        ("books/00000", "books"),
        ("web/00000", "web"),
        ("web/00001", "web"),
    ]
    assert [table.path for table in find_tables([tmp_path / "d.parquet", tmp_path / "c/web"])] == [
        tmp_path / "d.parquet",
        tmp_path / "c/web/00000.parquet",
        tmp_path / "c/web/00001.parquet",
    ]
    assert [table.name for table in find_tables([tmp_path / "c"], ["web/00001"])] == ["web/00001"]
    with pytest.raises(InputError, match="two count tables have the name"):
        find_tables([tmp_path / "d.parquet", tmp_path / "d.parquet"])
    (tmp_path / "link.parquet").symlink_to(tmp_path / "d.parquet")
    with pytest.raises(InputError, match="two count tables have the name"):
        find_tables([tmp_path / "d.parquet", tmp_path / "link.parquet"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no count tables"):
        find_tables([tmp_path / "empty"])


def test_the_pre_tokenizer_is_read_from_the_manifests(make_shard, tmp_path, capsys):
    shard = make_shard("s/00000", {"en": ["a b 1"]})
    stages = {"a": ("bloom", False), "b": ("bloom", False), "c": ("modern", True)}
    for name, (preset, split_digits) in stages.items():
        count_shards(CountStage(pre_tokenizer=preset, split_digits=split_digits), [shard], tmp_path / f"{name}.parquet")
    a, b, c = (CountTable(tmp_path / f"{name}.parquet", name, "s") for name in stages)
    foreign = write(tmp_path / "f.parquet")
    capsys.readouterr()
    assert pre_tokenizer_of([a, b]) == ("bloom", False)
    assert capsys.readouterr().err == ""
    assert pre_tokenizer_of([c, foreign]) == ("modern", True)
    assert "f.parquet: without a manifest" in capsys.readouterr().err
    assert pre_tokenizer_of([foreign]) is None
    with pytest.raises(InputError, match="'modern' with split_digits: true, but the table a was counted with 'bloom'"):
        pre_tokenizer_of([foreign, a, b, c])
