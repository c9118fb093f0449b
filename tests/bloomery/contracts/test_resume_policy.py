"""Test that the table of keys that may change on resume lists every key once and is in the documentation."""

from __future__ import annotations

from repository import ROOT
from typer.testing import CliRunner

from bloomery.cli import app
from bloomery.config.key_reference import json_schema, sections
from bloomery.config.stages import TrainStage
from bloomery.contracts.resume_policy import INITIAL, INITIAL_SOURCE, POLICY_OF, RULES, TOKENIZER, policy_table, rule_of

DOCS = ROOT / "docs" / "resume.md"


def all_keys() -> set[str]:
    """Return every key that a training reads, including those of sections and lists."""
    leaves = {key.path for _, _, keys in sections() for key in keys}
    own = {key for key in leaves if key.split(".")[0] in TrainStage.model_fields}
    assert {"seed", "name", "model.heads", "training.optimizer.beta2", "training.skip[].from_sample"} <= own
    return own


def test_every_key_has_one_policy() -> None:
    for key in all_keys():
        parts = key.replace("[]", "").split(".")
        named = [".".join(parts[:length]) for length in range(1, len(parts) + 1)]
        assert len([name for name in named if name in POLICY_OF]) == 1, f"{key} has not exactly one policy"
        assert rule_of(key).why


def test_the_table_names_only_existing_keys() -> None:
    keys = {key.replace("[]", "") for key in all_keys()} | {TOKENIZER, INITIAL, INITIAL_SOURCE}
    known = {".".join(key.split(".")[:length]) for key in keys for length in range(1, key.count(".") + 2)}
    assert set(POLICY_OF) <= known
    assert len(POLICY_OF) == sum(len(rule.keys) for rule in RULES), "the table must name each key only once"


def test_sections_with_several_policies_are_listed_by_key() -> None:
    """A new key in one of these sections needs its own entry in the table."""
    assert not {"model", "training", "training.optimizer"} & set(POLICY_OF)
    assert "training" in json_schema()["properties"]


def test_the_documentation_shows_the_table() -> None:
    assert policy_table() in DOCS.read_text(encoding="utf-8"), (
        "copy the output of `bloomery train policy` into docs/resume.md"
    )
    printed = CliRunner().invoke(app, ["train", "policy"])
    assert printed.exit_code == 0
    assert printed.stdout == policy_table()
