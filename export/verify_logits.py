"""Verify the export: transformers loads the written folder, and its fp32 logits must match those of the training.

The training processes wrote the reference (tokens and fp32 logits) with the network split over the ranks. So the
comparison covers the split of the weights, their merge, the mapping of names and the architecture. A split network sums
products in another order, which changes the logits by rounding. Therefore a tolerance is needed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bloomery.base.errors import CheckFailedError, InputError
from bloomery.base.progress import track
from bloomery.checkpoint.weights import Checkpoint
from bloomery.contracts.checkpoint import REFERENCE_NAME, lacks_reference, verify_file

_PROMPT_TOKENS = 16
_TOP_K = 20
_NEW_TOKENS = 32


@dataclass(frozen=True)
class Comparison:
    """Result of comparing the exported model with the training model."""

    samples: int
    tokens: int
    max_absolute_difference: float
    max_logit: float
    argmax_agreement: float
    prompt: str
    text: str

    @property
    def max_difference(self) -> float:
        """Largest absolute difference of corresponding logits, divided by the largest absolute logit (at least 1)."""
        return self.max_absolute_difference / max(1.0, self.max_logit)


def compare(folder: Path, checkpoint: Checkpoint) -> Comparison:
    """Load `folder` in fp32 with transformers and compare its logits for the checkpoint's reference samples.

    The samples are computed one at a time.

    Raises:
        CheckFailedError: transformers cannot load the exported model or reports a missing or unexpected weight; the
            reference logits are not finite; or the checkpoint was repaired, and no training has loaded it since.
        InputError: the reference file is damaged, lacks a tensor, contains a token beyond the embedding, or the shapes
            of its tensors do not match.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if lacks_reference(checkpoint.manifest):
        raise CheckFailedError(
            "this checkpoint was repaired, and its reference logits have not been computed since",
            where=str(checkpoint.folder),
            expected="a checkpoint that the training has loaded after the repair; run the workflow again, because the "
            "training computes the logits when it starts",
        )
    reference = verify_file(checkpoint.folder, checkpoint.manifest, REFERENCE_NAME)
    # With `trust_remote_code=False`, transformers also does not ask on the terminal whether to run such code.
    options = {"local_files_only": True, "trust_remote_code": False}
    with _loading(folder):
        tokenizer = AutoTokenizer.from_pretrained(folder, **options)
        model, info = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, output_loading_info=True, **options
        )
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if info.get(kind):
            raise CheckFailedError(
                f"transformers reports {kind} when it loads the exported model: {sorted(info[kind])[:3]}",
                where=str(folder),
                expected="exactly the weights that the model in transformers has; install the transformers version of "
                "requirements.lock, and report an error of Bloomery if the difference remains",
            )
    model.eval()
    rows = model.config.vocab_size
    difference = greatest = 0.0
    agreed = positions = 0
    with _opened(reference) as file, torch.inference_mode():
        tokens, logits = _reference_tensors(file, reference, rows)
        samples, length = tokens.shape
        for sample in track(range(samples), "compare logits", samples, "samples"):
            expected = logits[sample][:, :rows]
            got = model(input_ids=tokens[sample : sample + 1]).logits[0]
            if not bool(torch.isfinite(expected).all()):
                raise CheckFailedError(
                    f"the reference logits of sample {sample} are not finite",
                    where=str(reference),
                    expected="finite logits; export another checkpoint (--checkpoint)",
                )
            # torch.maximum keeps NaN, so a broken export is not mistaken for a small difference.
            difference = float(torch.maximum(torch.tensor(difference), (got - expected).abs().max()))
            greatest = max(greatest, float(expected.abs().max()))
            agreed += int((got.argmax(-1) == expected.argmax(-1)).sum())
            positions += length
        prompt, text = _continuation(model, tokenizer, tokens[0])
    return Comparison(samples, positions, difference, greatest, agreed / positions, prompt, text)


