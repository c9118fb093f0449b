"""Replace NVIDIA's apex, whose kernels need a GPU, by torch. Each function does what the manual of apex describes."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
from torch.nn import functional
from torch.optim.adamw import adamw


class FusedAdam(torch.optim.Optimizer):
    """Substitute for `apex.optimizers.FusedAdam`.

    Each parameter group counts its updates, and `step` creates the moments of a parameter that has none.
    """

    def __init__(
        self, params: Any, lr: float = 1e-3, bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, adam_w_mode: bool = True,
        weight_decay: float = 0.0, amsgrad: bool = False, set_grad_none: bool = True, capturable: bool = False,
        master_weights: bool = False,
    ) -> None:  # fmt: skip
        # The arithmetic below is correct only for these options.
        assert (bias_correction, adam_w_mode, amsgrad, capturable, master_weights) == (True, True, False, False, False)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            group["step"] = group.get("step", 0) + 1
            for weight in group["params"]:
                state = self.state[weight]
                if len(state) == 0:
                    state.update(exp_avg=torch.zeros_like(weight), exp_avg_sq=torch.zeros_like(weight))
                lists: list[list[torch.Tensor]] = [[weight], [weight.grad], [state["exp_avg"]], [state["exp_avg_sq"]]]
                before, (beta1, beta2) = torch.tensor(group["step"] - 1.0), group["betas"]
                numbers = {key: group[key] for key in ("lr", "eps", "weight_decay")}
                adamw(*lists, [], [before], amsgrad=False, beta1=beta1, beta2=beta2, maximize=False, **numbers)


FusedAdam.__module__ = "apex.optimizers.fused_adam"


class FusedLAMB(torch.optim.Optimizer):
    """Substitute for `apex.optimizers.FusedLAMB`.

    A parameter has a trust ratio if it decays. With `use_nvlamb`, each parameter has one.
    """

    def __init__(
        self, params: Any, lr: float = 1e-3, bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-6, weight_decay: float = 0.01,
        amsgrad: bool = False, adam_w_mode: bool = True, grad_averaging: bool = True, set_grad_none: bool = True,
        max_grad_norm: float = 1.0, use_nvlamb: bool = False,
    ) -> None:  # fmt: skip
        assert (bias_correction, amsgrad, adam_w_mode, grad_averaging) == (True, False, True, True)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})
        self.max_grad_norm, self.use_nvlamb = max_grad_norm, use_nvlamb

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            group["step"] = group.get("step", 0) + 1
            (beta1, beta2), step, decay = group["betas"], group["step"], group["weight_decay"]
            for weight in group["params"]:
                assert float(weight.grad.norm()) < self.max_grad_norm, "the gradient would be clipped a second time"
                state = self.state[weight]
                if len(state) == 0:
                    state.update(exp_avg=torch.zeros_like(weight), exp_avg_sq=torch.zeros_like(weight))
                mean, square = state["exp_avg"], state["exp_avg_sq"]
                mean.mul_(beta1).add_((1 - beta1) * weight.grad)
                square.mul_(beta2).add_((1 - beta2) * weight.grad**2)
                update = mean / (1 - beta1**step) / ((square / (1 - beta2**step)).sqrt() + group["eps"])
                update += decay * weight
                norms = float(weight.norm()), float(update.norm())
                adapts = (self.use_nvlamb or decay != 0) and all(norms)
                weight -= group["lr"] * (norms[0] / norms[1] if adapts else 1.0) * update


FusedLAMB.__module__ = "apex.optimizers.fused_lamb"


def fused_layer_norm_affine(
    input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, normalized_shape: tuple[int, ...],
    eps: float = 1e-6, memory_efficient: bool = False,
) -> torch.Tensor:  # fmt: skip
    """Compute what apex's function of this name computes. All tensors must have the same type."""
    assert input.dtype == weight.dtype == bias.dtype
    assert not memory_efficient
    return functional.layer_norm(input, normalized_shape, weight, bias, eps)


def modules() -> dict[str, ModuleType]:
    optimizers, norm = ModuleType("apex.optimizers"), ModuleType("apex.normalization.fused_layer_norm")
    optimizers.FusedAdam = FusedAdam  # type: ignore[attr-defined]
    optimizers.FusedLAMB = FusedLAMB  # type: ignore[attr-defined]
    norm.fused_layer_norm_affine = fused_layer_norm_affine  # type: ignore[attr-defined]
    return {module.__name__: module for module in (optimizers, norm)}
