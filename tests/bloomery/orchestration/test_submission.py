"""Test after which failures of sbatch the submission is repeated, and how a refusal is shown."""

from __future__ import annotations

import pytest

from bloomery.orchestration.submission import is_temporary, refusal

# Messages of SLURM 22.05.
_AWAY = (
    "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
    "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)",
    "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
    "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying",
    "squeue --noheader: no answer within 30 s",
)
_REFUSED = (
    "sbatch: error: Batch job submission failed: Invalid partition name specified",
    "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified",
    "sbatch: error: Batch job submission failed: Requested time limit is invalid (missing or exceeds some limit)",
    "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size "
    "and/or time limits)",
    "sbatch: error: Batch job submission failed: Requested node configuration is not available",
)


@pytest.mark.parametrize("message", _AWAY)
def test_a_scheduler_that_is_away_is_a_temporary_failure(message: str) -> None:
    assert is_temporary(message)


@pytest.mark.parametrize("message", _REFUSED)
def test_a_refused_job_is_not_submitted_again(message: str) -> None:
    assert not is_temporary(message)


def test_the_error_of_a_refused_job_has_the_words_of_sbatch_and_not_its_command() -> None:
    # This is how version 2.8 of Snakemake's plugin reports a failed sbatch.
    message = (
        "SLURM sbatch failed. The error message was 'sbatch: error: invalid partition specified: nowhere\n"
        "sbatch: error: Batch job submission failed: Invalid partition name specified'.\n    sbatch call:\n"
    )
    assert refusal(message) == (
        "SLURM refused the job: invalid partition specified: nowhere Batch job submission failed: Invalid partition "
        "name specified"
    )
