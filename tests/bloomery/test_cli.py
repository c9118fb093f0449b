"""The command line: quick, lazy, and an error is one readable message with its exit code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from repository import ROOT

from bloomery.cli import VERBS, load_verb


def bloomery(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bloomery.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, **options)  # type: ignore[call-overload,no-any-return]


def test_help_answers_in_under_04_seconds() -> None:
    def seconds(*arguments: str) -> float:
        before = os.times()
        subprocess.run([sys.executable, *arguments], capture_output=True, check=True, cwd=ROOT)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    # Processor time: it waits for nothing, and other work on the machine is not what is measured. Where an interpreter
    # alone takes longer than its 0.03 s, the machine is slow (the wall clock's figure is bench/startup.py's).
    assert any(seconds("-m", "bloomery.cli", "--help") < 0.4 * max(1, seconds("-c", "pass") / 0.03) for _ in range(4))


def test_help_names_every_verb_and_imports_none() -> None:
    code = (
        "import sys, bloomery.cli\n"
        "sys.argv = ['bloomery', '--help']\n"
        "try: bloomery.cli.main()\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'pyarrow', 'pydantic', 'data_prep', 'training', 'export', 'monitoring', 'numpy'}\n"
        "print('HEAVY', sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert "HEAVY []" in done.stdout
    for verb in VERBS:
        assert verb in done.stdout


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb: str) -> None:
    assert load_verb(verb).name == verb
    done = bloomery(verb, "--help")
    assert done.returncode == 0, done.stderr
    assert "Usage: bloomery" in done.stdout


def test_an_unknown_verb_names_the_nearest() -> None:
    done = bloomery("tokeniser")
    assert done.returncode == 2
    assert "Did you mean 'tokenizer'?" in done.stderr


def test_an_error_is_one_message_without_a_traceback() -> None:
    done = bloomery("config", "check", "absent.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: absent.yaml: no such file; expected: a run's YAML, e.g. config/sample.yaml\n"


def test_an_error_of_the_disk_is_one_message_too() -> None:
    program = """
import errno, sys
import bloomery.cli
def fail(**_):
    raise OSError(errno.ESTALE, "Stale file handle", "/runs/x/train")
bloomery.cli.app = fail
sys.exit(bloomery.cli.main())
"""
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert process.returncode == 75
    assert process.stderr.startswith("error: /runs/x/train: Stale file handle; expected: ")
    assert "Traceback" not in process.stderr


def test_check_says_what_the_run_will_be() -> None:
    done = bloomery("config", "check", "config/sample.yaml", "--json")
    figures = json.loads(done.stdout)
    assert figures["world_size"] == 4
    assert figures["stages"] == ["embed|2", "2|head"]
    plain = bloomery("config", "check", "config/sample.yaml").stdout
    assert f"{figures['parameters']:,}" in plain
    assert f"{figures['iterations']:,}" in plain


def test_show_prints_a_configuration_that_is_valid_again(tmp_path: Path) -> None:
    shown = tmp_path / "shown.yaml"
    shown.write_text(bloomery("config", "show", "config/sample.yaml").stdout)
    first = bloomery("config", "show", "config/sample.yaml", "--json").stdout
    assert bloomery("config", "show", str(shown), "--json").stdout == first
    deepspeed = json.loads(bloomery("config", "show", "config/sample.yaml", "--deepspeed").stdout)
    assert deepspeed["bf16"]["enabled"] is True


@pytest.mark.slow
def test_doctor_reports_as_json_and_never_shows_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret_of_this_test")
    done = bloomery("doctor", "--json")
    assert done.returncode == 0, done.stdout
    findings = {finding["name"]: finding for finding in json.loads(done.stdout)}
    assert {"Python", "CPU cores", "memory", "disk", "PyTorch", "DeepSpeed", "apex", "SLURM", "Hub", "npm"} <= set(
        findings
    )
    for kind in ("attention", "layer_norm", "optimizer"):
        assert re.fullmatch(r"\w+ \(.{6,}\)", findings[f"training.kernels.{kind}"]["found"]), kind
    assert "a token is there" in findings["Hub"]["found"]
    assert "hf_secret" not in done.stdout + done.stderr


def test_doctor_says_which_kernels_a_gpu_would_get(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the rules of training, for the GPU that PyTorch sees."""
    from bloomery.base.installed import Apex
    from bloomery.commands import doctor_checks

    def found(capability: list[int]) -> dict[str, str]:
        facts = {"version": "2.11", "cuda": "13.0", "gloo": True, "nccl": True, "gpus": ["NVIDIA H200"]}
        output = json.dumps(facts | {"capability": capability})
        monkeypatch.setattr(doctor_checks, "_run_python", lambda code: (True, output))
        return {finding.name: finding.found for finding in doctor_checks.torch()}

    monkeypatch.setattr(doctor_checks.installed, "apex", lambda: Apex.REAL)
    monkeypatch.setattr(doctor_checks.installed, "has", lambda module: module == "flash_attn")
    monkeypatch.setattr(doctor_checks.installed, "version", lambda distribution: (2, 8, 3))
    assert found([9, 0]) == {
        "PyTorch": "2.11, CUDA 13.0, gloo, nccl",
        "GPU": "1 x NVIDIA H200",
        "training.kernels.attention": "flash (flash-attn takes ALiBi's slopes, so no bias is read)",
        "training.kernels.layer_norm": "apex (NVIDIA's apex is installed)",
        "training.kernels.optimizer": "apex (NVIDIA's apex is installed)",
    }
    assert found([7, 0])["training.kernels.attention"].startswith("sdpa (flash: the GPU is older than ")


