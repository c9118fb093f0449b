"""Plain PyTorch training loop for a peer's model that does the same as DeepSpeed's BF16_Optimizer.

Weights and activations are bf16. Gradients of the micro-batches are summed in fp32 and clipped. AdamW updates fp32
master weights, which are rounded to bf16.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from bloomery.config.training import OptimizerConfig

Batch = tuple[torch.Tensor, torch.Tensor]
"""Tokens and labels, each int64 of shape [samples, length]."""


class PlainLoop:
    """A causal language model of transformers with its master weights and their optimizer."""

    def __init__(self, model: Any, optimizer: OptimizerConfig) -> None:
        """Create master weights for `model`, which must be in bf16 and on its device."""
        self.model = model
        self.weights = list(model.parameters())
        self.masters = [weight.detach().float().requires_grad_() for weight in self.weights]
        matrices = [master for master in self.masters if master.dim() > 1]
        others = [master for master in self.masters if master.dim() == 1]
        self.optimizer = torch.optim.AdamW(
            [{"params": matrices, "weight_decay": optimizer.weight_decay}, {"params": others, "weight_decay": 0.0}],
            lr=optimizer.learning_rate,
            betas=(optimizer.beta1, optimizer.beta2),
            eps=optimizer.epsilon,
            fused=True,
        )
        self.clipping = optimizer.gradient_clipping
        for master in self.masters:
            master.grad = torch.zeros_like(master)

    def step(self, batches: list[Batch]) -> torch.Tensor:
        """Make one optimizer step and return the mean loss as a scalar on the device."""
        losses = []
        for tokens, labels in batches:
            logits = self.model(input_ids=tokens).logits
            loss = functional.cross_entropy(logits.float().view(-1, logits.size(-1)), labels.view(-1))
            (loss / len(batches)).backward()
            losses.append(loss.detach())
            for master, weight in zip(self.masters, self.weights, strict=True):
                assert master.grad is not None
                master.grad.add_(weight.grad)
                weight.grad = None
        torch.nn.utils.clip_grad_norm_(self.masters, self.clipping, foreach=True)
        self.optimizer.step()
        with torch.no_grad():
            for master, weight in zip(self.masters, self.weights, strict=True):
                weight.copy_(master)
                assert master.grad is not None
                master.grad.zero_()
        return torch.stack(losses).mean()


def random_batches(count: int, samples: int, length: int, rows: int, device: torch.device) -> list[Batch]:
    """Return `count` micro-batches of random tokens, which are the same in every call."""
    generator = torch.Generator().manual_seed(1)
    made = []
    for _ in range(count):
        tokens = torch.randint(0, rows, (samples, length + 1), generator=generator).to(device)
        made.append((tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()))
    return made
