"""Define the reference of a checkpoint: what the training model computes for fixed tokens, in fp32.

The training writes it with each checkpoint (`training.checkpoint.reference_logits`). An export and a resumed training
are compared with it. It has two parts:

- The logits of all vocabulary rows for a few short samples.
- A summary of the logits at every position of longer samples. Every validation set has at least one of them
  (`bloomery.spec.checkpoint_size.summary_shape`). The logits of 8 samples of 2,048 tokens would take 16 GB for BLOOM,
  and their summary takes 4.4 MB.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bloomery.base.errors import InputError
from bloomery.spec.proof_memory import CHUNK_BYTES

ENTRIES = 64
"""Number of vocabulary entries, evenly spread, whose logits a summary holds for each position."""
_SETS = "sets"
"""Key of the metadata of the file: the name of the validation set of each longer sample, as a JSON list."""


@dataclass(frozen=True)
class Summary:
    """Summary of the logits at every position of one sample, over the entries of the tokenizer (not the padding rows).

    All tensors are fp32, except `likeliest`. `length` is the number of tokens of the sample.
    """

    entry_logits: torch.Tensor
    """Logits of the entries `entry_rows`, [length, entries]."""
    log_sum: torch.Tensor
    """Logarithm of the sum of the exponentials of all logits, [length]."""
    greatest: torch.Tensor
    """Largest logit, [length]."""
    likeliest: torch.Tensor
    """Token with the largest logit, int64 [length]."""
    next_logits: torch.Tensor
    """Logit of the next token of the sample, [length - 1]."""

    @property
    def loss(self) -> float:
        """Mean cross-entropy of the next token, in nats."""
        return float((self.log_sum[:-1] - self.next_logits).double().mean())


@dataclass(frozen=True)
class LongSample:
    """One longer sample and the summary of its logits."""

    name: str
    """Name of the validation set that contains the sample; `train` for a training sample."""
    tokens: torch.Tensor
    """int64 [length]."""
    summary: Summary


@dataclass(frozen=True)
class Reference:
    """Content of a checkpoint's reference file."""

    tokens: torch.Tensor
    """Tokens of the short samples, int64 [samples, length]."""
    logits: torch.Tensor
    """Logits of all vocabulary rows, fp32 [samples, length, rows]."""
    long: tuple[LongSample, ...] = ()
    """Longer samples. Empty in checkpoints of older versions."""


