"""The kernels of this process: the rules of `bloomery.plan.kernels` with what torch says of its GPU."""

from __future__ import annotations

import torch

from bloomery.config.model import ModelConfig
from bloomery.config.training import TrainingConfig
from bloomery.plan.kernels import Facts, Kernels, choose


def kernels_here(model: ModelConfig, training: TrainingConfig, device: torch.device) -> Kernels:
    """What `training.kernels` means for a process that computes on `device`.

    Raises:
        ConfigError: it asks for what cannot run here.
    """
    cuda = device.type == "cuda"
    capability = torch.cuda.get_device_capability(device) if cuda else (0, 0)
    return choose(model, training, Facts.here(cuda=cuda, capability=capability))
