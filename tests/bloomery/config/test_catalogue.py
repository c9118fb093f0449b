"""Test that a catalogue equals the same sources in YAML, and that its errors name line and column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from repository import ROOT

from bloomery.base.errors import ConfigError
from bloomery.checks.load_config import load_config, validate_config
from bloomery.config.run import RunConfig
from bloomery.orchestration.stage_sections import stage_sections

SAMPLE: dict[str, Any] = yaml.safe_load((ROOT / "config/sample.yaml").read_text())


def table(folder: Path, *rows: str, name: str = "sources.csv") -> Path:
    path = folder / name
    path.write_text("".join(row + "\n" for row in rows))
    return path


def load(path: Path, **changes: Any) -> RunConfig:
    return validate_config(
        {**SAMPLE, "sources": [], "catalogue": path if isinstance(path, int) else str(path), **changes}
    )


def message(path: Path, **changes: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        load(path, **changes)
    return str(caught.value)


def test_a_row_gives_the_same_source_as_yaml(tmp_path: Path) -> None:
    path = table(
        tmp_path,
        "name,kind,paths,language,licence,weight,priority,trust_language,max_bad_share,languages,documents,,",
        'news,jsonl, a/*.jsonl ; "b,c.jsonl" ,fr,CC-BY-4.0,2.5,-1,true,0.2,,,,',
        "",
        "rights,udhr,,,,,,,,fr;sw",
        'lines,text,"x y.txt",,,,,,,,line',
    )
    sources = [
        {
            "name": "news",
            "kind": "jsonl",
            "paths": ["a/*.jsonl", '"b,c.jsonl"'],
            "language": "fr",
            "licence": "CC-BY-4.0",
            "weight": 2.5,
            "priority": -1,
            "trust_language": True,
            "max_bad_share": 0.2,
        },
        {"name": "rights", "kind": "udhr", "languages": ["fr", "sw"]},
        {"name": "lines", "kind": "text", "paths": ["x y.txt"], "documents": "line"},
    ]
    path.write_text(path.read_text().replace(' a/*.jsonl ; "b,c.jsonl" ', '" a/*.jsonl ; ""b,c.jsonl"" "'))
    written = validate_config({**SAMPLE, "sources": sources})
    assert load(path) == written
    assert load(path, sources=SAMPLE["sources"]).sources == [*validate_config(SAMPLE).sources, *written.sources]


def test_tabs_and_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    path = tmp_path / "sources.tsv"
    path.write_bytes(b"\xef\xbb\xbfname\tkind\tpaths\r\na\tjsonl\tx,y.jsonl\r\n")
    assert load(path).sources[0].paths == ["x,y.jsonl"]  # type: ignore[union-attr]


def test_a_catalogue_alone_is_enough_and_its_cells_may_use_environment_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table(tmp_path, "name,kind,paths", "a,jsonl,${BLOOMERY_TEST_FOLDER}/x.jsonl")
    raw = {key: value for key, value in SAMPLE.items() if key != "sources"}
    raw["catalogue"] = "${BLOOMERY_TEST_FOLDER}/sources.csv"
    monkeypatch.delenv("BLOOMERY_TEST_FOLDER", raising=False)
    with pytest.raises(ConfigError, match="catalogue: environment variable BLOOMERY_TEST_FOLDER is not set"):
        validate_config(raw)
    monkeypatch.setenv("BLOOMERY_TEST_FOLDER", str(tmp_path))
    config = validate_config(raw)
    assert config.sources[0].paths == [f"{tmp_path}/x.jsonl"]  # type: ignore[union-attr]
    # The output of `bloomery config show` must be a valid configuration.
    assert validate_config(config.model_dump(mode="json")) == config


def test_problems_of_rows_name_line_and_column_and_are_reported_with_all_others(tmp_path: Path) -> None:
    path = table(
        tmp_path,
        "name,kind,paths,weight,documents,recipe",
        "a,jsonl,x,much,,",
        'b,text,"x',
        '",,line,gentel',
        "a,jsonl,x,,file,",
        "c,txt,x,,,",
        "d,jsonl,,-1,,",
    )
    text = message(path, seed=-1, corpus={"judge": {"recipes": {"gentle": {"min_words": 3}}}})
    for part in (
        f"{path}, line 2, column weight: 'much' is not valid",
        f"{path}, line 3, column recipe: 'gentel' is not a recipe in corpus.judge.recipes (did you mean 'gentle'?)",
        f"{path}, line 5, column documents: unknown key (value 'file'); only sources of another kind have",
        f"{path}, line 5, column name: sources: several sources have the name 'a'",
        f"{path}, line 6, column kind: 'txt' is not valid; expected: one of 'jsonl', 'parquet'",
        f"{path}, line 7, column paths: missing",
        f"{path}, line 7, column weight: '-1' is not valid",
        "seed: -1 is not valid",
    ):
        assert text.count(part) == 1, part
    assert text.startswith("config: 8 problems")


def test_problems_of_yaml_sources_keep_their_key_paths(tmp_path: Path) -> None:
    path = table(tmp_path, "name,kind,paths", "a,jsonl,")
    text = message(path, sources=[{"name": "a", "kind": "jsonl"}])
    assert "sources[0].paths: missing" in text
    assert f"{path}, line 2, column paths: missing" in text


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (["name,kind,licnece"], "line 1: column 'licnece' is not a key of a source (did you mean 'licence'?)"),
        (["name,kind,name"], "line 1: column 'name' appears more than once"),
        (["name,paths"], "line 1: column 'kind' is missing"),
        ([], "line 1: column 'name' is missing"),
        (["name,kind", "a,jsonl,x"], "line 2: the row has 3 cells; expected: at most 2 cells"),
        (["name,kind", 'a,"jsonl'], "cannot be read (a quote that is not closed"),
    ],
)
def test_an_invalid_table_of_sources_is_refused(tmp_path: Path, rows: list[str], says: str) -> None:
    assert says in message(table(tmp_path, *rows))


def test_a_missing_or_unsuitable_catalogue_file_is_refused(tmp_path: Path) -> None:
    assert "no such file; expected: as the value of the key `catalogue`, the path of an existing" in message(
        tmp_path / "none.csv"
    )
    assert "the file name ends in neither .csv nor .tsv; expected: a table of sources" in message(
        table(tmp_path, "name,kind", name="sources.xlsx")
    )
    assert "at least one source, in `sources` or in the table that `catalogue` names" in message(
        table(tmp_path, "name,kind")
    )
    assert "catalogue: 5 is not valid" in message(5)  # type: ignore[arg-type]


def test_the_shipped_catalogue_sets_the_stages_sections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    config = load_config(Path("config/catalogue.yaml"))
    assert [source.name for source in config.sources] == ["europe", "africa", "code"]
    assert [source.weight for source in config.sources] == [2.0, None, 0.5]
    judge = stage_sections(config)["judge"]
    assert judge.recipe_of == {"africa": "gentle"}  # type: ignore[attr-defined]
    assert judge.trusted_sources == ["africa"]  # type: ignore[attr-defined]
