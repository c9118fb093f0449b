"""Test which checkpoint `training.initial_checkpoint` means, and which networks may start with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from changed_sample import changed, message
from imported_folder import write_imported_folder

from bloomery.base.digest import sha256_file
from bloomery.base.errors import ConfigError, InputError
from bloomery.checks.load_config import validate_config
from bloomery.contracts.initial_checkpoint import IMPORT_NAME, imported_checkpoint, initial_weights
from bloomery.orchestration.check_files import file_problems

MODEL = {"layers": 4, "hidden_size": 128, "heads": 4, "sequence_length": 128}
ROWS = {"vocabulary_multiple": 1, "padded_vocabulary_size": 302, "masked_rows": 1}


def raw(folder: Path, **model: Any) -> dict[str, Any]:
    """Return the sample's configuration, which starts with the imported model of 301 rows in `folder`."""
    return changed(
        tokenizer={"existing": str(folder / "tokenizer"), "vocabulary_size": 290},
        model=MODEL | ROWS | model,
        training__initial_checkpoint=str(folder),
    )


@pytest.fixture
def imported(tmp_path: Path) -> Path:
    write_imported_folder(tmp_path / "in", MODEL | {"padded_vocabulary_size": 301}, 290, 301)
    return tmp_path / "in"


def test_an_imported_folder_and_its_checkpoint_mean_the_same(imported: Path) -> None:
    found = initial_weights(validate_config(raw(imported)))
    assert found is not None
    assert found.digest == sha256_file(imported_checkpoint(imported) / "manifest.json")
    assert found.source == "owner/model at 0123abc"
    direct = raw(imported)
    direct["training"]["initial_checkpoint"] = str(imported_checkpoint(imported))
    other = initial_weights(validate_config(direct))
    assert other is not None
    assert (other.digest, other.source) == (found.digest, "the run imported")


def test_random_weights_need_no_checkpoint() -> None:
    assert initial_weights(validate_config(changed())) is None


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ({"layers": 5}, "another network: model.layers is 4 there and 5 here; expected: model.layers: 4"),
        ({"feed_forward_size": 256}, "model.feed_forward_size is 512 there and 256 here"),
        ({"positions": "rotary"}, "model.positions is 'alibi' there and 'rotary' here"),
        ({"masked_rows": 0}, "the embedding would have 302 rows that are not masked, but the checkpoint has 301; "),
        (
            {"padded_vocabulary_size": 304},
            "303 rows that are not masked, but the checkpoint has 301; expected: model.padded_vocabulary_size: 302 and "
            "model.masked_rows: 1",
        ),
    ],
)
def test_another_network_is_refused_before_the_run_starts(imported: Path, model: Any, said: str) -> None:
    config = validate_config(raw(imported, **model) | {"export": {"enabled": False}})
    with pytest.raises(ConfigError) as caught:
        initial_weights(config)
    assert said in str(caught.value)
    assert [problem.key for problem in file_problems(config) if "initial" in problem.key] == [
        "training.initial_checkpoint"
    ]


POSITIONS = ("alibi", "learned", "rotary")


@pytest.mark.parametrize("length", [128, 256])
@pytest.mark.parametrize("now", POSITIONS)
@pytest.mark.parametrize("before", POSITIONS)
def test_a_start_with_other_positions_is_refused(tmp_path: Path, before: str, now: str, length: int) -> None:
    write_imported_folder(tmp_path, MODEL | {"padded_vocabulary_size": 301, "positions": before}, 290, 301)
    values = raw(tmp_path, positions=now, sequence_length=length) | {"export": {"enabled": False}}
    said = []
    if before != now:
        said.append(f"model.positions is '{before}' there and '{now}' here")
    if before == "learned" and length != 128:
        said.append("model.sequence_length is 128 there and 256 here")
    problems = [each for each in file_problems(validate_config(values)) if "initial" in each.key]
    assert bool(problems) == bool(said)
    assert all(each in str(problems[0]) for each in said)
    assert before == "learned" or "sequence_length" not in str(problems)


@pytest.mark.parametrize("model", [{"sequence_length": 256}, {"init_std": 0.5}, {"stable_attention": False}])
def test_keys_that_do_not_change_the_network_may_differ(imported: Path, model: Any) -> None:
    assert initial_weights(validate_config(raw(imported, **model))) is not None


def test_a_missing_checkpoint_names_the_command_that_makes_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^training\.initial_checkpoint: .*bloomery import hf MODEL --output FOLDER"):
        initial_weights(validate_config(raw(tmp_path / "none")))


def test_a_damaged_record_is_named(imported: Path) -> None:
    (imported / IMPORT_NAME).write_text("{}")
    with pytest.raises(InputError, match=r"import\.json: not the record of an import"):
        initial_weights(validate_config(raw(imported)))


def test_a_start_with_a_checkpoint_needs_its_tokenizer() -> None:
    text = message(changed(training__initial_checkpoint="imports/a"))
    assert "training.initial_checkpoint is set, but tokenizer.existing is null" in text


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ({"padded_vocabulary_size": None}, "model.masked_rows 1 is set, but model.padded_vocabulary_size is null"),
        (
            {"padded_vocabulary_size": 290},
            "model.padded_vocabulary_size 290 is smaller than tokenizer.vocabulary_size 290 and model.masked_rows 1",
        ),
    ],
)
def test_masked_rows_belong_to_no_token(imported: Path, model: Any, said: str) -> None:
    assert said in message(raw(imported, **model))
