"""Measure how long this rank computes: the time of its forward and backward passes without waiting for other ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from deepspeed.runtime.pipe.schedule import BackwardPass, ForwardPass

from training.parallel.collectives import CollectiveTimer, waited


class ComputeTimer:
    """Timer of a pipeline engine's forward and backward passes.

    Sends and receives between stages are separate instructions of the engine, which are not timed.
    """

    def __init__(self, engine: Any, device: torch.device) -> None:
        self._passes = CollectiveTimer()
        self._device = device
        timed = {kind: self._timed(engine._INSTRUCTION_MAP[kind]) for kind in (ForwardPass, BackwardPass)}
        engine._INSTRUCTION_MAP = {**engine._INSTRUCTION_MAP, **timed}

    def _timed(self, execute: Callable[..., None]) -> Callable[..., None]:
        """Wrap an instruction so that its time is measured."""

        def run(engine: Any, **arguments: Any) -> None:
            with self._passes.running(self._device):
                execute(engine, **arguments)

        return run

    def take(self) -> float:
        """Return the seconds that this rank computed since the last call. On a GPU, wait until the timed work is
        done."""
        return max(0.0, self._passes.take() - waited.take())