def test_doctor_knows_the_wrong_apex(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    from bloomery.commands.doctor_checks import State, apex

    (tmp_path / "apex").mkdir()
    (tmp_path / "apex/__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    assert apex().state is State.WARN
    assert "not NVIDIA's apex" in apex().found
    (tmp_path / "apex/normalization").mkdir()
    (tmp_path / "apex/normalization/fused_layer_norm.py").write_text("class FusedLayerNorm: ...\n")
    assert "without its CUDA kernels" in apex().found


def test_doctor_says_what_is_missing() -> None:
    from bloomery.commands import doctor_checks

    assert doctor_checks._run_python("import a_module_that_is_not_there") == (
        False,
        "ModuleNotFoundError: No module named 'a_module_that_is_not_there'",
    )
    assert doctor_checks.disk(Path("/proc")).state is not doctor_checks.State.OK


def test_summary_of_a_run_that_has_not_begun(tmp_path: Path) -> None:
    empty = bloomery("summary", "--run", str(tmp_path))
    assert (empty.returncode, empty.stdout) == (1, "")
    assert "not a run; expected: the folder of a run" in empty.stderr
    (tmp_path / "config").mkdir()
    (tmp_path / "config/parts.json").write_text("[]")
    done = bloomery("summary", "--run", str(tmp_path), "--json")
    facts = json.loads(done.stdout)
    assert (facts["corpus"], facts["training"], facts["models"]) == (None, None, [])
    assert facts["next"].startswith("snakemake --profile workflow/profiles/local --configfile CONFIG (")
    missing = bloomery("summary", "--run", str(tmp_path / "absent"))
    assert missing.returncode == 1
    assert "no such folder" in missing.stderr


@pytest.mark.parametrize("run", ["sample", "mine"])
def test_summary_says_the_command_of_the_cluster_where_the_run_was_on_one(tmp_path: Path, run: str) -> None:
    from bloomery.contracts.paths import RunPaths
    from monitoring.summary import ModelFacts, gather
    from monitoring.summary_cli import next_command

    paths = RunPaths(tmp_path / run)
    paths.config.mkdir(parents=True)
    local = "snakemake --profile workflow/profiles/local --configfile CONFIG"
    assert next_command(gather(paths.run)).startswith("make run (" if run == "sample" else f"{local} (")
    paths.monitoring.mkdir()
    paths.slurm_runs.write_text("0a1b\n")
    facts = gather(paths.run)
    assert next_command(facts).startswith("snakemake --profile slurm --configfile CONFIG (")
    facts.models.append(ModelFacts("m", "f", 1, 1, 0.0, 1e-4, True, "", ""))
    assert next_command(facts).startswith(
        "snakemake --profile slurm --configfile config/udhr.yaml"
        if run == "sample"
        else "snakemake --profile workflow/"
    )


def test_summary_of_a_corpus_from_which_nothing_was_removed() -> None:
    from monitoring.summary import CorpusFacts, Facts
    from monitoring.summary_cli import lines

    def said(removed: dict[str, int]) -> str:
        return dict(lines(Facts("runs/a", CorpusFacts(3, 0, 3, 9, 1, removed), None, None, [], None, {})))["removed"]

    assert said({}) == "0"
    assert said({"min_words": 2, "exact": 1}) == "3: 2 min words, 1 exact"
