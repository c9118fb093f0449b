"""Which implementation computes what on a machine, and why: the rules behind `auto` in training.kernels.

All implementations of a thing are equal within rounding, so this is a matter of speed and memory only. What is asked
for by name and cannot run here is refused, never replaced.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bloomery.base import installed
from bloomery.base.errors import ConfigError

if TYPE_CHECKING:
    from bloomery.config.model import ModelConfig
    from bloomery.config.training import TrainingConfig

FLASH_WITH_ALIBI = (2, 4)
"""First flash-attn that takes ALiBi's slopes, also in the backward pass."""
AMPERE = (8, 0)
"""Compute capability from which on flash-attn runs, and FlexAttention's kernels are worth their compilation."""
GREATEST_FLASH_HEAD = 256
LEAST_FLEX_HEAD = 16
LONGEST_EAGER = 512
"""Up to so many tokens plain bf16 products beat torch's fused attention on a CPU (forward and backward, one core of an
EPYC with AVX-512 bf16, ms: 4 against 12 at 64 tokens, 16 / 21 at 256, 40 / 54 at 512, 100 / 97 at 1,024); not fp32."""


@dataclass(frozen=True)
class MachineFacts:
    """What of a machine decides."""

    cuda: bool = False
    """Whether torch sees a GPU."""
    capability: tuple[int, int] = (0, 0)
    """The GPU's compute capability, such as (9, 0) for an H200."""
    triton: bool = False
    """Whether torch can compile for the GPU."""
    flash_attn: tuple[int, ...] | None = None
    """Version of the flash-attn package; None: not installed."""
    apex: installed.Apex = installed.Apex.ABSENT

    @classmethod
    def here(cls, *, cuda: bool, capability: tuple[int, int] = (0, 0)) -> MachineFacts:
        """This machine: the caller asks torch for its GPU, packages are found without importing them."""
        flash = installed.version("flash_attn") if installed.has("flash_attn") else None
        return cls(cuda, capability, installed.compiles_for_gpu(), flash, installed.apex())


@dataclass(frozen=True)
class Kernels:
    """An implementation of each thing, never `auto`, with the reason."""

    attention: str
    layer_norm: str
    optimizer: str
    reasons: dict[str, str]
    """By the key's name."""

    @property
    def names(self) -> dict[str, str]:
        """Key of training.kernels -> what computes it."""
        return {"attention": self.attention, "layer_norm": self.layer_norm, "optimizer": self.optimizer}

    def __str__(self) -> str:
        return "; ".join(f"{key} {name} ({self.reasons[key]})" for key, name in self.names.items())


def choose_kernels(model: ModelConfig, training: TrainingConfig, facts: MachineFacts) -> Kernels:
    """What `training.kernels` means on a machine. Raises ConfigError for what it asks for and cannot have."""
    attention, why_attention = _attention(model, training, facts)
    layer_norm, why_layer_norm = _layer_norm(training, facts)
    optimizer, why_optimizer = _optimizer(training, facts)
    reasons = {"attention": why_attention, "layer_norm": why_layer_norm, "optimizer": why_optimizer}
    return Kernels(attention, layer_norm, optimizer, reasons)


def _attention(model: ModelConfig, training: TrainingConfig, facts: MachineFacts) -> tuple[str, str]:
    asked = training.kernels.attention
    lacks = {"flash": _flash_lacks(model, training, facts), "flex": _flex_lacks(model, facts)}
    if asked != "auto":
        return _asked("attention", asked, lacks.get(asked))
    if not facts.cuda:
        if training.precision != "fp32" and model.sequence_length <= LONGEST_EAGER:
            return "eager", f"no GPU, 16 bits and at most {LONGEST_EAGER} tokens: faster there than sdpa"
        return "sdpa", "no GPU"
    if model.positions != "alibi":
        return "sdpa", "without ALiBi it is one fused kernel"
    if lacks["flash"] is None:
        return "flash", "flash-attn takes ALiBi's slopes, so no bias is read"
    if lacks["flex"] is None and training.precision != "fp32":
        return "flex", f"it computes ALiBi in its kernel, so no bias is read; flash: {lacks['flash']}"
    return "sdpa", f"flash: {lacks['flash']}; flex: {lacks['flex'] or 'not for fp32'}"


def _flash_lacks(model: ModelConfig, training: TrainingConfig, facts: MachineFacts) -> str | None:
    """What flash-attn lacks here; None: nothing."""
    return _first(
        {
            "no GPU": not facts.cuda,
            "flash-attn is not installed": facts.flash_attn is None,
            "flash-attn is older than 2.4": facts.flash_attn is not None and facts.flash_attn < FLASH_WITH_ALIBI,
            "the GPU is older than compute capability 8.0": facts.capability < AMPERE,
            "it has no fp32": training.precision == "fp32",
            f"a head of {model.head_size} is no multiple of 8 up to {GREATEST_FLASH_HEAD}": model.head_size % 8 != 0
            or model.head_size > GREATEST_FLASH_HEAD,
        }
    )


def _flex_lacks(model: ModelConfig, facts: MachineFacts) -> str | None:
    """What FlexAttention lacks here; None: nothing."""
    return _first(
        {
            "no GPU: it has no backward pass on a CPU": not facts.cuda,
            "Triton, or a C compiler for it, is not installed": not facts.triton,
            "the GPU is older than compute capability 8.0": facts.capability < AMPERE,
            f"a head of {model.head_size} is smaller than {LEAST_FLEX_HEAD}": model.head_size < LEAST_FLEX_HEAD,
        }
    )


def _layer_norm(training: TrainingConfig, facts: MachineFacts) -> tuple[str, str]:
    asked, lacks = training.kernels.layer_norm, _apex_lacks(facts)
    if asked != "auto":
        return _asked("layer_norm", asked, lacks if asked == "apex" else None)
    if lacks is None and training.kernels.compile:
        return "torch", "the compiler fuses it"
    return ("torch", lacks) if lacks is not None else ("apex", "NVIDIA's apex is installed")


def _optimizer(training: TrainingConfig, facts: MachineFacts) -> tuple[str, str]:
    asked, lacks = training.kernels.optimizer, _apex_lacks(facts)
    if lacks is None and training.optimizer.kind != "adam":
        lacks = f"apex is used for Adam, not for {training.optimizer.kind}"
    if asked != "auto":
        return _asked("optimizer", asked, lacks if asked == "apex" else None)
    if lacks is None:
        return "apex", "NVIDIA's apex is installed"
    return "fused", f"one pass over the weights; apex: {lacks}"


def _apex_lacks(facts: MachineFacts) -> str | None:
    """What NVIDIA's apex lacks here; None: nothing."""
    return _first(
        {
            "no GPU": not facts.cuda,
            "apex is not installed": facts.apex is installed.Apex.ABSENT,
            "the apex that is installed is another project's": facts.apex is installed.Apex.OTHER,
            "apex was built without its CUDA kernels": facts.apex is installed.Apex.SOURCE,
        }
    )


def _first(lacking: dict[str, bool]) -> str | None:
    return next((reason for reason, holds in lacking.items() if holds), None)


def _asked(key: str, name: str, lacks: str | None) -> tuple[str, str]:
    if lacks is not None:
        where = f"training.kernels.{key}"
        raise ConfigError(f"{name} cannot be used here: {lacks}", where=where, expected="auto, or another of the key's")
    return name, "asked for"
