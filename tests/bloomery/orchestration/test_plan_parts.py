"""Test that parts are planned from file names and sizes alone."""

import os
from pathlib import Path

import pytest

from bloomery.base.errors import ConfigError
from bloomery.config.corpus import IngestConfig
from bloomery.config.part_input import FilePiece, PartInput
from bloomery.config.sources import JsonlSource, MegatronSource, TextSource, UdhrSource
from bloomery.orchestration.plan_parts import plan_parts
from data_prep.corpus.rows import name_of

LIMITS = IngestConfig(shard_bytes=2048, max_document_bytes=1024)


def source(*paths: str) -> JsonlSource:
    return JsonlSource(name="s", kind="jsonl", paths=list(paths))


def test_files_are_sorted_and_grouped_up_to_the_shard_size(tmp_path: Path) -> None:
    for name, size in [("d", 2000), ("a", 1000), ("c", 100), ("b", 1048), ("e", 5), ("f", 0)]:
        (tmp_path / f"{name}.jsonl").write_bytes(b"x" * size)
    parts = plan_parts(source(f"{tmp_path}/*.jsonl", f"{tmp_path}/a.jsonl"), LIMITS)
    assert [[Path(name).stem for name in part.files or []] for part in parts] == [["a", "b"], ["c"], ["d", "e", "f"]]
    assert not any(part.piece for part in parts)


def test_a_large_file_is_cut_into_pieces_of_the_shard_size(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_bytes(b"x" * 4097)
    for name in ("a", "c", "d"):
        (tmp_path / f"{name}.jsonl").write_bytes(b"x" * 10)
    parts = plan_parts(source(f"{tmp_path}/*.jsonl"), LIMITS)
    assert [Path(name).stem for part in parts for name in part.files or []] == ["a", "b", "b", "b", "c", "d"]
    assert [part.piece for part in parts] == [None, *(FilePiece(number=number, of=3) for number in range(3)), None]
    assert len(plan_parts(source(f"{tmp_path}/b.jsonl"), LIMITS)) == 3


@pytest.mark.parametrize(("documents", "pieces"), [("line", 3), ("file", 1), ("paragraph", 1)])
def test_a_text_file_is_cut_only_if_each_line_is_a_document(tmp_path: Path, documents: str, pieces: int) -> None:
    (tmp_path / "a.txt").write_bytes(b"x\n" * 3000)
    text = TextSource(name="s", kind="text", paths=[f"{tmp_path}/a.txt"], documents=documents)
    assert len(plan_parts(text, LIMITS)) == pieces


def test_a_pattern_searches_folders_and_an_existing_name_with_brackets_is_literal(tmp_path: Path) -> None:
    (tmp_path / "x" / "y").mkdir(parents=True)
    (tmp_path / "x" / "y" / "deep.jsonl").write_text("{}")
    (tmp_path / "odd[1].jsonl").write_text("{}")
    parts = plan_parts(source(f"{tmp_path}/**/deep*", f"{tmp_path}/odd[1].jsonl"), LIMITS)
    assert [Path(name).name for name in parts[0].files or []] == ["odd[1].jsonl", "deep.jsonl"]


def names(*parts: PartInput) -> list[str]:
    return [name_of(file) for part in parts for file in part.files or []]


def test_files_with_the_same_name_in_several_folders_get_different_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in "ab":
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "en.jsonl").write_bytes(b"x" * 1500)
    expected = ["a/en.jsonl", "b/en.jsonl"]
    for paths in [f"{tmp_path}/*/en.jsonl"], [f"{tmp_path}/a/en.jsonl", f"{tmp_path}/b/*.jsonl"]:
        parts = plan_parts(source(*paths), LIMITS)
        assert [len(part.files or []) for part in parts] == [1, 1]
        assert names(*parts) == names(*plan_parts(source(*paths), IngestConfig())) == expected
    monkeypatch.chdir(tmp_path)
    assert names(*plan_parts(source("*/en.jsonl"), LIMITS)) == expected
    monkeypatch.chdir("a")
    parts = plan_parts(source("../*/en.jsonl"), LIMITS)
    assert names(*parts) == expected
    assert all(Path(file).is_file() for part in parts for file in part.files or [])
    # The names of the files do not include the folder in the pattern, so the data may move to another folder.
    assert names(*plan_parts(source("en.jsonl"), LIMITS)) == names(*plan_parts(source(f"{tmp_path}/a/*"), LIMITS))


