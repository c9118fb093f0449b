"""Decide from the environment how many GPUs a process was given, without importing torch."""

from __future__ import annotations

from collections.abc import Mapping

GPUS_PER_NODE = "BLOOMERY_GPUS_PER_NODE"
"""Environment variable with `training.gpus_per_node` of the site. `training.processes.start_node` sets it."""
_NO_DEVICES = frozenset({"", "-1", "NoDevFiles", "void", "none"})
"""Values of CUDA_VISIBLE_DEVICES that hide all GPUs."""
_JOB_LISTS = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")


def expected_gpus(without_cuda: bool) -> str:
    """Return what would be right if GPUs are missing.

    Args:
        without_cuda: whether the installed torch cannot use GPUs at all.
    """
    if without_cuda:
        return (
            "torch with support for CUDA (or ROCm) in the environment of the job; to train on CPUs, set "
            "training.gpus_per_node to 0 in the file of the site, and request no GPUs"
        )
    return (
        "all GPUs that the job requested, visible to torch; check `nvidia-smi` on this node, the version of its "
        "driver, and the option --nv in container_options of the site's file if the job runs in a container"
    )


def given_gpus(environment: Mapping[str, str]) -> tuple[int, str] | None:
    """Return the number of GPUs that this process was given on its node, and who says so. None if nothing says so.

    The site's file takes precedence, then CUDA_VISIBLE_DEVICES, then SLURM's variables. An empty CUDA_VISIBLE_DEVICES
    requests a training on CPUs.
    """
    if (number := environment.get(GPUS_PER_NODE, "0")).isdecimal() and int(number):
        return int(number), f"training.gpus_per_node of the site is {number}"
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        count = 0 if visible.strip() in _NO_DEVICES else len(visible.split(","))
        return (count, f"CUDA_VISIBLE_DEVICES is {visible}") if count else None
    for name in _JOB_LISTS:
        if listed := environment.get(name):
            return len(listed.split(",")), f"{name} is {listed}"
    # The value may be a number (2) or a list with types (gpu:a100:2), depending on the version of SLURM.
    on_node = environment.get("SLURM_GPUS_ON_NODE", "").rpartition(":")[2]
    if on_node.isdecimal() and int(on_node):
        return int(on_node), f"SLURM_GPUS_ON_NODE is {environment['SLURM_GPUS_ON_NODE']}"
    return None
