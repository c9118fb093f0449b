"""Test the shell prefix of a job, and that no job's environment contains the token."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from bloomery.config.site import Site
from bloomery.contracts.paths import RunPaths
from bloomery.orchestration.slurm_jobs import remember_workflow, shell_prefix, workflow_names


def bash(prefix: str, command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", prefix + command], capture_output=True, text=True, env={**os.environ, **environment}
    )


def test_without_a_site_the_prefix_only_sets_strict_mode():
    assert shell_prefix(Site()) == "set -euo pipefail; "


def test_modules_are_loaded_in_order_before_strict_mode(tmp_path):
    site = Site.model_validate({"modules": ["gcc/12", "cuda/12.4"]})
    module = 'module() { echo module "$@" "${UNSET_VARIABLE}"; }; '
    done = bash(module + shell_prefix(site), "echo rule; false | true; echo not reached")
    assert done.stdout.splitlines() == ["module load gcc/12 cuda/12.4 ", "rule"]


def test_temporary_files_are_written_to_scratch(tmp_path):
    done = bash(shell_prefix(Site.model_validate({"scratch": str(tmp_path)})), 'cd "$TMPDIR"; pwd', USER="ada")
    assert done.stdout.strip() == str(tmp_path / "bloomery-ada")


def test_the_folder_for_temporary_files_is_created_for_its_owner_alone(tmp_path):
    site = Site.model_validate({"scratch": str(tmp_path / "fast")})
    for _ in range(2):
        assert bash(shell_prefix(site), "echo rule", USER="ada").stdout == "rule\n"
    assert (tmp_path / "fast" / "bloomery-ada").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("kind", ["writable by others", "a link", "a file", "of another user"])
def test_a_folder_for_temporary_files_that_others_may_change_ends_the_job(tmp_path, kind):
    place = tmp_path / "bloomery-ada"
    if kind == "a link":
        (tmp_path / "other").mkdir()
        place.symlink_to(tmp_path / "other")
    elif kind == "a file":
        place.touch()
    else:
        place.mkdir()
        if kind == "of another user":
            # Only root can change the owner of a folder. Other users test with a folder that belongs to root.
            if os.getuid() == 0:
                os.chown(place, 12345, 12345)
            else:
                place.rmdir()
                place.symlink_to("/")
        else:
            place.chmod(0o777)
    site = Site.model_validate({"scratch": str(tmp_path)})
    done = subprocess.run(
        ["bash", "-c", shell_prefix(site) + "echo rule"],
        capture_output=True,
        text=True,
        env=os.environ | {"USER": "ada"},
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert f"error: {place}: the folder for temporary files belongs to another user" in done.stderr
    assert "`scratch`" in done.stderr


def test_programs_run_in_the_container_and_the_launcher_runs_outside(tmp_path):
    for name in ("apptainer", "bloomery"):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\necho {name} "$@"\n')
        program.chmod(0o755)
    site = Site.model_validate({"container": "/images/b.sif", "container_options": ["--nv", "--bind=/scratch"]})
    done = bash(
        shell_prefix(site), "bloomery index 'a b'; command bloomery train", PATH=f"{tmp_path}:{os.environ['PATH']}"
    )
    assert done.stdout.splitlines() == [
        "apptainer exec --nv --bind=/scratch /images/b.sif bloomery index a b",
        "bloomery train",
    ]


def test_the_token_is_removed_from_the_environment_but_local_programs_find_it():
    code = """
import os, subprocess, sys
from bloomery.orchestration.slurm_jobs import hide_token
hide_token()
assert not [key for key, value in os.environ.items() if "secret" in value]
ask = [sys.executable, "-c", "from huggingface_hub import get_token; print(get_token())"]
print(subprocess.run(ask, capture_output=True, text=True, check=True).stdout)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "HF_TOKEN": "hf_" + "secret", "HUGGING_FACE_HUB_TOKEN": "hf_" + "secret"},
    )
    assert done.stdout.strip() == "hf_" + "secret", done.stderr


def test_the_slurm_run_ids_of_the_last_20_workflows_are_stored(tmp_path):
    paths = RunPaths(tmp_path / "run")
    assert workflow_names(paths) == []
    log = tmp_path / "snakemake.log"
    for number in range(30):
        log.write_text(f"host: x\nSLURM run ID: name-{number}\nJob 1\n")
        remember_workflow(paths, [log])
    log.write_text("a workflow without SLURM\n")
    remember_workflow(paths, [log])
    assert workflow_names(paths) == [f"name-{number}" for number in range(10, 30)]