@pytest.mark.parametrize("pattern", ["*.jsonl", "en\udcff.jsonl"])
def test_a_file_name_that_is_not_utf8_is_refused(tmp_path: Path, pattern: str) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/en\xff.jsonl")).write_text("{}")
    with pytest.raises(ConfigError, match=r"en\\udcff\.jsonl' is not UTF-8"):
        plan_parts(source(f"{tmp_path}/{pattern}"), LIMITS)


@pytest.mark.parametrize("pattern", ["nothing/*.jsonl", "."])
def test_a_pattern_without_files_is_refused_with_its_key(tmp_path: Path, pattern: str) -> None:
    (tmp_path / "a.jsonl").write_text("{}")
    with pytest.raises(ConfigError, match=r"sources\[s\]\.paths\[1\]"):
        plan_parts(source(f"{tmp_path}/a.jsonl", f"{tmp_path}/{pattern}"), LIMITS)


def test_a_source_without_files_is_one_part() -> None:
    assert plan_parts(UdhrSource(name="u", kind="udhr"), LIMITS) == [PartInput(None)]


def megatron(*paths: str) -> MegatronSource:
    return MegatronSource(name="m", kind="megatron", paths=list(paths), language="fr")


def test_each_pair_of_token_files_is_a_part(tmp_path: Path) -> None:
    for name in ("b.fr", "a", "a.1"):
        for end in (".idx", ".bin"):
            (tmp_path / f"{name}{end}").write_bytes(b"x" * 5000)
    parts = plan_parts(megatron(f"{tmp_path}/b.fr", f"{tmp_path}/a*.idx", f"{tmp_path}/a.idx"), LIMITS)
    expected = [[f"{tmp_path}/{name}{end}" for end in (".idx", ".bin")] for name in ("a.1", "a", "b.fr")]
    assert [part.files for part in parts] == expected
    assert plan_parts(megatron(f"{tmp_path}/*"), LIMITS) == parts


def test_a_missing_token_file_is_refused_with_its_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"sources\[m\].paths\[0\]: no file matches"):
        plan_parts(megatron(f"{tmp_path}/a"), LIMITS)
    (tmp_path / "a.idx").touch()
    with pytest.raises(ConfigError, match=r"sources\[m\].paths: no file .*a\.bin"):
        plan_parts(megatron(f"{tmp_path}/a"), LIMITS)


@pytest.mark.parametrize("part", ["<y>", "{x}", "{source,[a-z]+}", "<a_1>"])
@pytest.mark.parametrize("place", ["file", "folder"])
def test_a_name_that_snakemake_would_change_is_refused_with_its_key(tmp_path: Path, part: str, place: str) -> None:
    path = tmp_path / f"en{part}.jsonl" if place == "file" else tmp_path / part / "en.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_text("{}")
    for pattern in (str(path), str(tmp_path / "**/*.jsonl")):
        source = JsonlSource(name="web", kind="jsonl", paths=[pattern])
        with pytest.raises(ConfigError) as caught:
            plan_parts(source, IngestConfig())
        assert caught.value.where == "sources[web].paths[0]"
        assert f"{part!r}, which Snakemake would replace" in caught.value.what
        assert caught.value.expected is not None
        assert "rename the file" in caught.value.expected


def test_a_name_may_contain_any_other_character(tmp_path: Path) -> None:
    name = "en <Y> < > { ( * ? [1] \n ' \" $(x) \\ #.jsonl"
    (tmp_path / name).write_text("{}")
    source = JsonlSource(name="web", kind="jsonl", paths=[str(tmp_path / name)])
    assert plan_parts(source, IngestConfig()) == [PartInput([str(tmp_path / name)])]
