"""Test that a rehearsal runs the same stages with a tiny model on exactly the requested nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from big_run import big
from repository import ROOT
from tiny_run import configuration

from bloomery.base.errors import ConfigError
from bloomery.checks.load_config import load_config, validate_config
from bloomery.config.site import Site
from bloomery.config.training import ParallelConfig
from bloomery.config.training_loop import SkipRange
from bloomery.orchestration.rehearsal import DOCUMENTS, layout, rehearsal
from bloomery.orchestration.rehearsal_file import HEADER, render
from bloomery.orchestration.training_job import training_job
from bloomery.spec.batch_scaling import resolved_optimizer
from bloomery.spec.overview import overview

SHIPPED = ("sample", "udhr", "folder", "wikipedia", "models/tr11-176b")
EIGHT = Site.model_validate({"training": {"gpus_per_node": 8}})
TWO = Site.model_validate({"training": {"gpus_per_node": 2}})


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize(("site", "nodes"), [(TWO, 2), (EIGHT, 2), (EIGHT, 1), (Site(), 1)])
def test_the_written_file_is_a_valid_run_that_fills_the_nodes(
    name: str, site: Site, nodes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BLOOMERY_CORPUS", "/corpus")
    config = load_config(ROOT / f"config/{name}.yaml")
    path = tmp_path / "r.yaml"
    values = rehearsal(config, site, nodes)
    path.write_text(render(values, config.model_dump(mode="json"), name, nodes, "snakemake"))
    small = load_config(path)
    assert small == validate_config(values)
    assert path.read_text().startswith(HEADER)
    assert len(path.read_text().splitlines()) < 110
    job = training_job(small, site)
    ranks = site.training.gpus_per_node or small.training.parallel.world_size
    assert (job.nodes, small.training.parallel.world_size) == (nodes, nodes * ranks)
    assert (small.name, small.publish.hub) == (f"{config.name}-rehearsal", False)
    figures = overview(small)
    assert figures.parameters < 3_000_000
    assert 40 <= figures.iterations < 60
    assert [source.name for source in small.sources] == [source.name for source in config.sources]
    read = [source.max_documents for source in small.sources]
    assert read == [None if source.kind == "udhr" else DOCUMENTS for source in small.sources]


def test_a_rehearsal_keeps_the_settings_under_test_and_shrinks_the_cost() -> None:
    small = validate_config(rehearsal(big(), EIGHT, 2))
    training, parallel = small.training, small.training.parallel
    assert (parallel.tensor, parallel.pipeline, parallel.data) == (4, 2, 2)
    assert (training.precision, training.activation_checkpointing, training.partition) == ("bf16", "none", "uniform")
    assert (training.optimizer.learning_rate, training.optimizer.beta2) == (6e-5, 0.9)
    assert training.optimizer.decay_samples == training.train_samples
    assert training.batch.rampup is not None
    # The full batch has at least two micro-batches for each pipeline stage.
    assert training.batch.global_batch_size >= 2 * parallel.data * parallel.pipeline
    assert (training.segment.max_crashes, training.peak_tflops, training.on_change) == (7, 312, "restart")
    assert small.corpus.dedup.partitions == 2
    assert small.corpus.judge == big().corpus.judge
    assert small.model.layers >= parallel.pipeline
    assert small.model.heads % parallel.tensor == 0
    assert training.checkpoint.every_iterations < overview(small).iterations // 2
    assert training.validation.every_iterations < overview(small).iterations
    # Training needs at least two segments, and no segment ends by time.
    assert training.segment.minutes is None
    assert training.segment.iterations is not None
    assert training.segment.iterations < overview(small).iterations


def test_a_run_that_cannot_be_trained_is_not_rehearsed() -> None:
    config = load_config(ROOT / "config/models/bert-large.yaml")
    with pytest.raises(ConfigError, match=r"not trained yet: model.family bert;"):
        rehearsal(config, EIGHT, 1)


def test_a_rehearsal_scales_down_a_curriculum_and_its_schedule() -> None:
    config = load_config(ROOT / "config/models/tr8-104b-curriculum.yaml")
    parallel = config.training.parallel.model_copy(update={"sequence_parallel": True})
    skip = [SkipRange(from_sample=10**6, to_sample=10**6 + 5)]
    whole = config.training.model_copy(update={"parallel": parallel, "skip": skip, "train_tokens": 10**11})
    small = validate_config(rehearsal(config.model_copy(update={"training": whole}), EIGHT, 2)).training
    assert small.curriculum is not None
    assert small.parallel.sequence_parallel
    assert (small.optimizer.decay_samples, small.optimizer.decay_tokens) == (small.train_samples, None)
    assert (small.train_tokens, small.skip) == (None, [])
    assert small.optimizer.warmup_samples < small.train_samples // 4


def test_a_rehearsal_keeps_the_learning_rate_of_a_scaled_batch() -> None:
    whole = big()
    scaling = {"base_batch": 8, "base_learning_rate": 1e-4, "cap": 3e-4, "warmup_iterations": 900}
    values = whole.model_dump(mode="json", exclude_unset=True)
    del values["training"]["optimizer"]["learning_rate"], values["training"]["optimizer"]["warmup_samples"]
    values["training"]["batch_scaling"] = scaling
    config = validate_config(values)
    rate = resolved_optimizer(config.training).learning_rate
    assert rate == 3e-4
    small = rehearsal(config, EIGHT, 2)
    training = validate_config(small).training
    assert training.batch_scaling is not None
    assert (training.batch_scaling.warmup_iterations, training.optimizer.warmup_samples) == (4, 0)
    assert resolved_optimizer(training).learning_rate == rate
    assert "warmup_iterations: 4  # 900: the warm-up ends early" in render(
        small, config.model_dump(mode="json"), "big.yaml", 2, "snakemake"
    )


@pytest.mark.parametrize(
    ("wanted", "world", "ranks", "found"),
    [
        ((4, 12, 8), 16, 8, (4, 2, 2)),
        ((4, 12, 8), 32, 8, (4, 4, 2)),
        ((4, 12, 8), 64, 8, (4, 8, 2)),
        ((4, 12, 8), 8, 4, (2, 2, 2)),
        ((4, 12, 8), 4, 2, (2, 1, 2)),  # the pipeline size is reduced to 1 first
        ((4, 12, 8), 2, 1, (1, 1, 2)),  # then the tensor size is reduced to 1
        ((4, 32, 1), 16, 8, (4, 4, 1)),
        ((2, 2, 1), 4, 2, (2, 2, 1)),
        ((2, 2, 1), 16, 8, (2, 2, 4)),
        ((1, 1, 1), 16, 8, (1, 1, 16)),
        ((2, 2, 1), 6, 3, (2, 1, 3)),
        ((1, 8, 1), 16, 8, (1, 8, 2)),
        ((2, 3, 1), 12, 6, (2, 3, 2)),
        ((8, 1, 4), 12, 6, (6, 1, 2)),
        ((4, 1, 4), 24, 12, (4, 1, 6)),
    ],
)
def test_the_layout_of_a_rehearsal_fits_the_processes(
    wanted: tuple[int, int, int], world: int, ranks: int, found: tuple[int, int, int]
) -> None:
    tensor, pipeline, data = wanted
    assert layout(ParallelConfig(tensor=tensor, pipeline=pipeline, data=data), world, ranks) == found


def test_every_layout_fills_the_nodes_and_is_valid() -> None:
    wanted: list[dict[str, Any]] = [
        {"tensor": tensor, "pipeline": pipeline, "data": data}
        for tensor in (1, 2, 4)
        for pipeline in (1, 3, 12)
        for data in (1, 8)
    ]
    for parallel in wanted:
        for ranks in (1, 2, 3, 4, 6, 8):
            site = Site.model_validate({"training": {"ranks_per_node": ranks}})
            small = validate_config(rehearsal(big(**parallel), site, 2))
            assert training_job(small, site).nodes == 2
            assert small.training.parallel.world_size == 2 * ranks


def test_several_nodes_require_training_ranks_per_node() -> None:
    with pytest.raises(ConfigError, match=r"training\.ranks_per_node"):
        rehearsal(big(), Site(), 2)


def test_a_rehearsal_keeps_an_existing_tokenizer_with_a_small_vocabulary() -> None:
    config = configuration(existing="owner/name", vocabulary_size=300)
    values = rehearsal(config, Site(), 1)
    assert values["tokenizer"] == {"existing": "owner/name", "vocabulary_size": 300}
    assert validate_config(values).tokenizer == config.tokenizer
