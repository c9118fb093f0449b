"""Estimate the duration of a training on this machine from a probe: a few steps of its real shape."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bloomery.base.atomic import read_json
from bloomery.base.errors import ResourceError
from bloomery.config.run import RunConfig
from bloomery.config.stages import TrainStage, write_stage
from bloomery.spec.duration import micro_batches
from bloomery.spec.flops import iteration_flops
from bloomery.spec.parameters import planned_rows
from bloomery.spec.trajectory import trajectory

SECONDS = 20.0
"""Time after which a probe starts no further step."""
_TIMEOUT_SECONDS = 600
_FORWARD_SHARE = {"full": 1 / 4, "selective": 1 / 3, "none": 1 / 3}
"""Share of a micro-batch's time that the forward pass takes, by `training.activation_checkpointing`."""


@dataclass(frozen=True)
class Probe:
    """Times of a training's steps on this machine."""

    micro_batch_seconds: float
    """Time of the forward and backward pass of a micro-batch."""
    update_seconds: float
    """Time of an optimizer update."""
    start_seconds: float
    """Time from the start of a process to its first step."""
    steps: int
    """Number of steps that were run."""

    def iteration_seconds(self, config: RunConfig, batch_samples: int) -> float:
        """Return the time of an iteration of `batch_samples` samples."""
        return micro_batches(config, batch_samples) * self.micro_batch_seconds + self.update_seconds

    def flops(self, config: RunConfig) -> float:
        """Return the operations per second of all devices together at the full batch, without recomputation."""
        batch = config.training.batch.global_batch_size
        operations = iteration_flops(config.model, planned_rows(config), batch, recomputed=False)
        return operations / self.iteration_seconds(config, batch)


def run_probe(config: RunConfig, seconds: float = SECONDS) -> Probe:
    """Run a few steps of the training in a process of its own, and return their times.

    Raises:
        ResourceError: the process failed. The error shows the end of the output of the process.
    """
    stage = TrainStage(name=config.name, seed=config.seed, model=config.model, training=config.training)
    with tempfile.TemporaryDirectory(prefix="bloomery-probe-") as folder:
        path, output = Path(folder) / "train.json", Path(folder) / "probe.json"
        write_stage(path, stage)
        command = [sys.executable, "-m", "bloomery.cli", "train", "probe", "--config", str(path)]
        command += ["--rows", str(planned_rows(config)), "--output", str(output), "--seconds", str(seconds)]
        environment = os.environ | {"OMP_NUM_THREADS": str(config.training.threads_per_rank)}
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise ResourceError(
                f"timing of training steps: no step ended within {_TIMEOUT_SECONDS} s",
                where="bloomery init",
                expected="a smaller model (--parameters), or --no-probe to guess the duration without timing steps",
            ) from error
        if done.returncode:
            said = (done.stderr or done.stdout).strip()[-600:]
            raise ResourceError(
                f"the timing of training steps failed: {said}",
                where="bloomery init",
                expected="a smaller model (--parameters), or --no-probe to guess the duration without timing steps",
            )
        found = read_json(output)
    return Probe(found["micro_batch_seconds"], found["update_seconds"], found["start_seconds"], found["steps"])


def training_seconds(config: RunConfig, probe: Probe, validation_sets: int) -> float:
    """Return the estimated seconds of the training: its start, all iterations and all validations.

    `validation_sets` is the number of validation sets, one for each language. Checkpoints are not counted.
    """
    training = config.training
    run = trajectory(config.model, training)
    steps = sum(each.steps * probe.iteration_seconds(config, each.global_batch_size) for each in run.stretches)
    checks = -(-run.iterations // training.validation.every_iterations)
    share = _FORWARD_SHARE[training.activation_checkpointing]
    turns = -(-training.validation.samples // (training.batch.micro_batch_size * training.parallel.data))
    return probe.start_seconds + steps + checks * validation_sets * turns * share * probe.micro_batch_seconds