@contextlib.contextmanager
def _loading(folder: Path) -> Iterator[None]:
    """Turn any error of transformers into a CheckFailedError about the exported model."""
    try:
        yield
    except Exception as error:  # transformers raises errors of many types for files that it cannot read
        raise CheckFailedError(
            "transformers cannot load the exported model or its tokenizer",
            where=str(folder),
            expected="a tokenizer_config.json as `bloomery tokenizer` writes it, and the transformers version of "
            "requirements.lock; restore the run's tokenizer folder and export again",
        ) from error


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open the reference file. Raises InputError if the file is not a complete safetensors file."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except SafetensorError as error:
        raise InputError(
            "the file is not a complete safetensors file",
            where=str(path),
            expected="the reference logits that the training wrote; export another checkpoint (--checkpoint)",
        ) from error


def _reference_tensors(file: Any, path: Path, rows: int) -> tuple[Any, Any]:
    """Return all tokens, and a lazy slice of the logits.

    Raises InputError if the types or shapes are wrong, or if a token is not a row of the embedding (`rows`).
    """
    import torch

    if not {"tokens", "logits"} <= set(file.keys()):
        raise InputError(
            f"the file contains the tensors {sorted(file.keys())}",
            where=str(path),
            expected="the tensors 'tokens' and 'logits'; export another checkpoint (--checkpoint)",
        )
    tokens, logits = file.get_tensor("tokens"), file.get_slice("logits")
    shape = logits.get_shape()
    matches = len(shape) == 3 and shape[:2] == list(tokens.shape) and shape[2] >= rows
    if tokens.numel() == 0 or tokens.ndim != 2 or not matches:
        raise InputError(
            f"the shapes of 'tokens' {list(tokens.shape)} and 'logits' {shape} do not match",
            where=str(path),
            expected="'tokens' [samples, length] and 'logits' [samples, length, embedding rows]; export another "
            "checkpoint (--checkpoint)",
        )
    if tokens.dtype != torch.int64 or logits.get_dtype() != "F32":
        raise InputError(
            f"'tokens' has type {tokens.dtype} and 'logits' has type {logits.get_dtype()}",
            where=str(path),
            expected="int64 tokens and fp32 logits; export another checkpoint (--checkpoint)",
        )
    smallest, greatest = int(tokens.min()), int(tokens.max())
    if not 0 <= smallest <= greatest < rows:
        raise InputError(
            f"the tokens range from {smallest} to {greatest}",
            where=str(path),
            expected=f"tokens from 0 to {rows - 1}, the rows of the embedding; export another checkpoint "
            "(--checkpoint)",
        )
    return tokens, logits


def _continuation(model: Any, tokenizer: Any, sample: Any) -> tuple[str, str]:
    """Return a prompt from the beginning of a sample, and the text that the model generates after it.

    The tokens are sampled with a fixed seed, because a small model that always takes the most likely token repeats
    itself.
    """
    import torch

    prompt_ids = sample[: max(1, min(_PROMPT_TOKENS, len(sample) // 2))]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        ids = model.generate(
            prompt_ids[None],
            attention_mask=prompt_ids[None].new_ones((1, len(prompt_ids))),
            max_new_tokens=_NEW_TOKENS,
            do_sample=True,
            top_k=_TOP_K,
            repetition_penalty=1.2,
        )[0]
    prompt = tokenizer.decode(prompt_ids, skip_special_tokens=True)
    # Decode prompt and continuation together, because a character may be split between them.
    return prompt, tokenizer.decode(ids, skip_special_tokens=True).removeprefix(prompt)


def check(comparison: Comparison, tolerance: float, *, where: str, hint: str | None = None) -> None:
    """Raise CheckFailedError if the difference exceeds the tolerance or is NaN."""
    if not comparison.max_difference <= tolerance:
        raise CheckFailedError(
            "the fp32 logits of the exported model differ from those of the training model by up to "
            f"{comparison.max_difference:.3g} of the largest logit (absolute difference "
            f"{comparison.max_absolute_difference:.3g}, largest logit {comparison.max_logit:.3g}); the most likely "
            f"token is the same at {100 * comparison.argmax_agreement:.1f} % of the positions"
            + (f"; {hint}" if hint else ""),
            where=where,
            expected=f"a difference of at most export.tolerance = {tolerance:g}; the rejected model stays in this "
            "folder, so that you can inspect it",
        )
