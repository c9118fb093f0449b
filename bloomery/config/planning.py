"""Assumptions of a plan: the machine, its speed and its failures. No stage reads them, so changing them reruns nothing.

A null value is estimated or left out of the answers. The plan states which.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from bloomery.base.units import Bytes
from bloomery.config.section import Name, NotBool, Positive, Section

_AtLeastZero = Annotated[float, Field(ge=0), NotBool]


def _no_dust(value: float) -> float:
    if value < 1e-100:  # a rate computed from a smaller value would overflow
        raise ValueError("a number of at least 10^-100")
    return value


_AboveZero = Annotated[float, Field(gt=0), AfterValidator(_no_dust), NotBool]


class FaultsConfig(Section):
    """Interruptions of a training, for the expected loss of time and for `bloomery plan simulate`."""

    days_between_failures: _AboveZero | None = None
    """Mean time between failures of all nodes of the training together, in days. Default (null): no failures."""
    restart_minutes: _AtLeastZero = 15.0
    """Minutes from a failure, or from the start of a job, to the first new iteration. This covers detection, start-up
    and loading."""
    days_between_maintenances: _AboveZero | None = None
    """Mean time between maintenances, in days. Default (null): no maintenance."""
    maintenance_hours: _AtLeastZero = 12.0
    """Mean duration of a maintenance, in hours."""
    queue_hours: _AtLeastZero = 0.0
    """Mean waiting time of a job in the queue, in hours. Use 0 for a reservation."""
    job_hours: _AboveZero | None = None
    """Time limit of a job, in hours. Default (null): no limit."""


class PlanConfig(Section):
    """Assumptions of `bloomery plan`. No stage of the workflow reads them."""

    gpu: Annotated[Name | None, Field(examples=["a100-80gb"])] = None
    """Name of the GPU, such as `a100-80gb`. `bloomery plan gpus` lists the known names. Default (null): no GPU, so that
    times need `tflops_hardware`."""
    gpus_per_node: Positive = 8
    """Number of GPUs per node."""
    network_gb_per_second: _AboveZero | None = None
    """Bandwidth from one GPU to other nodes, in GB (10^9 bytes) per second. Default (null): the assumption for this GPU
    in `bloomery/spec/data/gpus.toml`."""
    tflops_hardware: _AboveZero | None = None
    """Speed of one GPU at the full batch, in TFLOP/s including recomputation. Default (null): estimated from the
    GPU."""
    save_seconds: _AtLeastZero | None = None
    """Time to save a checkpoint, in seconds. Default (null): the checkpoint's size divided by `write_gb_per_second`."""
    write_gb_per_second: _AboveZero | None = None
    """Rate at which all nodes together write a checkpoint, in GB (10^9 bytes) per second. It is used only if
    `save_seconds` is null; if both are null, the plan counts no time for saves."""
    validation_seconds: _AtLeastZero = 0.0
    """Time of one validation over all sets, in seconds."""
    disk: Bytes | None = None
    """Disk space that the run may fill. Default (null): not checked."""
    grid: Annotated[Name | None, Field(examples=["france"])] = None
    """Electricity grid, such as `france`, for the CO2 estimate. `bloomery plan grids` lists the known names. Default
    (null): no CO2 estimate."""
    watts_per_gpu: _AboveZero | None = None
    """Mean power of one GPU, in watts. Default (null): the GPU's thermal design power."""
    pue: Annotated[float, Field(ge=1.0), NotBool] = 1.2
    """Power usage effectiveness of the data centre: its total power divided by the power of its computers."""
    faults: FaultsConfig = FaultsConfig()
    """Interruptions."""
    assumed: Annotated[
        dict[str, str], Field(examples=[{"training.optimizer.epsilon": "the paper states no value"}])
    ] = {}
    """Keys whose values are not published, each with the reason for the assumed value. The plan lists these keys."""
    notes: Annotated[list[str], Field(examples=[["The paper and the log differ in the warm-up."]])] = []
    """Notes for readers of the plan, for example where the sources of a preset disagree."""
