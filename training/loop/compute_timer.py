"""How long this rank computes: the time of its forward and backward passes without its waiting for other ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from deepspeed.runtime.pipe.schedule import BackwardPass, ForwardPass

from training.parallel.collectives import CollectiveTimer, waited


class ComputeTimer:
    """Listens to the passes of a pipeline engine; sends and receives between stages are other instructions."""

    def __init__(self, engine: Any, device: torch.device) -> None:
        self._passes = CollectiveTimer()
        self._device = device
        timed = {kind: self._timed(engine._INSTRUCTION_MAP[kind]) for kind in (ForwardPass, BackwardPass)}
        engine._INSTRUCTION_MAP = {**engine._INSTRUCTION_MAP, **timed}

    def _timed(self, execute: Callable[..., None]) -> Callable[..., None]:
        def run(engine: Any, **arguments: Any) -> None:
            with self._passes.running(self._device):
                execute(engine, **arguments)

        return run

    def take(self) -> float:
        """Seconds of work since the last call. Waits for a GPU."""
        return max(0.0, self._passes.take() - waited.take())
