"""Choose the implementation of each kernel on a machine: the rules for `auto` in training.kernels.

All implementations of a kernel agree within rounding, so the choice affects speed and memory only. Each choice comes
with its reason. If an implementation is requested by name but cannot run, an error is raised. It is never replaced by
another one.
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
"""First version of flash-attn that supports ALiBi slopes, also in the backward pass."""
AMPERE = (8, 0)
"""Lowest compute capability on which flash-attn runs and compiling FlexAttention's kernels is worthwhile."""
GREATEST_FLASH_HEAD = 256
LEAST_FLEX_HEAD = 16
LONGEST_EAGER = 512
"""Number of tokens up to which plain bf16 products are faster on a CPU than torch's fused attention.

Times for forward and backward pass on one core of an EPYC with AVX-512 bf16, plain against fused: 4 and 12 ms at 64
tokens, 16 and 21 ms at 256, 40 and 54 ms at 512, 100 and 97 ms at 1,024. In fp32 the fused attention is always chosen.
"""


@dataclass(frozen=True)
class MachineFacts:
    """Facts about a machine that decide the choice of kernels."""

    cuda: bool = False
    """Whether torch sees a GPU."""
    capability: tuple[int, int] = (0, 0)
    """The GPU's compute capability, such as (9, 0) for an H200."""
    triton: bool = False
    """Whether torch can compile for the GPU."""
    flash_attn: tuple[int, ...] | None = None
    """Version of the flash-attn package; None if it is not installed."""
    apex: installed.Apex = installed.Apex.ABSENT

    @classmethod
    def here(cls, *, cuda: bool, capability: tuple[int, int] = (0, 0)) -> MachineFacts:
        """Return the facts of this machine.

        The caller asks torch about the GPU and passes the answer. Packages are found without importing them.
        """
        flash = installed.version("flash_attn") if installed.has("flash_attn") else None
        return cls(cuda, capability, installed.compiles_for_gpu(), flash, installed.apex())


@dataclass(frozen=True)
class Kernels:
    """The chosen implementation of each kernel (never `auto`) and the reason for it."""

    attention: str
    layer_norm: str
    optimizer: str
    reasons: dict[str, str]
    """Reason for each choice, by the key in training.kernels."""

    @property
    def names(self) -> dict[str, str]:
        """Map from each key of training.kernels to the chosen implementation."""
        return {"attention": self.attention, "layer_norm": self.layer_norm, "optimizer": self.optimizer}

    def __str__(self) -> str:
        return "; ".join(f"{key} {name} ({self.reasons[key]})" for key, name in self.names.items())


def choose_kernels(model: ModelConfig, training: TrainingConfig, facts: MachineFacts) -> Kernels:
    """Return the implementations that `training.kernels` selects on a machine.

    Raises:
        ConfigError: an implementation that is requested by name cannot run on the machine.
    """
    attention, why_attention = _attention(model, training, facts)
    layer_norm, why_layer_norm = _layer_norm(training, facts)
    optimizer, why_optimizer = _optimizer(training, facts)
    reasons = {"attention": why_attention, "layer_norm": why_layer_norm, "optimizer": why_optimizer}
    return Kernels(attention, layer_norm, optimizer, reasons)


def _attention(model: ModelConfig, training: TrainingConfig, facts: MachineFacts) -> tuple[str, str]:
    asked = training.kernels.attention
    if training.dropout.attention > 0:
        why = "with training.dropout.attention, only 'eager' computes the attention weights as a tensor"
        if asked not in ("auto", "eager"):
            raise ConfigError(
                f"{asked!r} cannot be used: {why}", where="training.kernels.attention", expected="'auto' or 'eager'"
            )
        return "eager", why if asked == "auto" else "set in the configuration"
    lacks = {"flash": _flash_lacks(model, training, facts), "flex": _flex_lacks(model, facts)}
    if asked != "auto":
        return _asked("attention", asked, lacks.get(asked))
    if not facts.cuda:
        if training.precision != "fp32" and model.sequence_length <= LONGEST_EAGER:
            return (
                "eager",
                f"on a CPU in 16-bit precision, 'eager' is faster than 'sdpa' up to {LONGEST_EAGER} tokens per sample",
            )
        return "sdpa", "no GPU"
    if model.positions != "alibi":
        return "sdpa", "without ALiBi, 'sdpa' runs as one fused kernel"
    if lacks["flash"] is None:
        return "flash", "flash-attn computes ALiBi from the slopes and reads no bias matrix"
    if lacks["flex"] is None and training.precision != "fp32":
        return "flex", f"FlexAttention computes ALiBi in its kernel; 'flash' is not used: {lacks['flash']}"
    lacks_flex = lacks["flex"] or "training.precision is 'fp32'"
    return "sdpa", f"'flash' is not used: {lacks['flash']}; 'flex' is not used: {lacks_flex}"


