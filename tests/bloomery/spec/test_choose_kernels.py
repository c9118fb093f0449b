"""Test which kernels are chosen on which machine, and which requests are refused."""

from __future__ import annotations

from typing import Any

import pytest

from bloomery.base import installed
from bloomery.base.errors import ConfigError
from bloomery.base.installed import Apex
from bloomery.config.model import ModelConfig
from bloomery.config.training import BatchConfig, OptimizerConfig, TrainingConfig
from bloomery.config.training_loop import KernelsConfig
from bloomery.spec.choose_kernels import Kernels, MachineFacts, choose_kernels

CPU = MachineFacts()
H200 = MachineFacts(cuda=True, capability=(9, 0), triton=True)
V100 = MachineFacts(cuda=True, capability=(7, 0), triton=True, flash_attn=(2, 8, 3))
FLASH = MachineFacts(cuda=True, capability=(9, 0), triton=True, flash_attn=(2, 8, 3))
OLD_FLASH = MachineFacts(cuda=True, capability=(9, 0), triton=True, flash_attn=(2, 3, 6))
WITH_APEX = MachineFacts(cuda=True, capability=(9, 0), triton=True, apex=Apex.REAL)


def taken(facts: MachineFacts, model: dict[str, Any] | None = None, kind: str = "adam", **values: Any) -> Kernels:
    kernels = KernelsConfig(**{key: values.pop(key) for key in list(values) if key in KernelsConfig.model_fields})
    shape = {"layers": 1, "hidden_size": 256, "heads": 2, "sequence_length": 64, **(model or {})}
    optimizer = OptimizerConfig.model_validate({"learning_rate": 1.0, "kind": kind, "lamb": values.pop("lamb", {})})
    batch = BatchConfig(global_batch_size=1)
    training = TrainingConfig(train_samples=1, batch=batch, optimizer=optimizer, kernels=kernels, **values)
    return choose_kernels(ModelConfig(**shape), training, facts)


@pytest.mark.parametrize(
    ("facts", "model", "precision", "attention"),
    [
        (CPU, {}, "bf16", "eager"),
        (CPU, {}, "fp32", "sdpa"),
        (CPU, {"sequence_length": 1024}, "bf16", "sdpa"),
        (H200, {}, "bf16", "flex"),
        (H200, {}, "fp32", "sdpa"),
        (H200, {"heads": 32}, "bf16", "sdpa"),  # FlexAttention does not support a head size of 8
        (H200, {"positions": "rotary"}, "bf16", "sdpa"),
        (FLASH, {}, "bf16", "flash"),
        (FLASH, {"heads": 64, "hidden_size": 256 * 5}, "bf16", "flex"),  # the head size is 20
        (FLASH, {}, "fp32", "sdpa"),
        (FLASH, {"positions": "learned"}, "bf16", "sdpa"),
        (OLD_FLASH, {}, "bf16", "flex"),
        (V100, {}, "fp16", "sdpa"),
    ],
)
def test_automatic_choice_of_attention_fits_machine_model_and_precision(
    facts: MachineFacts, model: dict[str, Any], precision: str, attention: str
) -> None:
    found = taken(facts, model, precision=precision)
    assert found.attention == attention
    assert found.reasons["attention"]


def test_dropout_of_attention_weights_needs_eager_attention() -> None:
    for facts in (CPU, H200, FLASH):
        found = taken(facts, precision="bf16", dropout={"attention": 0.1})
        assert found.attention == "eager"
        assert "attention weights" in found.reasons["attention"]
        assert taken(facts, dropout={"hidden": 0.1}).attention == taken(facts).attention


def test_apex_is_used_only_if_nvidias_apex_is_compiled() -> None:
    assert (taken(WITH_APEX).layer_norm, taken(WITH_APEX).optimizer) == ("apex", "apex")
    assert taken(WITH_APEX, compile=True).layer_norm == "torch"
    assert taken(WITH_APEX, kind="sgd").optimizer == "fused"
    assert taken(WITH_APEX, kind="lamb").optimizer == "apex"
    assert taken(WITH_APEX, kind="lamb", parallel={"tensor": 2}).optimizer == "fused"
    assert taken(WITH_APEX, kind="lamb", lamb={"norms": "shard"}).optimizer == "fused"
    for facts in (CPU, H200, MachineFacts(cuda=True, apex=Apex.OTHER), MachineFacts(cuda=True, apex=Apex.SOURCE)):
        assert (taken(facts).layer_norm, taken(facts).optimizer) == ("torch", "fused")


def test_without_a_c_compiler_flex_attention_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "has", lambda module: module == "triton")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr("shutil.which", lambda program: "/usr/bin/clang" if program == "clang" else None)
    assert taken(MachineFacts.here(cuda=True, capability=(9, 0))).attention == "flex"
    monkeypatch.setattr("shutil.which", lambda program: None)
    without = taken(MachineFacts.here(cuda=True, capability=(9, 0)))
    assert without.attention == "sdpa"
    assert "a C compiler" in without.reasons["attention"]


@pytest.mark.parametrize(
    ("facts", "asked", "reason"),
    [
        (CPU, {"attention": "flex"}, "'flex' cannot be used here: no GPU"),
        (CPU, {"attention": "flash"}, "no GPU"),
        (H200, {"attention": "flash"}, "flash-attn is not installed"),
        (V100, {"attention": "flash"}, "compute capability"),
        (H200, {"layer_norm": "apex"}, "apex is not installed"),
        (MachineFacts(cuda=True, apex=Apex.OTHER), {"optimizer": "apex"}, "another project's"),
        (WITH_APEX, {"optimizer": "apex", "kind": "sgd"}, "for Adam and LAMB, not for sgd"),
        (WITH_APEX, {"optimizer": "apex", "kind": "lamb", "lamb": {"dialect": "floor"}}, "only the dialect 'apex'"),
        (WITH_APEX, {"optimizer": "apex", "kind": "lamb", "parallel": {"data": 2}}, "only in one process"),
        (FLASH, {"attention": "flash", "dropout": {"attention": 0.1}}, "only 'eager' computes the attention weights"),
        (H200, {"attention": "flex", "dropout": {"attention": 0.1}}, "expected: 'auto' or 'eager'"),
        (CPU, {"attention": "sdpa", "dropout": {"attention": 0.1}}, "'sdpa' cannot be used"),
    ],
)
def test_a_requested_kernel_that_is_unavailable_is_refused(
    facts: MachineFacts, asked: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        taken(facts, **asked)


def test_a_requested_kernel_is_used() -> None:
    found = taken(FLASH, attention="eager", layer_norm="torch", optimizer="torch")
    assert (found.attention, found.layer_norm, found.optimizer) == ("eager", "torch", "torch")
