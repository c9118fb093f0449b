from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from bloomery.base.typed_command import typed_command


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("snakemake", "python"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin")
    monkeypatch.chdir(tmp_path)
    return folder


def test_a_program_on_the_path_variable_is_called_by_its_name(programs: Path) -> None:
    typed = ["--profile", "slurm", "--configfile", "my run.yaml"]
    assert (
        typed_command([str(programs / "snakemake"), *typed]) == "snakemake --profile slurm --configfile 'my run.yaml'"
    )


def test_a_program_outside_the_path_variable_is_called_by_its_path(programs: Path, tmp_path: Path) -> None:
    other = tmp_path / ".venv" / "bin" / "snakemake"
    other.parent.mkdir(parents=True)
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    assert typed_command([str(other), "all"]) == ".venv/bin/snakemake all"


def test_a_module_is_called_through_python(programs: Path) -> None:
    arguments = ["/lib/site-packages/snakemake/__main__.py", "all"]
    assert typed_command(arguments, str(programs / "python")) == "python -m snakemake all"


def test_a_program_on_the_command_line_is_not_repeated(programs: Path) -> None:
    assert typed_command(["-c", "x"], str(programs / "python")) == "python -c ... x"


def test_the_command_of_this_process_begins_with_its_program() -> None:
    first, *_ = shlex.split(typed_command())
    assert shutil.which(first)
