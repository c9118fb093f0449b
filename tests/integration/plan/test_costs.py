"""Parameters of every family, memory, communication, risk and suggestions, for any shape."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from repository import ROOT

from bloomery.config import RunConfig, load_config
from bloomery.config.model import ModelConfig
from bloomery.spec.communication import communication
from bloomery.spec.disk import disk_bytes, kept_checkpoints
from bloomery.spec.duration import bubble_fraction, iteration_seconds, training_seconds
from bloomery.spec.flops import iteration_flops
from bloomery.spec.memory import activation_bytes, memory
from bloomery.spec.parameters import declare, layer_count, parameter_count
from bloomery.spec.trajectory import trajectory
from planner.planned_state import speed_at, state_at
from planner.risk import daly_interval, risk, wall_seconds, young_interval
from planner.simulation.scenario import campaign_of
from planner.simulation.timeline import Work
from planner.suggest import suggest

GIB = 2**30


@st.composite
def models(draw: st.DrawFn) -> ModelConfig:
    family = draw(st.sampled_from(["gpt", "bert", "t5"]))
    heads = draw(st.integers(1, 8))
    values: dict[str, Any] = {
        "family": family,
        "layers": draw(st.integers(1, 6)),
        "heads": heads,
        "hidden_size": heads * 2 * draw(st.integers(1, 8)),
        "feed_forward_size": draw(st.none() | st.integers(1, 300)),
        "sequence_length": draw(st.integers(8, 64)),
    }
    if family == "gpt":
        values["positions"] = draw(st.sampled_from(["alibi", "learned", "rotary"]))
        values["embedding_layernorm"] = draw(st.booleans())
        values["activation"] = draw(st.sampled_from(["gelu", "swiglu"]))
        values["tied_embeddings"] = draw(st.booleans())
    else:
        values |= {"positions": "learned", "embedding_layernorm": False}
    if family == "t5":
        values |= {"decoder_layers": draw(st.integers(1, 6)), "decoder_sequence_length": 16}
    return ModelConfig(**values)


@given(models(), st.integers(1, 500))
def test_counted_tensors_equal_the_formula(model: ModelConfig, rows: int) -> None:
    declared = declare(model, rows)
    assert sum(each.count for each in declared) == parameter_count(model, rows)
    assert len({each.name for each in declared}) == len(declared)
    layers = {layer for each in declared for layer in (each.layer, *each.tied_layers)}
    assert layers <= set(range(layer_count(model)))


def test_bert_and_t5_as_published() -> None:
    # Megatron-LM's paper counts 336 M for BERT-large (Shoeybi et al. 2019, table 4); T5-small has 60 M (Raffel et al.).
    for name, millions in (("bert-large", 336), ("t5-small", 60), ("bert-85l", 1105)):
        config = load_config(ROOT / f"config/models/{name}.yaml")
        rows = 30_720 if name == "t5-small" else 30_592
        assert round(parameter_count(config.model, rows) / 1e6) == millions


def with_training(config: RunConfig, **changes: Any) -> RunConfig:
    return config.model_copy(update={"training": config.training.model_copy(update=changes)})


def test_memory_of_bloom_by_hand(bloom: RunConfig) -> None:
    # 6 blocks on tensor 4: weights 2 B, gradients 4 B, master weights and moments 12 B over 8 replicas.
    middle = memory(bloom)[6]
    hidden, norms_and_biases = 14_336, 6 * (4 + 2) * 14_336
    split = (6 * (12 * hidden**2 + 13 * hidden) - norms_and_biases) // 4 + norms_and_biases
    assert middle.parameters == split
    assert (middle.weights, middle.gradients) == (2 * split, 4 * split)
    assert middle.optimizer == pytest.approx(12 * split / 8, abs=12)
    # Recomputed: the input of each of 6 blocks for 6 micro-batches in flight, and all of one block while it is redone.
    stream = 2 * 2048 * hidden * 2
    assert middle.activations == pytest.approx(36 * stream, rel=0.2)
    assert middle.activations_kept > 5 * middle.activations
    assert middle.total < 80 * GIB


def test_memory_falls_with_what_splits_it(bloom: RunConfig) -> None:
    def worst(**sizes: int) -> int:
        parallel = bloom.training.parallel.model_copy(update=sizes)
        return max(stage.total for stage in memory(with_training(bloom, parallel=parallel)))

    assert worst(tensor=8) < worst() < worst(tensor=2)
    assert worst(data=16) < worst() < worst(data=1)
    assert worst(pipeline=14) < worst() < worst(pipeline=7)
    kept = with_training(bloom, activation_checkpointing="none")
    assert [stage.total for stage in memory(kept)] > [stage.total for stage in memory(bloom)]


def test_bytes_that_are_sent(bloom: RunConfig) -> None:
    sent = communication(bloom, 2048)
    stream = 2 * 2048 * 14_336 * 2
    # 5 all-reduces a block (2 forward, 2 backward, 1 recomputed), each sending 2 (t - 1) / t of the stream.
    assert sent.tensor == 5 * 6 * 128 * stream * 2 * 3 // 4
    assert sent.pipeline == 2 * 128 * stream
    alone = bloom.training.parallel.model_copy(update={"tensor": 1, "pipeline": 1, "data": 1})
    assert communication(with_training(bloom, parallel=alone), 2048).total == 0


def test_sequence_parallelism_splits_what_tensor_parallelism_repeats(bloom: RunConfig) -> None:
    split = with_training(bloom, parallel=bloom.training.parallel.model_copy(update={"sequence_parallel": True}))
    # Korthikanti et al. 2022, arXiv:2205.05198: the parts outside of the matrices shrink by the tensor-parallel size.
    whole, parts = (activation_bytes(each.model, each.training) for each in (bloom, split))
    outside = 2 * 2048 * (4 * 14_336 * 2 + 4 * 4)
    assert whole - parts == outside * 3 // 4
    assert memory(split)[6].activations_recomputed < memory(bloom)[6].activations_recomputed / 2
    # As many bytes travel, but for the inputs of matrices, which are gathered once more: two on the way back, and one
    # where the block is recomputed.
    assert communication(split, 2048).tensor == communication(bloom, 2048).tensor * 13 // 10
    assert communication(split, 2048).pipeline == communication(bloom, 2048).pipeline // 4


def test_selective_recomputation_lies_between(bloom: RunConfig) -> None:
    found = memory(with_training(bloom, activation_checkpointing="selective"))[6]
    assert found.activations == found.activations_selective
    assert found.activations_recomputed < found.activations_selective < found.activations_kept
    # No matrix product is done twice.
    selective = with_training(bloom, activation_checkpointing="selective")
    speed = speed_at(selective, state_at(selective, iteration=1), 100.0)
    assert speed.tflops_hardware == speed.tflops_model


def test_swiglu_costs_a_third_matrix() -> None:
    # Llama's rule (arXiv:2302.13971): two thirds of 4 h keep parameters and operations, but for biases.
    shape: dict[str, Any] = {"layers": 2, "hidden_size": 96, "heads": 4, "sequence_length": 64}
    plain = ModelConfig(**shape)
    gated = ModelConfig(**shape, activation="swiglu", feed_forward_size=256)
    more = parameter_count(gated, 128) - parameter_count(plain, 128)
    assert more == 2 * (2 * 256 - 384)
    assert iteration_flops(gated, 128, 1, recomputed=False) == iteration_flops(plain, 128, 1, recomputed=False)


def test_the_bubble() -> None:
    assert bubble_fraction(1, 5) == 0
    assert bubble_fraction(12, 128) == pytest.approx(11 / 139)


def test_operations_of_a_curriculum_shrink_with_the_length(bloom: RunConfig) -> None:
    def flops(length: int) -> float:
        return iteration_flops(bloom.model, 250_880, 1, recomputed=False, sequence_length=length)

    assert flops(1024) < flops(2048) / 2
    assert flops(2048) == iteration_flops(bloom.model, 250_880, 1, recomputed=False)


def test_operations_equal_six_per_parameter_and_token_for_a_wide_model(bloom: RunConfig) -> None:
    # arXiv:2001.08361: 6 N D without attention's scores; the published formula is within a few per cent.
    parameters = parameter_count(bloom.model, 250_880)
    flops = iteration_flops(bloom.model, 250_880, 1, recomputed=False)
    assert flops == pytest.approx(6 * parameters * 2048, rel=0.03)


def test_checkpoints_that_are_kept(bloom: RunConfig) -> None:
    assert kept_checkpoints(bloom, 115_311) == 115 + 15 + 1
    assert kept_checkpoints(bloom, 250) == 3 + 1
    assert disk_bytes(bloom).checkpoints == 131 * 14 * 176_247_271_424


def test_a_run_that_ends_by_tokens_fills_disk_for_what_it_really_does() -> None:
    curriculum = load_config(ROOT / "config/models/tr8-104b-curriculum.yaml")
    run = trajectory(curriculum.model, curriculum.training).end
    # 89,033 iterations of the 292,968 that 600 M samples would be: 59 kept for good, the last 15, one in writing.
    assert (run.iteration, disk_bytes(curriculum).kept_checkpoints) == (89_033, 59 + 15 + 1)
    assert disk_bytes(curriculum).index == run.consumed_samples * 2048 * 2


def test_days_count_the_save_and_the_validation_at_the_end(bloom: RunConfig) -> None:
    # As the simulation without interruptions does.
    assert training_seconds(bloom) == pytest.approx(Work(campaign_of(bloom)).done[-1])


def test_young_and_daly() -> None:
    # Young 1974: sqrt(2 d M); for a save far shorter than the time between failures both agree.
    assert young_interval(40, 14 * 86_400) == pytest.approx(math.sqrt(2 * 40 * 14 * 86_400))
    assert daly_interval(40, 14 * 86_400) == pytest.approx(young_interval(40, 14 * 86_400), rel=0.01)
    assert daly_interval(100, 40) == 40


@given(st.floats(1, 600), st.floats(3600, 40 * 86_400), st.floats(0, 3600))
def test_no_other_interval_loses_less_than_dalys(save: float, mean: float, restart: float) -> None:
    best = daly_interval(save, mean)
    lost = risk(best, save, restart, mean).lost_fraction
    assert 0 < lost < 1
    for factor in (0.25, 0.5, 0.8, 1.25, 2, 4):
        assert lost <= risk(best * factor, save, restart, mean).lost_fraction + 2e-3


def test_without_failures_only_the_saves_cost() -> None:
    assert wall_seconds(1e6, 1000, 10, 600, 1e15) == pytest.approx(1e6 * 1.01, rel=1e-3)


def test_suggestions_work_and_rejections_say_why(bloom: RunConfig) -> None:
    found = suggest(bloom, 384, 80 * GIB, 2048)
    good = [each for each in found if each.reason is None]
    assert good
    assert found[: len(good)] == good
    assert [each.tflops_model for each in good] == sorted((each.tflops_model for each in good), reverse=True)
    for each in found:
        assert each.tensor * each.pipeline * each.data == 384
        assert (each.reason is None) == (each.seconds_per_iteration > 0)
    ran = next(each for each in found if (each.tensor, each.pipeline, each.micro_batch_size) == (4, 12, 2))
    assert ran.reason is None
    reasons = " ".join(each.reason or "" for each in found)
    for said in ("heads do not split over tensor", "cannot fill", "is not divisible by micro-batch", "needs"):
        assert said in reasons
    assert all(each.reason for each in suggest(bloom, 8, 80 * GIB, 2048))


def test_the_layout_of_bloom_is_estimated_as_it_ran(bloom: RunConfig) -> None:
    unstated = bloom.model_copy(update={"plan": bloom.plan.model_copy(update={"tflops_hardware": None})})
    ran = next(
        each
        for each in suggest(bloom, 384, 80 * GIB, 2048)
        if (each.tensor, each.pipeline, each.micro_batch_size, each.activation_checkpointing) == (4, 12, 2, "full")
    )
    assert ran.seconds_per_iteration == pytest.approx(iteration_seconds(unstated, 2048))
    assert ran.tflops_hardware == pytest.approx(149, abs=1)


def test_a_faster_network_is_faster(bloom: RunConfig) -> None:
    def seconds(rate: float | None) -> float:
        plan = bloom.plan.model_copy(update={"tflops_hardware": None, "network_gb_per_second": rate})
        return iteration_seconds(bloom.model_copy(update={"plan": plan}), 2048)

    assert seconds(25) < seconds(None) == seconds(6.25) < seconds(1)
