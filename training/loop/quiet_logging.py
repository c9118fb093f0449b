"""Hide log messages of DeepSpeed and torch, except errors."""

from __future__ import annotations

import logging
import os
import warnings


def quiet_logging() -> None:
    """Hide third-party messages and select DeepSpeed's accelerator. Call this before any DeepSpeed object is built."""
    os.environ.setdefault("DS_ACCELERATOR", "cuda" if _has_gpu() else "cpu")
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"torch\.distributed.*")
    logging.getLogger("torch.distributed").setLevel(logging.ERROR)
    from deepspeed.utils import logger

    logger.setLevel(logging.ERROR)


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()
