"""Find the first module whose output in the exported model differs from that of the checkpoint's unmerged weights."""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass

import torch

from export.proof.forward_model import ForwardModel, head_logits

_HEAD_POSITIONS = 64
"""Positions at which the outputs of the head are compared. A wrong head differs at every position."""
_AHEAD = 4
"""Number of outputs that the checkpoint's weights compute ahead of the exported model."""


@dataclass(frozen=True)
class ModuleDifference:
    """A module whose outputs differ."""

    name: str
    """Canonical name of the module, such as `h.3.mlp.dense_4h_to_h`."""
    difference: float
    """Largest difference of two elements, divided by the largest element (at least 1)."""


class _FoundError(Exception):
    """Ends the forward pass of the exported model at the first difference."""

    def __init__(self, difference: ModuleDifference) -> None:
        super().__init__()
        self.difference = difference


class _StoppedError(Exception):
    """Ends the forward pass of the checkpoint's weights, because its outputs are no longer needed."""


def first_difference(
    written: ForwardModel, pieces: ForwardModel, tokens: torch.Tensor, tolerance: float
) -> ModuleDifference | None:
    """Compute one sample (int64 [length]) with both models, and return the first module whose outputs differ.

    Both models compute at the same time, so that only a few outputs are in memory, whatever the number of layers is.
    Return None if no output differs by more than `tolerance`.
    """
    expected = _Outputs(pieces, tokens)

    def compare(name: str, _sample: int, value: torch.Tensor) -> None:
        right = expected.of(name)
        if right is not None:
            difference = _relative(value, right)
            if not difference <= tolerance:
                raise _FoundError(ModuleDifference(name, difference))

    try:
        (state,) = written.hidden([tokens], compare)
        compare("lm_head", 0, head_logits(written, state[:_HEAD_POSITIONS]))
    except _FoundError as found:
        return found.difference
    finally:
        expected.stop()
    return None


class _Outputs:
    """Outputs of the modules of a model, which a thread computes shortly before they are needed."""

    def __init__(self, model: ForwardModel, tokens: torch.Tensor) -> None:
        """Start to compute the sample `tokens`."""
        self._queue: queue.Queue[tuple[str, torch.Tensor] | None] = queue.Queue(_AHEAD)
        self._early: dict[str, torch.Tensor] = {}
        self._ended = False
        self._stopped = threading.Event()
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._compute, args=(model, tokens), daemon=True)
        self._thread.start()

    def of(self, name: str) -> torch.Tensor | None:
        """Return the output of a module. Return None if the model has no such module."""
        while name not in self._early and not self._ended:
            found = self._queue.get()
            if found is None:
                self._ended = True
                if self._problem is not None:
                    raise self._problem
            else:
                self._early[found[0]] = found[1]
        return self._early.pop(name, None)

    def stop(self) -> None:
        """End the computation."""
        self._stopped.set()
        while self._thread.is_alive():
            # The thread may wait for a free place in the queue.
            try:
                self._queue.get(timeout=0.05)
            except queue.Empty:
                continue
        self._thread.join()

    def _compute(self, model: ForwardModel, tokens: torch.Tensor) -> None:
        try:
            (state,) = model.hidden([tokens], self._keep)
            self._keep("lm_head", 0, head_logits(model, state[:_HEAD_POSITIONS]))
        except _StoppedError:
            pass
        except BaseException as error:
            self._problem = error
        finally:
            if not self._stopped.is_set():
                self._queue.put(None)

    def _keep(self, name: str, _sample: int, value: torch.Tensor) -> None:
        if self._stopped.is_set():
            raise _StoppedError
        self._queue.put((name, value.clone()))


def _relative(found: torch.Tensor, expected: torch.Tensor) -> float:
    if found.shape[-1] != expected.shape[-1]:  # the export may have dropped the padding rows of the head
        expected = expected[..., : found.shape[-1]]
    return float((found - expected).abs().max()) / max(1.0, float(expected.abs().max()))
