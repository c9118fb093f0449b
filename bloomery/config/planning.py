"""What a plan takes for granted: the machine, its speed and its faults. No stage reads it: a change here runs nothing.

A key that is null is estimated or left out of the answers; the plan says which.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from bloomery.base.units import Bytes
from bloomery.config.section import Name, NotBool, Positive, Section

_AtLeastZero = Annotated[float, Field(ge=0), NotBool]


def _no_dust(value: float) -> float:
    if value < 1e-100:  # a rate of it would overflow
        raise ValueError("a number of at least 10^-100")
    return value


_AboveZero = Annotated[float, Field(gt=0), AfterValidator(_no_dust), NotBool]


class FaultsConfig(Section):
    """What interrupts a training: for the expected loss and for `bloomery plan simulate`."""

    days_between_failures: _AboveZero | None = None
    """Mean time between failures of the whole machine that a training runs on, days; null: no failures."""
    restart_minutes: _AtLeastZero = 15.0
    """From a failure, or the start of a job, to the first new iteration: notice, start, load."""
    days_between_maintenances: _AboveZero | None = None
    """Mean time between maintenances, days; null: none."""
    maintenance_hours: _AtLeastZero = 12.0
    """Mean length of a maintenance, hours."""
    queue_hours: _AtLeastZero = 0.0
    """Mean wait of a job in the queue, hours; 0: a reservation."""
    job_hours: _AboveZero | None = None
    """Time limit of a job, hours; null: none."""


class PlanConfig(Section):
    """Assumptions of `bloomery plan`."""

    gpu: Name | None = None
    """GPU by its name in the plan's table, such as `a100-80gb` (`bloomery plan gpus` lists them); null: no GPU."""
    gpus_per_node: Positive = 8
    """GPUs of a node."""
    network_gb_per_second: _AboveZero | None = None
    """What one GPU sends to other nodes, GB (10^9) a second; null: what the GPU's row of the table assumes."""
    tflops_hardware: _AboveZero | None = None
    """TFLOP/s that one GPU does at the full batch, recomputation counted; null: estimated."""
    save_seconds: _AtLeastZero | None = None
    """Time to save a checkpoint, seconds; null: its bytes over `write_gb_per_second`."""
    write_gb_per_second: _AboveZero | None = None
    """Rate at which the whole machine writes a checkpoint, GB (10^9) a second."""
    validation_seconds: _AtLeastZero = 0.0
    """Time of one validation over all sets, seconds."""
    disk: Bytes | None = None
    """Disk that the run may fill; null: not checked."""
    grid: Name | None = None
    """Electricity by its name in the plan's table, such as `france` (`bloomery plan grids`); null: no CO2."""
    watts_per_gpu: _AboveZero | None = None
    """Mean power of one GPU, watts; null: its thermal design power."""
    pue: Annotated[float, Field(ge=1.0), NotBool] = 1.2
    """Power usage effectiveness of the data centre: all its power over that of its computers."""
    faults: FaultsConfig = FaultsConfig()
    """Interruptions."""
    assumed: dict[str, str] = {}
    """Keys whose values nobody published, each with the reason for the value that stands there."""
    notes: list[str] = []
    """What a reader of the plan should know, such as where the sources of a preset disagree."""
