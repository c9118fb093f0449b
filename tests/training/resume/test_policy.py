"""The table of what may change on resume: it holds every key, once, and the documentation shows it."""

from __future__ import annotations

from repository import ROOT
from typer.testing import CliRunner

from bloomery.cli import app
from bloomery.config.key_reference import json_schema, sections
from bloomery.config.stages import TrainStage
from training.resume.policy import POLICY_OF, RULES, TOKENIZER, policy_table, rule_of

DOCS = ROOT / "docs" / "resume.md"


def all_keys() -> set[str]:
    """Every key that a training sees, of sections and lists too."""
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


def test_the_table_names_no_key_that_is_not_there() -> None:
    keys = {key.replace("[]", "") for key in all_keys()} | {TOKENIZER}
    known = {".".join(key.split(".")[:length]) for key in keys for length in range(1, key.count(".") + 2)}
    assert set(POLICY_OF) <= known
    assert len(POLICY_OF) == sum(len(rule.keys) for rule in RULES), "a key is named twice"


def test_sections_with_more_than_one_policy_are_told_apart_by_key() -> None:
    """A key that is added to one of these needs a line of its own."""
    assert not {"model", "training", "training.optimizer"} & set(POLICY_OF)
    assert "training" in json_schema()["properties"]


def test_the_documentation_shows_the_table() -> None:
    assert policy_table() in DOCS.read_text(encoding="utf-8"), "bloomery train policy prints it"
    printed = CliRunner().invoke(app, ["train", "policy"])
    assert printed.exit_code == 0
    assert printed.stdout == policy_table()
