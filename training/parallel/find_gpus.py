"""Decide whether this process trains on a GPU, and notice GPUs that it was given but that torch does not find."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from bloomery.base.errors import ResourceError
from training.parallel.given_gpus import expected_gpus, given_gpus
from training.parallel.place import Place


@dataclass(frozen=True)
class MissingGpus:
    """GPUs that a process was given, or needs, and does not find."""

    sentence: str
    """Says what was given and what torch finds."""
    without_cuda: bool
    """Whether the installed torch cannot use GPUs at all, so that the same happens on every node."""
    host: str

    @property
    def error(self) -> ResourceError:
        """The error for a person. A retry on the same node does not help."""
        return ResourceError(self.sentence, where=self.host, expected=expected_gpus(self.without_cuda))


def missing_gpus(place: Place, environment: Mapping[str, str] = os.environ) -> MissingGpus | None:
    """Return the GPUs that this process was given or needs, and that torch does not find. None if none is missing."""
    given, found = given_gpus(environment), _found()
    if given is None and not found:
        return None
    needed = place.local_world
    if found >= needed:
        return None
    because = "" if given is None else f"this process was given {_gpus(given[0])} ({given[1]}), but "
    without_cuda = torch.version.cuda is None and torch.version.hip is None
    cause = f"torch {torch.__version__} cannot use GPUs" if without_cuda else f"torch finds {_gpus(found)}"
    wanted = f"{needed} process{'es' * (needed > 1)} of the training need{'s' * (needed == 1)} one GPU each"
    return MissingGpus(f"{because}{cause}; {wanted} on this node", without_cuda, place.host)


def use_gpus(place: Place) -> bool:
    """Return whether the training runs on GPUs.

    Raises:
        ResourceError: GPUs are missing.
    """
    if (missing := missing_gpus(place)) is not None:
        raise missing.error
    return torch.cuda.is_available()


def _found() -> int:
    """Return the number of GPUs that torch can use."""
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def _gpus(count: int) -> str:
    return "no GPU" if not count else f"{count} GPU{'s' * (count > 1)}"