def _flash_lacks(model: ModelConfig, training: TrainingConfig, facts: MachineFacts) -> str | None:
    """Return why flash-attn cannot be used here; None if it can."""
    return _first(
        {
            "no GPU": not facts.cuda,
            "flash-attn is not installed": facts.flash_attn is None,
            "flash-attn is older than 2.4": facts.flash_attn is not None and facts.flash_attn < FLASH_WITH_ALIBI,
            "the GPU is older than compute capability 8.0": facts.capability < AMPERE,
            "flash-attn does not support fp32": training.precision == "fp32",
            f"head size {model.head_size} is not a multiple of 8, or is above {GREATEST_FLASH_HEAD}": (
                model.head_size % 8 != 0 or model.head_size > GREATEST_FLASH_HEAD
            ),
        }
    )


def _flex_lacks(model: ModelConfig, facts: MachineFacts) -> str | None:
    """Return why FlexAttention cannot be used here; None if it can."""
    return _first(
        {
            "no GPU, and FlexAttention has no backward pass on a CPU": not facts.cuda,
            "Triton, or a C compiler that Triton needs, is not installed": not facts.triton,
            "the GPU is older than compute capability 8.0": facts.capability < AMPERE,
            f"head size {model.head_size} is below {LEAST_FLEX_HEAD}, FlexAttention's minimum": model.head_size
            < LEAST_FLEX_HEAD,
        }
    )


def _layer_norm(training: TrainingConfig, facts: MachineFacts) -> tuple[str, str]:
    asked, lacks = training.kernels.layer_norm, _apex_lacks(facts)
    if asked != "auto":
        return _asked("layer_norm", asked, lacks if asked == "apex" else None)
    if lacks is None and training.kernels.compile:
        return "torch", "torch.compile fuses it"
    return ("torch", lacks) if lacks is not None else ("apex", "NVIDIA's apex is installed")


def _optimizer(training: TrainingConfig, facts: MachineFacts) -> tuple[str, str]:
    asked, lacks = training.kernels.optimizer, _apex_lacks(facts)
    if lacks is None:
        lacks = apex_optimizer_lacks(training)
    if asked != "auto":
        return _asked("optimizer", asked, lacks if asked == "apex" else None)
    if lacks is None:
        return "apex", "NVIDIA's apex is installed"
    if training.optimizer.kind == "lamb":
        return "fused", f"Bloomery's own LAMB; 'apex' is not used: {lacks}"
    return "fused", f"torch's fused optimizer updates the weights in one pass; 'apex' is not used: {lacks}"


def apex_optimizer_lacks(training: TrainingConfig) -> str | None:
    """Return why apex has no optimizer for this training; None if it has one."""
    optimizer = training.optimizer
    lamb = optimizer.lamb
    return _first(
        {
            f"apex is used only for Adam and LAMB, not for {optimizer.kind}": optimizer.kind == "sgd",
            "apex computes only the dialect 'apex' of LAMB, with exact norms": optimizer.kind == "lamb"
            and (lamb.dialect, lamb.norms) != ("apex", "exact"),
            "apex computes LAMB only in one process, because it does not know which parameters are divided": (
                optimizer.kind == "lamb" and training.parallel.world_size > 1
            ),
        }
    )


def _apex_lacks(facts: MachineFacts) -> str | None:
    """Return why NVIDIA's apex cannot be used here; None if it can."""
    return _first(
        {
            "no GPU": not facts.cuda,
            "apex is not installed": facts.apex is installed.Apex.ABSENT,
            "the installed package apex is another project's, not NVIDIA's": facts.apex is installed.Apex.OTHER,
            "apex was built without its CUDA kernels": facts.apex is installed.Apex.SOURCE,
        }
    )


def _first(lacking: dict[str, bool]) -> str | None:
    return next((reason for reason, holds in lacking.items() if holds), None)


def _asked(key: str, name: str, lacks: str | None) -> tuple[str, str]:
    if lacks is not None:
        where = f"training.kernels.{key}"
        expected = "'auto', which chooses an implementation that this machine supports, or another implementation"
        raise ConfigError(f"{name!r} cannot be used here: {lacks}", where=where, expected=expected)
    return name, "set in the configuration"
