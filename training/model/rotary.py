"""Rotary positions: pairs of a head's features turn by an angle that grows with the position (arXiv:2104.09864).

Feature i pairs with i + head_dim / 2, as in GPT-NeoX and Llama: turned = x * cosine + roll(x, head_dim / 2) * sine,
with the first half of the sines negative.
"""

from __future__ import annotations

import torch

from training.model.shared import shared


@shared
def rotation(
    length: int, head_dim: int, base: float, scale: float, dtype: torch.dtype, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines [length, 1, head_dim], multiplied by `scale`; the angles are computed in fp32.

    The scale of stable attention costs nothing here.
    """
    feature = torch.arange(0, head_dim, 2, dtype=torch.float32, device=device)
    angle = torch.arange(length, dtype=torch.float32, device=device).unsqueeze(1) * base ** (-feature / head_dim)
    cosine, sine = angle.cos() * scale, angle.sin() * scale
    cosines, sines = torch.cat((cosine, cosine), dim=-1), torch.cat((-sine, sine), dim=-1)
    return cosines.unsqueeze(1).to(dtype), sines.unsqueeze(1).to(dtype)
