"""The plain PyTorch loop that a peer's model is trained with: what DeepSpeed's BF16_Optimizer does, written out.

bf16 weights and activations, gradients of the micro-batches summed in fp32, clipping, AdamW on fp32 master weights,
rounded back to bf16.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from bloomery.config.training import OptimizerConfig

Batch = tuple[torch.Tensor, torch.Tensor]
"""Tokens and labels, int64 [samples, length] each."""


class PlainLoop:
    """A causal language model of transformers, its master weights and their optimizer."""

    def __init__(self, model: Any, optimizer: OptimizerConfig) -> None:
        """`model` in bf16, on its device."""
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
        """One optimizer step; the mean loss, a scalar on the device."""
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
    """`count` micro-batches of random tokens, always the same."""
    generator = torch.Generator().manual_seed(1)
    made = []
    for _ in range(count):
        tokens = torch.randint(0, rows, (samples, length + 1), generator=generator).to(device)
        made.append((tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()))
    return made
