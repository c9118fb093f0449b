"""The kernels of this process: the rules of `bloomery.spec.choose_kernels` with what torch says of its GPU."""

from __future__ import annotations

import torch

from bloomery.config.model import ModelConfig
from bloomery.config.training import TrainingConfig
from bloomery.spec.choose_kernels import Kernels, MachineFacts, choose_kernels


def kernels_here(model: ModelConfig, training: TrainingConfig, device: torch.device) -> Kernels:
    """What `training.kernels` means for a process that computes on `device`.

    Raises:
        ConfigError: it asks for what cannot run here.
    """
    cuda = device.type == "cuda"
    capability = torch.cuda.get_device_capability(device) if cuda else (0, 0)
    return choose_kernels(model, training, MachineFacts.here(cuda=cuda, capability=capability))


def compile_each_shape(model: ModelConfig, training: TrainingConfig) -> None:
    """Let torch compile for each length of a curriculum and each micro-batch size: after 8 it would go on uncompiled,
    also at the full length.

    Before anything is compiled.
    """
    from torch._dynamo import config

    shapes = len(training.batch.micro_batch_changes)
    if training.curriculum is not None:
        shapes += (model.sequence_length - training.curriculum.start_length) // training.curriculum.length_step + 2
    if shapes:
        # Beside them stay the usual ones: validation, which keeps no gradients, and reference logits.
        config.recompile_limit = max(config.recompile_limit, shapes + 8)
        config.accumulated_recompile_limit = max(config.accumulated_recompile_limit, 4 * config.recompile_limit)
