"""Save and restore the states of a rank's random number generators (torch, CUDA, numpy, Python) without pickle.

Training currently draws no random numbers from them. Dropout and initial weights compute their numbers from counters.
The states are saved so that future code that draws random numbers resumes correctly. All ranks use the same seed.
"""

from __future__ import annotations

import random

import numpy as np
import torch

_PYTHON_VERSION = 3
"""Version number of the state that `random.getstate()` returns."""


def seed_all(seed: int) -> None:
    """Seed every generator of this rank."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


def random_states(device: torch.device) -> dict[str, torch.Tensor]:
    """Return the state of every generator as tensors. CUDA's state is included if `device` is a GPU."""
    _, words, gauss = random.getstate()
    numpy = np.random.get_state(legacy=False)
    assert isinstance(numpy, dict)
    states = {
        "torch": torch.get_rng_state(),
        "python": torch.tensor(words, dtype=torch.int64),
        "python_gauss": torch.tensor([] if gauss is None else [gauss], dtype=torch.float64),
        "numpy": torch.from_numpy(numpy["state"]["key"].astype(np.int64)),
        "numpy_position": torch.tensor([numpy["state"]["pos"]]),
        "numpy_gauss": torch.tensor([numpy["gauss"]] if numpy["has_gauss"] else [], dtype=torch.float64),
    }
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def restore_random_states(states: dict[str, torch.Tensor], device: torch.device) -> None:
    """Set the state of every generator. CUDA's is set only if `device` is a GPU and `states` contains it."""
    torch.set_rng_state(states["torch"])
    gauss = states["python_gauss"].tolist()
    random.setstate((_PYTHON_VERSION, tuple(states["python"].tolist()), gauss[0] if gauss else None))
    gauss = states["numpy_gauss"].tolist()
    np.random.set_state(
        {
            "bit_generator": "MT19937",
            "state": {"key": states["numpy"].numpy().astype(np.uint32), "pos": int(states["numpy_position"])},
            "has_gauss": len(gauss),
            "gauss": gauss[0] if gauss else 0.0,
        }
    )
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"], device)
