"""The proof: transformers loads the written folder, and its fp32 logits are the training model's.

The reference (tokens and fp32 logits) was written by the training processes, with the split network, so the comparison
covers the split, the merge, the mapping and the architecture at once. Summing split products in another order moves
logits by rounding only, hence a tolerance and not equality.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bloomery.base.errors import CheckFailedError, InputError
from bloomery.base.progress import track
from bloomery.checkpoint.weights import Checkpoint
from bloomery.contracts.checkpoint import REFERENCE_NAME, verify_file

_PROMPT_TOKENS = 16
_TOP_K = 20
_NEW_TOKENS = 32


@dataclass(frozen=True)
class Comparison:
    """Exported model against the training model."""

    samples: int
    tokens: int
    max_absolute_difference: float
    max_logit: float
    argmax_agreement: float
    prompt: str
    text: str

    @property
    def max_difference(self) -> float:
        """Greatest difference relative to the greatest logit, or absolute where that is below 1."""
        return self.max_absolute_difference / max(1.0, self.max_logit)


def compare(folder: Path, checkpoint: Checkpoint) -> Comparison:
    """Load `folder` in fp32 with transformers and run the checkpoint's reference samples through it, one at a time.

    Raises:
        CheckFailedError: transformers misses or does not expect a weight, or the reference is damaged or not finite.
    """
    import torch
    from safetensors import safe_open
    from transformers import AutoModelForCausalLM, AutoTokenizer

    reference = verify_file(checkpoint.folder, checkpoint.manifest, REFERENCE_NAME)
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, local_files_only=True, output_loading_info=True
    )
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if info.get(kind):
            raise CheckFailedError(f"transformers reports {kind}: {sorted(info[kind])[:3]}", where=str(folder))
    model.eval()
    rows = model.config.vocab_size
    difference = greatest = 0.0
    agreed = positions = 0
    with safe_open(reference, framework="pt") as file, torch.inference_mode():
        tokens, logits = _reference_tensors(file, reference)
        samples, length = tokens.shape
        for sample in track(range(samples), "compare logits", samples, "samples"):
            expected = logits[sample][:, :rows]
            got = model(input_ids=tokens[sample : sample + 1]).logits[0]
            if not bool(torch.isfinite(expected).all()):
                raise CheckFailedError(f"logits of sample {sample} are not finite", where=str(reference))
            # torch.max keeps NaN, so that a broken export cannot pass for a small difference.
            difference = float(torch.maximum(torch.tensor(difference), (got - expected).abs().max()))
            greatest = max(greatest, float(expected.abs().max()))
            agreed += int((got.argmax(-1) == expected.argmax(-1)).sum())
            positions += length
        prompt, text = _continuation(model, AutoTokenizer.from_pretrained(folder, local_files_only=True), tokens[0])
    return Comparison(samples, positions, difference, greatest, agreed / positions, prompt, text)


def _reference_tensors(file: Any, path: Path) -> tuple[Any, Any]:
    """Tokens, whole, and logits, sliced lazily. Raises InputError when shapes do not fit together."""
    if not {"tokens", "logits"} <= set(file.keys()):
        raise InputError(f"holds {sorted(file.keys())}", where=str(path), expected="tokens and logits")
    tokens, logits = file.get_tensor("tokens"), file.get_slice("logits")
    shape = logits.get_shape()
    if tokens.numel() == 0 or tokens.ndim != 2 or shape[:2] != list(tokens.shape):
        raise InputError(
            f"tokens {list(tokens.shape)} and logits {shape} do not fit",
            where=str(path),
            expected="[samples, length] and [samples, length, vocabulary_rows]",
        )
    return tokens, logits


def _continuation(model: Any, tokenizer: Any, sample: Any) -> tuple[str, str]:
    """A prompt from the beginning of a sample, and what the model writes after it.

    Sampled with a fixed seed: a small model that always takes the likeliest token repeats itself for ever.
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
    # Both decoded whole: a character may straddle the border between prompt and continuation.
    return prompt, tokenizer.decode(ids, skip_special_tokens=True).removeprefix(prompt)


def check(comparison: Comparison, tolerance: float, *, where: str, hint: str | None = None) -> None:
    """Raise CheckFailedError when the difference is beyond the tolerance (or is NaN)."""
    if not comparison.max_difference <= tolerance:
        raise CheckFailedError(
            f"fp32 logits differ from the training model's by {comparison.max_difference:.3g} of the greatest logit "
            f"({comparison.max_absolute_difference:.3g} of {comparison.max_logit:.3g}; the likeliest token agrees at "
            f"{100 * comparison.argmax_agreement:.1f} % of positions)" + (f"; {hint}" if hint else ""),
            where=where,
            expected=f"at most export.tolerance = {tolerance:g}",
        )