def entry_rows(vocabulary: int) -> torch.Tensor:
    """Return the vocabulary entries whose logits a summary holds, evenly spread, int64."""
    count = min(ENTRIES, vocabulary)
    return torch.tensor([number * vocabulary // count for number in range(count)])


class SummaryMaker:
    """Makes the summary of one sample from slices of its logits."""

    def __init__(self, tokens: torch.Tensor, vocabulary: int, device: torch.device | None = None) -> None:
        """Prepare for a sample `tokens` (int64 [length] on the CPU) and `vocabulary` entries of the tokenizer.

        `device` is the device of the logits. The summary is computed there, because it is much smaller than the logits:
        284 bytes a position instead of 1 MB for BLOOM. The default is the CPU.
        """
        length = len(tokens)
        self._vocabulary, self._tokens = vocabulary, tokens
        # Rows and tokens stay on the CPU, so that choosing among them does not wait for the device.
        self._rows = entry_rows(vocabulary)
        self._entries = torch.zeros(length, len(self._rows), device=device)
        self._greatest = torch.full((length,), -torch.inf, device=device)
        self._likeliest = torch.zeros(length, dtype=torch.int64, device=device)
        self._log_sum = torch.full((length,), -torch.inf, device=device)
        self._next = torch.zeros(max(0, length - 1), device=device)

    def add(self, positions: range, first_row: int, logits: torch.Tensor) -> None:
        """Add fp32 logits [positions, rows] of consecutive positions and of the vocabulary rows from `first_row` on.

        The rows of a position must be added in ascending order. Padding rows are ignored. The logits must be on the
        device of this summary.
        """
        logits = logits[:, : max(0, self._vocabulary - first_row)]
        count = logits.shape[1]
        if not count:
            return
        here = slice(positions.start, positions.stop)
        greatest, likeliest = logits.max(dim=-1)
        # The comparison below ignores a NaN, but `torch.maximum` and the sum keep it.
        self._likeliest[here] = torch.where(
            greatest > self._greatest[here], likeliest + first_row, self._likeliest[here]
        )
        self._greatest[here] = torch.maximum(self._greatest[here], greatest)
        self._log_sum[here] = torch.logaddexp(self._log_sum[here], logits.logsumexp(dim=-1))
        inside = ((self._rows >= first_row) & (self._rows < first_row + count)).nonzero().flatten()
        device = logits.device
        self._entries[here, inside.to(device)] = logits[:, (self._rows[inside] - first_row).to(device)]
        following = self._tokens[positions.start + 1 : positions.stop + 1]
        in_slice = (following >= first_row) & (following < first_row + count)
        found = in_slice.nonzero().flatten()
        chosen = logits[found.to(device), (following[found] - first_row).to(device)]
        self._next[(positions.start + found).to(device)] = chosen

    def summary(self) -> Summary:
        """Return the summary on the CPU, after all slices were added."""
        parts = (self._entries, self._log_sum, self._greatest, self._likeliest, self._next)
        return Summary(*(part.cpu() for part in parts))


def chunks_of(length: int, rows: int) -> list[range]:
    """Return consecutive ranges of positions whose logits for `rows` rows use at most 128 MiB of memory."""
    size = max(1, CHUNK_BYTES // (4 * max(1, rows)))
    return [range(start, min(start + size, length)) for start in range(0, length, size)]


def reference_tensors(reference: Reference) -> tuple[dict[str, torch.Tensor], dict[str, str] | None]:
    """Return the tensors and the metadata of a reference's safetensors file. None if the file has no metadata."""
    tensors = {"tokens": reference.tokens, "logits": reference.logits}
    if not reference.long:
        return tensors, None
    stacked = {
        "long.tokens": [each.tokens for each in reference.long],
        "long.entry_logits": [each.summary.entry_logits for each in reference.long],
        "long.log_sum": [each.summary.log_sum for each in reference.long],
        "long.greatest": [each.summary.greatest for each in reference.long],
        "long.likeliest": [each.summary.likeliest for each in reference.long],
        "long.next_logits": [each.summary.next_logits for each in reference.long],
    }
    tensors |= {name: torch.stack(each) for name, each in stacked.items()}
    return tensors, {_SETS: json.dumps([each.name for each in reference.long])}


def read_reference(path: Path, vocabulary: int) -> Reference:
    """Read a reference file. `vocabulary` is the number of entries of the tokenizer.

    Raises:
        InputError: the file is damaged or lacks a tensor, a type or a shape is wrong, or a token is not an entry of the
            embedding.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dictionary)
            metadata = file.metadata() or {}
    except SafetensorError as error:
        raise InputError("the file is not a complete safetensors file", where=str(path), expected=_EXPECTED) from error
    if not {"tokens", "logits"} <= tensors.keys():
        raise InputError(
            f"the file contains the tensors {sorted(tensors)}",
            where=str(path),
            expected=f"the tensors 'tokens' and 'logits'; {_EXPECTED}",
        )
    tokens, logits = tensors["tokens"], tensors["logits"]
    _check_short(path, tokens, logits)
    return Reference(tokens, logits, _long_samples(path, tensors, metadata, vocabulary, logits.shape[-1]))


_EXPECTED = "the reference that the training wrote; use another checkpoint"


def _check_short(path: Path, tokens: torch.Tensor, logits: torch.Tensor) -> None:
    if tokens.numel() == 0 or tokens.ndim != 2 or logits.ndim != 3 or logits.shape[:2] != tokens.shape:
        raise InputError(
            f"the shapes of 'tokens' {list(tokens.shape)} and 'logits' {list(logits.shape)} do not match",
            where=str(path),
            expected=f"'tokens' [samples, length] and 'logits' [samples, length, embedding rows]; {_EXPECTED}",
        )
    if tokens.dtype != torch.int64 or logits.dtype != torch.float32:
        raise InputError(
            f"'tokens' has type {tokens.dtype} and 'logits' has type {logits.dtype}",
            where=str(path),
            expected=f"int64 tokens and fp32 logits; {_EXPECTED}",
        )
    _check_tokens(path, tokens, logits.shape[-1])


def _check_tokens(path: Path, tokens: torch.Tensor, rows: int) -> None:
    smallest, greatest = int(tokens.min()), int(tokens.max())
    if not 0 <= smallest <= greatest < rows:
        raise InputError(
            f"the tokens range from {smallest} to {greatest}",
            where=str(path),
            expected=f"tokens from 0 to {rows - 1}, the rows of the embedding; {_EXPECTED}",
        )


def _long_samples(
    path: Path, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str], vocabulary: int, rows: int
) -> tuple[LongSample, ...]:
    """Return the longer samples; none if an older version wrote the file."""
    if not any(name.startswith("long.") for name in tensors):
        return ()
    tokens = tensors.get("long.tokens")
    if tokens is None or tokens.ndim != 2 or tokens.dtype != torch.int64 or tokens.shape[1] < 2 or not len(tokens):
        raise InputError(
            "the longer samples have no tensor 'long.tokens' of type int64 and shape [samples, length]",
            where=str(path),
            expected=_EXPECTED,
        )
    samples, length = tokens.shape
    fp32, int64 = torch.float32, torch.int64
    expected = {
        "long.entry_logits": ((samples, length, len(entry_rows(vocabulary))), fp32),
        "long.log_sum": ((samples, length), fp32),
        "long.greatest": ((samples, length), fp32),
        "long.likeliest": ((samples, length), int64),
        "long.next_logits": ((samples, length - 1), fp32),
    }
    for name, (shape, dtype) in expected.items():
        found = tensors.get(name)
        if found is None or found.shape != shape or found.dtype != dtype:
            what = "is missing" if found is None else f"has shape {list(found.shape)} and type {found.dtype}"
            raise InputError(
                f"the tensor {name!r} {what}",
                where=str(path),
                expected=f"shape {list(shape)} and type {dtype}; {_EXPECTED}",
            )
    _check_tokens(path, tokens, rows)
    names = _names(path, metadata, samples)
    return tuple(
        LongSample(
            names[number],
            tokens[number],
            Summary(*(tensors[name][number] for name in expected)),
        )
        for number in range(samples)
    )


def _names(path: Path, metadata: Mapping[str, str], samples: int) -> list[str]:
    try:
        names: Any = json.loads(metadata.get(_SETS, ""))
    except ValueError:
        names = None
    if not isinstance(names, list) or len(names) != samples or not all(isinstance(name, str) for name in names):
        raise InputError(
            f"the metadata of the file do not name the validation sets of the {samples} longer samples",
            where=str(path),
            expected=_EXPECTED,
        )
    return names
