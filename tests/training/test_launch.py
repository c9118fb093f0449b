"""Test that the launcher fetches texts of incidents and treats temporary faults as crashes."""

from __future__ import annotations

from pathlib import Path

import pytest
from checkpoint_manifests import save_manifest
from fabricated_training import make_run, stage

from bloomery.base.atomic import write_json
from bloomery.base.errors import InputError
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import SegmentStatus
from training import launch
from training.launch import _outcome
from training.resume.resolve_resume import resolve_resume

CONFIGURATION = stage()


@pytest.mark.parametrize(
    ("exit_code", "status", "crashes"), [(75, SegmentStatus.CRASHED, 1), (1, SegmentStatus.FAILED, 0)]
)
def test_a_temporary_fault_counts_as_a_crash_and_other_faults_fail(
    tmp_path: Path, exit_code: int, status: SegmentStatus, crashes: int
) -> None:
    make_run(tmp_path, CONFIGURATION)
    paths = RunPaths(tmp_path)
    save_manifest(paths, CONFIGURATION, 2, 16)
    result = paths.segments / ".result-1.json"
    write_json(result, {"error": "train: Stale file handle", "exit_code": exit_code})
    segment, error = _outcome(resolve_resume(CONFIGURATION, paths), paths, 1, result, 1)
    assert (segment.status, segment.crashes, segment.message) == (status, crashes, "train: Stale file handle")
    assert segment.checkpoint == "step00000002"
    assert (error is None) == (status is SegmentStatus.CRASHED)


def test_a_contradictory_stage_file_is_refused_before_any_process_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stage file that was edited by hand has not passed the checks of the run's YAML."""
    monkeypatch.setattr(launch, "start_command", lambda *_: pytest.fail("started"))
    values = stage().model_dump(mode="json")
    values["training"]["batch"] |= {"micro_batch_size": 3, "global_batch_size": 8}
    config = tmp_path / "train.json"
    write_json(config, values)
    with pytest.raises(InputError, match="batch sizes 8 are not divisible by micro_batch_size") as refused:
        launch.launch_segment(config, tmp_path, 1, tmp_path / "1.json")
    assert refused.value.where == str(config)
    assert not RunPaths(tmp_path).train.exists()
