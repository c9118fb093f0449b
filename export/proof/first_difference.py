"""Find the first module whose output in the exported model differs from that of the checkpoint's pieces."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from export.proof.forward_model import ForwardModel, head_logits


@dataclass(frozen=True)
class ModuleDifference:
    """A module whose outputs differ."""

    name: str
    """Canonical name of the module, such as `h.3.mlp.dense_4h_to_h`."""
    difference: float
    """Largest difference of two elements, divided by the largest element (at least 1)."""


def first_difference(
    written: ForwardModel, pieces: ForwardModel, tokens: torch.Tensor, tolerance: float
) -> ModuleDifference | None:
    """Compute one sample (int64 [length]) with both models, and return the first module whose outputs differ.

    Modules are compared in the order in which the checkpoint's pieces compute them. Return None if no output differs by
    more than `tolerance`.
    """
    expected = _outputs(pieces, tokens)
    found = _outputs(written, tokens)
    for name, value in expected.items():
        if name in found:
            difference = _relative(found[name], value)
            if not difference <= tolerance:
                return ModuleDifference(name, difference)
    return None


def _outputs(model: ForwardModel, tokens: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the output of each module, in the order of computation. The last one is `lm_head`."""
    found: dict[str, torch.Tensor] = {}

    def keep(name: str, sample: int, value: torch.Tensor) -> None:
        found[name] = value.clone()

    (state,) = model.hidden([tokens], keep)
    found["lm_head"] = head_logits(model, state)
    return found


def _relative(found: torch.Tensor, expected: torch.Tensor) -> float:
    if found.shape[-1] != expected.shape[-1]:  # the export may have dropped the padding rows of the head
        expected = expected[..., : found.shape[-1]]
    return float((found - expected).abs().max()) / max(1.0, float(expected.abs().max()))
