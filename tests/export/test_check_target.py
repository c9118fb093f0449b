"""Test that an export deletes nothing but an earlier export, and that it refuses other folders before it reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from bloomery.base.errors import ConfigError, InputError
from bloomery.cli import app
from bloomery.config.delivery import ExportConfig
from bloomery.config.model import ModelConfig
from bloomery.config.stages import ExportStage
from bloomery.contracts.paths import RunPaths
from export.check_target import check_target
from export.export_model import export_model
from export.foreign_export import ForeignSettings, export_foreign


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a checkpoint. The working directory is the folder that contains `work/checkpoints`."""
    monkeypatch.chdir(tmp_path)
    folder = Path("work/checkpoints/global_step1")
    folder.mkdir(parents=True)
    (folder / "layer").touch()
    return folder


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (".", "this path has no name of its own"),
        ("..", "this path has no name of its own"),
        ("/", "this path has no name of its own"),
        ("new/..", "this path has no name of its own"),
        ("work/checkpoints", "the output contains work/checkpoints/global_step1, which the export reads"),
        ("work", "the output contains work/checkpoints/global_step1"),
        ("work/checkpoints/global_step1", "the output is the folder that the export reads"),
        ("work/other/../checkpoints/global_step1", "the output is the folder that the export reads"),
        ("work/checkpoints/global_step1/out", "the output is inside work/checkpoints/global_step1"),
        ("link", "the output contains work/checkpoints/global_step1"),
        ("link/global_step1/out", "the output is inside work/checkpoints/global_step1"),
        ("loop", "the output is a symbolic link"),
        ("other link", "the output is a symbolic link"),
        ("notes", r"neither empty nor an earlier export, because it has no parity\.json"),
        ("file", "the output is a file"),
    ],
)
def test_a_target_that_is_no_new_folder_is_refused(source: Path, target: str, message: str) -> None:
    Path("link").symlink_to("work/checkpoints")
    Path("other link").symlink_to("empty")
    Path("loop").symlink_to("loop")
    Path("file").touch()
    Path("empty").mkdir()
    Path("notes").mkdir()
    (Path("notes") / "thesis.txt").touch()
    with pytest.raises(InputError, match=message) as caught:
        check_target(Path(target), source)
    assert caught.value.where == str(Path(target))
    assert caught.value.expected is not None
    assert "--output" in caught.value.expected


def test_a_source_that_is_a_link_into_the_target_is_found(source: Path) -> None:
    Path("latest").symlink_to(source)
    with pytest.raises(InputError, match="the output contains latest"):
        check_target(Path("work/checkpoints"), Path("latest"))


@pytest.mark.parametrize("target", ["new", "work/new", "work/checkpoints/new", "empty", "earlier", "link/new"])
def test_a_new_folder_an_empty_one_and_an_earlier_export_are_accepted(source: Path, target: str) -> None:
    Path("link").symlink_to("empty")
    for name in ("empty", "earlier"):
        Path(name).mkdir()
    for name in ("parity.json", "model.safetensors"):
        (Path("earlier") / name).touch()
    check_target(Path(target), source)


def test_an_export_of_deepspeed_refuses_before_it_reads(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("export.foreign_export.open_checkpoint", lambda *_: pytest.fail("the checkpoint was opened"))
    with pytest.raises(InputError, match="the output contains"):
        export_foreign(source, source.parent, ForeignSettings())
    assert (source / "layer").exists()


@pytest.mark.parametrize("target", ["runs/x", "runs", "runs/x/train/checkpoints/step1/out", "runs/x/corpus"])
def test_an_export_of_a_run_refuses_before_it_reads(tmp_path: Path, target: str) -> None:
    (tmp_path / "runs/x/corpus/clean").mkdir(parents=True)
    model = ModelConfig(layers=1, hidden_size=8, heads=2, sequence_length=8)
    stage = ExportStage(name="x", model_name="x", export=ExportConfig(), model=model, licences={})
    with pytest.raises(InputError, match=r"the output |neither empty nor an earlier export"):
        export_model(stage, RunPaths(tmp_path / "runs/x"), tmp_path / target)
    assert (tmp_path / "runs/x/corpus/clean").is_dir()


@pytest.mark.parametrize("value", ["inf", "nan", "-1", "0"])
def test_a_tolerance_that_is_no_positive_number_is_refused(source: Path, value: str) -> None:
    command = ["export", "deepspeed", str(source), "--output", "out", f"--tolerance={value}"]
    found = CliRunner().invoke(app, command)
    assert isinstance(found.exception, ConfigError)
    assert f"--tolerance is {value}; expected: a positive number" in str(found.exception)
