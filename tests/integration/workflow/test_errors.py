"""Test that errors are reported before anything runs, all at once and without a traceback."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from imported_folder import write_imported_folder
from snakemake_server import dry_run
from workflow_support import LOCAL, ROOT, SNAKEFILE, SNAKEMAKE, Workflow

pytestmark = pytest.mark.workflow


def test_all_problems_of_a_configuration_are_reported_at_once(fresh: Callable[..., Workflow]) -> None:
    workflow = fresh().changed("model.heads", 3).changed("tokenizer.vocab", 1).changed("seed", "x")
    talk = workflow.run(expect=2)
    assert "run.yaml: 4 problems" in talk
    assert "model.heads 3 must be divisible by training.parallel.tensor 2" in talk
    assert "tokenizer.vocab: unknown key (value 1); did you mean" in talk
    assert "seed: 'x' is not valid" in talk
    assert "hidden_size 32 must be divisible by heads 3" in talk
    assert "Traceback" not in talk
    assert not workflow.run_folder.exists()


def test_a_source_without_files_is_named(fresh: Callable[..., Workflow]) -> None:
    workflow = fresh()
    workflow.config["sources"][0]["paths"] = ["nowhere/*.jsonl"]
    talk = workflow.run(expect=2)
    assert "sources[texts].paths[0]: no file matches 'nowhere/*.jsonl'" in talk
    assert "Traceback" not in talk


def test_a_token_in_a_path_is_shown_as_written(fresh: Callable[..., Workflow], tmp_path: Path) -> None:
    secret = "hf_planted_secret_42"
    workflow = fresh()
    workflow.environment = os.environ | {"HF_TOKEN": secret}
    workflow.config["sources"][0]["paths"] = [f"{tmp_path}/${{HF_TOKEN}}/*.jsonl"]
    talk = workflow.run("--dry-run", expect=2)
    assert f"sources[texts].paths[0]: no file matches '{tmp_path}/${{HF_TOKEN}}/*.jsonl'" in talk
    assert secret not in talk
    (tmp_path / secret).mkdir()
    (tmp_path / secret / "bad.jsonl").write_text("not json\n" * 200)
    assert secret not in workflow.run("--dry-run", "corpus")
    # A job is another process, which must also print the name of the variable instead of its value.
    talk = workflow.run("corpus", expect=1)
    logs = [path for path in (workflow.run_folder / "logs").rglob("*.log") if path.is_file()]
    assert any("error:" in path.read_text() for path in logs)
    for text in (talk, *(path.read_text() for path in logs)):
        assert secret not in text


def test_a_key_written_twice_is_refused(fresh: Callable[..., Workflow]) -> None:
    workflow = fresh()
    command = workflow.command()
    path = workflow.folder / "run.yaml"
    path.write_text(path.read_text() + "name: again\n")
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "the key 'name' is written twice" in done.stderr


def test_a_failing_rule_shows_its_message_and_its_log(fresh: Callable[..., Workflow], tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text("not json\n" * 200)
    workflow = fresh()
    workflow.config["sources"][0]["paths"] = [str(bad)]
    talk = workflow.run("corpus", expect=1)
    log = workflow.run_folder / "logs/ingest/texts/00000.log"
    reason = next(line for line in log.read_text().splitlines() if line.startswith("error:"))
    assert reason in talk
    assert "logs/ingest/texts/00000.log" in talk
    assert "then resume with: " in talk
    assert "Traceback" not in log.read_text()


SHIPPED = sorted([*(ROOT / "config").glob("*.yaml"), *(ROOT / "config/models").glob("*.yaml")])


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_configuration_can_be_dry_run_without_a_network(path: Path, tmp_path: Path) -> None:
    texts = tmp_path / "corpus"
    texts.mkdir()
    (texts / "tokenizer").mkdir()
    for name in ("fr.jsonl.zst", "fr.idx", "fr.bin", "tokenizer/tokenizer.json"):
        (texts / name).write_bytes(b"")
    # Paths in the shipped files are relative to the repository.
    (tmp_path / "config").symlink_to(ROOT / "config")
    raw = yaml.safe_load(path.read_text())
    if (place := raw["training"].get("initial_checkpoint")) is not None:
        rows = raw["model"]["padded_vocabulary_size"]
        write_imported_folder(tmp_path / place, raw["model"], raw["tokenizer"]["vocabulary_size"], rows)
    folders = dict.fromkeys(("BLOOMERY_CORPUS", "BLOOMERY_TOKENS"), str(texts))
    environment = {**os.environ, **folders, "PATH": "/usr/bin:/bin", "HF_HUB_OFFLINE": "1"}
    arguments = [*SNAKEFILE, *LOCAL, "--directory", str(tmp_path), "--configfile", str(path), "--dry-run"]
    code, talk = dry_run(arguments, environment)
    assert code == 0, talk
    name, exported = raw["name"], raw.get("export", {}).get("enabled", True)
    assert re.search(r"^train_segment +1$", talk, flags=re.MULTILINE)
    assert bool(re.search(r"^export_model +1$", talk, flags=re.MULTILINE)) == exported
    assert (tmp_path / "runs" / name / "config/parts.json").exists()


@pytest.mark.parametrize(
    ("preset", "said"),
    [
        ("bert-4l", "can be planned, but not trained yet: model.family bert"),
        (
            "tr8-104b",
            "no class of transformers computes this network exactly (model.embedding_layernorm true), so the run could "
            "not export its model",
        ),
    ],
)
def test_a_model_that_cannot_be_trained_or_exported_is_refused_before_the_first_job(
    tmp_path: Path, preset: str, said: str
) -> None:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus/fr.jsonl").write_text('{"text": "une phrase", "lang": "fr"}\n')
    (tmp_path / "config").symlink_to(ROOT / "config")
    raw = yaml.safe_load((ROOT / f"config/models/{preset}.yaml").read_text())
    raw["sources"][0]["paths"] = ["corpus/*.jsonl"]
    raw.pop("export", None)  # a preset that has no exact class disables its export
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(raw))
    command = [*SNAKEMAKE, *LOCAL, "--directory", str(tmp_path), "--configfile", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    assert said in done.stderr
    assert not (tmp_path / f"runs/{preset}/corpus").exists()


def test_the_sample_is_the_default_and_is_never_merged_with_another_configuration(tmp_path: Path) -> None:
    (tmp_path / "config").symlink_to(ROOT / "config")
    command = [*SNAKEMAKE, *LOCAL, "--directory", str(tmp_path), "--dry-run"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs/sample").exists()
    only_a_name = tmp_path / "name.yaml"
    only_a_name.write_text("name: mine\n")
    done = subprocess.run([*command, "--configfile", str(only_a_name)], capture_output=True, text=True)
    assert done.returncode == 2
    assert "sources: [] is not valid" in done.stdout  # in a dry-run, Snakemake logs to stdout


def test_snakemake_lint_finds_no_problem() -> None:
    done = subprocess.run([*SNAKEMAKE, "--lint"], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0
    assert "Congratulations" in done.stderr
