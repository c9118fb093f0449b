"""Test the verbs of `bloomery cluster` without SLURM and with recorded output of SLURM."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from repository import ROOT

from bloomery.checks.load_config import load_config
from bloomery.config.site import read_site

pytestmark = pytest.mark.slow

DATA = ROOT / "tests/bloomery/orchestration/data"
ALL = ("--partition", "cpu", "--training-partition", "gpu", "--gpus-per-node", "8", "--max-minutes", "1200")


def bloomery(*arguments: str, cwd: Path, path: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if key not in ("BLOOMERY_SITE", "LOADEDMODULES", "SCRATCH")}
    own = {"PATH": path, "HOME": str(cwd), "XDG_CONFIG_HOME": str(cwd), "PYTHONPATH": str(ROOT), "WORK": ""}
    command = [sys.executable, "-m", "bloomery.cli", "cluster", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, env=kept | own | environment, stdin=subprocess.DEVNULL
    )


@pytest.fixture
def nothing(tmp_path: Path) -> str:
    (tmp_path / "bin").mkdir()
    return str(tmp_path / "bin")


@pytest.fixture
def slurm(nothing: str) -> str:
    """Return a folder of programs that print recorded SLURM 22.05 output of a cluster with eight GPUs a node."""
    for program, printed in (("sinfo", "sinfo_eight_gpus.txt"), ("scontrol", "scontrol_config.txt")):
        path = Path(nothing) / program
        path.write_text(f'#!/bin/sh\nwhile read -r line; do echo "$line"; done < {DATA / printed}\n')
        path.chmod(0o755)
    return nothing


def test_init_writes_the_detected_site(tmp_path: Path, slurm: str) -> None:
    done = bloomery("init", "--yes", cwd=tmp_path, path=slurm, LOADEDMODULES="gcc/12", SCRATCH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "partition gpu_100h, the default account; jobs of at most 100 h 0 min, one after another" in done.stdout
    assert "next\tbloomery cluster rehearse" in done.stdout
    text = (tmp_path / "site.yaml").read_text()
    assert "scratch: ${SCRATCH}" in text
    assert "modules: [gcc/12]" in text


def test_init_asks_no_questions_without_a_terminal(tmp_path: Path, slurm: str) -> None:
    done = bloomery("init", "--json", "--training-partition", "gpu_20h", "--qos", "long", cwd=tmp_path, path=slurm)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    training = report["site"]["training"]
    assert (training["partition"], training["max_minutes"], training["qos"]) == ("gpu_20h", 1200, "long")
    assert report["warnings"] == []


def test_init_keeps_an_existing_file_without_force(tmp_path: Path, slurm: str) -> None:
    (tmp_path / "site.yaml").write_text("account: mine\n")
    done = bloomery("init", "--yes", cwd=tmp_path, path=slurm)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--force to replace it" in done.stderr
    assert (tmp_path / "site.yaml").read_text() == "account: mine\n"
    assert bloomery("init", "--yes", "--force", cwd=tmp_path, path=slurm).returncode == 0
    assert read_site(tmp_path / "site.yaml").jobs.partition == "cpu"


def test_init_without_slurm_needs_its_answers_as_options(tmp_path: Path, nothing: str) -> None:
    done = bloomery("init", "--partition", "cpu", cwd=tmp_path, path=nothing)
    assert done.returncode == 1
    assert "all of --training-partition --gpus-per-node --max-minutes" in done.stderr
    assert not (tmp_path / "site.yaml").exists()
    done = bloomery("init", *ALL, "--modules", "a, b", "--output", "x/s.yaml", cwd=tmp_path, path=nothing)
    assert done.returncode == 0, done.stderr
    assert read_site(tmp_path / "x/s.yaml").modules == ["a", "b"]
    assert f"export BLOOMERY_SITE={tmp_path / 'x/s.yaml'}; bloomery cluster rehearse" in done.stdout


def test_init_refuses_a_wrong_answer(tmp_path: Path, nothing: str) -> None:
    done = bloomery("init", *ALL, "--account", "a;b", cwd=tmp_path, path=nothing)
    assert done.returncode == 2
    assert "account: 'a;b' is not valid" in done.stderr
    assert not (tmp_path / "site.yaml").exists()


def test_a_scheduler_without_an_answer_exits_with_code_75(tmp_path: Path, slurm: str) -> None:
    (Path(slurm) / "scontrol").write_text("#!/bin/sh\necho 'Unable to contact slurm controller' >&2\nexit 1\n")
    done = bloomery("init", "--yes", cwd=tmp_path, path=slurm)
    assert done.returncode == 75
    assert "Unable to contact slurm controller" in done.stderr


@pytest.mark.slow
def test_rehearse_writes_into_the_current_folder_and_prints_the_command_to_type(tmp_path: Path, nothing: str) -> None:
    assert bloomery("init", *ALL, cwd=tmp_path, path=nothing).returncode == 0
    done = bloomery("rehearse", str(ROOT / "config/sample.yaml"), cwd=tmp_path, path=nothing)
    assert done.returncode == 0, done.stderr
    command = "snakemake --profile slurm --configfile sample.rehearsal.yaml --set-resources train_segment:runtime=20"
    assert f"start it\t{command}" in done.stdout
    assert "16 = tensor 2 x pipeline 2 x data 4, on 2 nodes" in done.stdout
    assert load_config(tmp_path / "sample.rehearsal.yaml").training.parallel.world_size == 16
    # A second call replaces the file that the first call wrote, but a file of the user is never replaced.
    again = bloomery("rehearse", str(ROOT / "config/sample.yaml"), "--json", cwd=tmp_path, path=nothing)
    assert json.loads(again.stdout)["command"] == command
    (tmp_path / "mine.yaml").write_text("name: mine\n")
    kept = bloomery("rehearse", str(ROOT / "config/sample.yaml"), "--output", "mine.yaml", cwd=tmp_path, path=nothing)
    assert kept.returncode == 2
    assert (tmp_path / "mine.yaml").read_text() == "name: mine\n"


def test_rehearse_submits_only_from_the_folder_of_the_snakefile(tmp_path: Path, nothing: str) -> None:
    done = bloomery(
        "rehearse", str(ROOT / "config/sample.yaml"), "--nodes", "1", "--submit", cwd=tmp_path, path=nothing
    )
    assert done.returncode == 1
    assert "lacks the file `Snakefile` or the profile folder `slurm`" in done.stderr


def test_doctor_reports_problems_of_the_site_file_and_of_the_scheduler(
    tmp_path: Path, slurm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bloomery.commands.doctor_checks import FindingState, site
    from bloomery.commands.doctor_checks import slurm as scheduler

    monkeypatch.setenv("PATH", slurm)
    monkeypatch.setenv("BLOOMERY_SITE", str(tmp_path / "absent.yaml"))
    assert site().state is FindingState.WARN
    (tmp_path / "site.yaml").write_text("training: {gpus_per_node: 8}\n")
    monkeypatch.setenv("BLOOMERY_SITE", str(tmp_path / "site.yaml"))
    assert (site().state, site().found) == (FindingState.OK, str(tmp_path / "site.yaml"))
    (tmp_path / "site.yaml").write_text("gpus: 8\n")
    assert site().state is FindingState.WARN
    (tmp_path / "site.yaml").write_text("jobs: {partition: cpu}\ntraining: {partition: 'gpu_20h,gpu_40h'}\n")
    assert site().state is FindingState.WARN
    only = "so choose one of gpu_20h, gpu_100h, visu, cpu, old, archive"
    assert site().advice == f"training.partition: sinfo shows no partition 'gpu_40h', {only}"
    (Path(slurm) / "sinfo").write_text("#!/bin/sh\necho 'cannot reach the controller' >&2\nexit 1\n")
    assert (site().state, site().advice) == (FindingState.OK, ""), (
        "without an answer of sinfo, the site has no known problem"
    )
    assert (scheduler().state, scheduler().found) == (FindingState.WARN, "`sinfo` failed: cannot reach the controller")
    (Path(slurm) / "sinfo").write_text("#!/bin/sh\necho 'main* up 4 idle'\n")
    assert (scheduler().state, scheduler().advice) == (FindingState.OK, "")
