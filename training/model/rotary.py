"""Rotary position embeddings (arXiv:2104.09864): rotate pairs of features by an angle that grows with the position.

Feature i is paired with feature i + head_dim / 2, as in GPT-NeoX and Llama. The rotated features are
x * cosine + roll(x, head_dim / 2) * sine, where the first half of the sines is negated.
"""

from __future__ import annotations

import torch

from training.model.shared import shared


@shared
def rotation(
    length: int, head_dim: int, base: float, scale: float, dtype: torch.dtype, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return cosines and sines, each [length, 1, head_dim] and multiplied by `scale`.

    The angles are computed in fp32. Including the scale of stable attention here saves a multiplication later.
    """
    feature = torch.arange(0, head_dim, 2, dtype=torch.float32, device=device)
    angle = torch.arange(length, dtype=torch.float32, device=device).unsqueeze(1) * base ** (-feature / head_dim)
    cosine, sine = angle.cos() * scale, angle.sin() * scale
    cosines, sines = torch.cat((cosine, cosine), dim=-1), torch.cat((-sine, sine), dim=-1)
    return cosines.unsqueeze(1).to(dtype), sines.unsqueeze(1).to(dtype)
