"""Test which GPUs a process was given, by the variables of the site, CUDA and SLURM."""

from __future__ import annotations

import pytest

from training.parallel.given_gpus import GPUS_PER_NODE, given_gpus


@pytest.mark.parametrize(
    ("environment", "count"),
    [
        ({}, None),
        ({GPUS_PER_NODE: "0"}, None),
        ({"CUDA_VISIBLE_DEVICES": ""}, None),
        ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, None),
        ({"CUDA_VISIBLE_DEVICES": "", "SLURM_JOB_GPUS": "0,1"}, None),
        ({"CUDA_VISIBLE_DEVICES": "0,1"}, 2),
        ({"CUDA_VISIBLE_DEVICES": "", GPUS_PER_NODE: "8"}, 8),
        ({"SLURM_JOB_GPUS": "0,1,2"}, 3),
        ({"SLURM_GPUS_ON_NODE": "4"}, 4),
        ({"SLURM_GPUS_ON_NODE": "gpu:a100:4"}, 4),
        ({"SLURM_GPUS_ON_NODE": "0"}, None),
    ],
)
def test_the_first_source_that_says_something_counts(environment: dict[str, str], count: int | None) -> None:
    given = given_gpus(environment)
    assert (None if given is None else given[0]) == count
