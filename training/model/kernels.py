"""Choose the kernels of this process: the rules of `bloomery.spec.choose_kernels`, applied to the process's device."""

from __future__ import annotations

import torch

from bloomery.config.model import ModelConfig
from bloomery.config.training import TrainingConfig
from bloomery.spec.choose_kernels import Kernels, MachineFacts, choose_kernels


def kernels_here(model: ModelConfig, training: TrainingConfig, device: torch.device) -> Kernels:
    """Return the kernels that `training.kernels` selects for a process that computes on `device`.

    Raises:
        ConfigError: a configured kernel cannot run on this device.
    """
    cuda = device.type == "cuda"
    capability = torch.cuda.get_device_capability(device) if cuda else (0, 0)
    return choose_kernels(model, training, MachineFacts.here(cuda=cuda, capability=capability))


def compile_each_shape(model: ModelConfig, training: TrainingConfig) -> None:
    """Raise torch's limit on recompilations to the number of curriculum lengths and micro-batch sizes.

    With torch's default limit of 8 shapes, later shapes would run uncompiled, including the full length. Call this
    function before anything is compiled.
    """
    from torch._dynamo import config

    shapes = len(training.batch.micro_batch_changes)
    if training.curriculum is not None:
        shapes += (model.sequence_length - training.curriculum.start_length) // training.curriculum.length_step + 2
    if shapes:
        # The additional 8 are for other variants, such as validation without gradients and reference logits.
        config.recompile_limit = max(config.recompile_limit, shapes + 8)
        config.accumulated_recompile_limit = max(config.accumulated_recompile_limit, 4 * config.recompile_limit)
