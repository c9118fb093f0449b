"""Collect the warnings of a plan: settings that are allowed but that a reader should know about."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bloomery.base.units import format_bytes
from bloomery.spec.batch import ladder_rungs
from bloomery.spec.duration import bubble_fraction, micro_batches, save_seconds
from bloomery.spec.hardware import gpus
from bloomery.spec.memory import memory, usable_bytes
from bloomery.spec.refuse_unsupported import untrainable

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig


@dataclass(frozen=True)
class Notice:
    """One warning of a plan."""

    key: str
    value: object
    reason: str


def notices(config: RunConfig) -> list[Notice]:
    """Return every warning for a run."""
    checks = (_of_numerics, _of_shape, _of_gpu, _of_pipeline, _of_failures, _of_engine)
    return [found for check in checks for found in check(config)]


def _of_numerics(config: RunConfig) -> list[Notice]:
    training = config.training
    found = []
    if training.zero_stage == 0:
        reason = (
            "current DeepSpeed versions sum bf16 gradients in bf16 under ZeRO stage 0, so the run uses stage 1, which "
            "sums them in fp32, as stage 0 did in 2022; stage 1 also splits the optimizer's state over the replicas"
        )
        found.append(Notice("training.zero_stage", 0, reason))
    if training.gradient_accumulation == "same" and training.precision == "fp16":
        reason = "the gradients of the micro-batches are summed in fp16, which is less exact than the default, fp32"
        found.append(Notice("training.gradient_accumulation", "same", reason))
    return found


def _of_shape(config: RunConfig) -> list[Notice]:
    model, tokenizer = config.model, config.tokenizer
    found = []
    if tokenizer.existing is not None:
        reason = (
            f"the plan assumes this vocabulary size, because it does not read the tokenizer {tokenizer.existing}; the "
            "import refuses a tokenizer with a larger vocabulary"
        )
        found.append(Notice("tokenizer.vocabulary_size", tokenizer.vocabulary_size, reason))
    if model.head_size % 8:
        reason = (
            f"each attention head is {model.head_size} wide, which is not a multiple of 8, so tensor cores and fused "
            f"attention pad the heads or are not used; {-(-model.head_size // 8) * 8} is the next multiple of 8"
        )
        found.append(Notice("model.heads", model.heads, reason))
    rule = math.sqrt(1 / (3 * model.hidden_size))
    if model.family == "gpt" and not 0.8 <= model.standard_deviation / rule <= 1.25:
        reason = (
            f"the standard deviation of the initial weights, {model.standard_deviation:g}, is "
            f"{model.standard_deviation / rule:.2f} times the usual value sqrt(1 / (3 x hidden size)) = {rule:.5f}"
        )
        found.append(Notice("model.init_std", model.init_std, reason))
    return found


def _of_gpu(config: RunConfig) -> list[Notice]:
    plan, training = config.plan, config.training
    if plan.gpu is None:
        return []
    gpu = gpus()[plan.gpu]
    found = []
    if training.precision == "bf16" and not gpu.bf16:
        found.append(Notice("training.precision", "bf16", f"{plan.gpu} does not support bfloat16 matrix products"))
    worst = max(memory(config), key=lambda stage: stage.total)
    if worst.total > usable_bytes(gpu.memory_bytes):
        reason = (
            f"pipeline stage {worst.stage} needs {format_bytes(worst.total)} of GPU memory, but one {plan.gpu} has "
            f"{format_bytes(gpu.memory_bytes)}, of which 5 % cannot be used; `bloomery plan CONFIG --suggest` ranks "
            "layouts that fit"
        )
        found.append(Notice("plan.gpu", plan.gpu, reason))
    if training.parallel.tensor > plan.gpus_per_node:
        reason = (
            f"a tensor-parallel group is larger than a node of {plan.gpus_per_node} GPUs, so its communication "
            "between nodes is slow"
        )
        found.append(Notice("training.parallel.tensor", training.parallel.tensor, reason))
    return found


def _of_pipeline(config: RunConfig) -> list[Notice]:
    parallel = config.training.parallel
    first = ladder_rungs(config.training.batch)[0]
    found, turns = [], micro_batches(config, first)
    if parallel.pipeline > 1 and (idle := bubble_fraction(parallel.pipeline, turns)) > 0.25:
        reason = (
            f"with the first global batch of {first} samples, a replica has {turns} "
            f"micro-batch{'' if turns == 1 else 'es'} for {parallel.pipeline} pipeline stages, so each stage is idle "
            f"for {idle:.0%} of the time"
        )
        found.append(Notice("training.batch", first, reason))
    return found


def _of_failures(config: RunConfig) -> list[Notice]:
    between = config.plan.faults.days_between_failures
    if between is None or save_seconds(config):
        return []
    reason = (
        f"the plan assumes a failure every {between:g} days, but the time of a save is unknown, so the cost of "
        "failures cannot be computed; set plan.save_seconds or plan.write_gb_per_second"
    )
    return [Notice("plan.save_seconds", config.plan.save_seconds, reason)]


def _of_engine(config: RunConfig) -> list[Notice]:
    reason = "a run with this setting can be planned, but not trained yet"
    return [Notice(what.split(" ")[0], what.partition(" ")[2] or None, reason) for what in untrainable(config.model)]
