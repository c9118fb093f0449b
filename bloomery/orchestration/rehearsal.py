"""A rehearsal of a run: the same code path with a tiny model on a few nodes, to try a change before the real thing.

What is kept: sources, cleaning, kind of optimizer, precision, recomputation, partition of the layers, batch ramp-up.
What shrinks: text, vocabulary, network, batches, training, and the layout, which fills exactly the nodes asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bloomery.base.errors import ConfigError
from bloomery.spec.partition import divisors
from bloomery.spec.refuse_unsupported import refuse_untrainable

if TYPE_CHECKING:
    from bloomery.config.model import ModelConfig
    from bloomery.config.run import RunConfig
    from bloomery.config.site import Site
    from bloomery.config.training import ParallelConfig, TrainingConfig

DOCUMENTS = 1000
"""Rows read from each source."""
ITERATIONS = 40
"""Optimizer steps at the full batch; a ramp-up adds some."""
_VOCABULARY = 1024
_RESERVED = 16
_HEAD_SIZE = 16
_SEQUENCE = 128
_SHORTEST = 8
"""First length of a curriculum, tokens, and its step."""
_ONE_NODE = 8
"""Most processes on a node whose number of processes nobody has stated."""

Layout = tuple[int, int, int]
"""Tensor, pipeline and data size."""


def rehearsal(config: RunConfig, site: Site, nodes: int) -> dict[str, Any]:
    """The rehearsal of `config` on `nodes` nodes of `site`, as a run's YAML holds it: only what is not a default.

    Raises:
        ConfigError: several nodes, and the site's file does not say how many processes a node takes; or the run is one
            that can be planned but not trained.
    """
    refuse_untrainable(config.model, config.training)
    training = config.training
    tensor, pipeline, data = layout(training.parallel, processes(training.parallel, site, nodes), _ranks_of(site))
    values: dict[str, Any] = config.model_dump(mode="json", exclude_unset=True)
    values["name"] = f"{config.name[:90]}-rehearsal"
    values["sources"] = [_source(source) for source in values["sources"]]
    partitions = config.corpus.dedup.partitions
    if partitions > 2:
        values["corpus"]["dedup"]["partitions"] = 2
    if config.tokenizer.existing is None:
        values["tokenizer"] = values.get("tokenizer", {}) | {
            "vocabulary_size": min(config.tokenizer.vocabulary_size, _VOCABULARY),
            "reserved_tokens": min(config.tokenizer.reserved_tokens, _RESERVED),
        }
    values["index"] = values.get("index", {}) | {"validation_share": max(config.index.validation_share, 0.1)}
    values["model"] |= _model(config.model, tensor, pipeline)
    values["training"] |= _training(training, tensor, pipeline, data)
    values.get("export", {}).pop("model_name", None)
    values["publish"] = {"hub": False}
    values.pop("plan", None)
    stated, full = config.model_dump(mode="json", exclude_unset=True), config.model_dump(mode="json")
    small = _without_defaults(values, stated, full)
    return {key: small[key] for key in type(config).model_fields if key in small}


def _without_defaults(values: dict[str, Any], stated: dict[str, Any], full: dict[str, Any]) -> dict[str, Any]:
    """The values that the run states itself, or that differ from what it has."""
    kept: dict[str, Any] = {}
    for key, value in values.items():
        before = full.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            value = _without_defaults(value, stated.get(key) or {}, before)
            if value:
                kept[key] = value
        elif key in stated or value != before:
            kept[key] = value
    return kept


def _source(source: dict[str, Any]) -> dict[str, Any]:
    """A source that is read in part; the Universal Declaration is small, and cut it would lose languages."""
    first = {key: source[key] for key in ("name", "kind")}
    most = min(source.get("max_documents") or DOCUMENTS, DOCUMENTS)
    return first | source | ({"max_documents": most} if source["kind"] != "udhr" else {})


def _ranks_of(site: Site) -> int | None:
    """Processes of a node, where the site says."""
    return site.training.ranks_per_node or site.training.gpus_per_node or None


def processes(parallel: ParallelConfig, site: Site, nodes: int) -> int:
    """How many processes a rehearsal on `nodes` nodes has.

    Raises:
        ConfigError: as `rehearsal`.
    """
    ranks = _ranks_of(site)
    if ranks is not None:
        return nodes * ranks
    if nodes > 1:
        raise ConfigError(
            f"how many processes does a node take? {nodes} nodes cannot be filled without knowing",
            where="the site's file, training.ranks_per_node",
            expected="the number (`bloomery cluster init --ranks-per-node 4`), or --nodes 1",
        )
    return min(parallel.world_size, _ONE_NODE)


def layout(parallel: ParallelConfig, world: int, ranks_per_node: int | None = None) -> Layout:
    """The layout of exactly `world` processes that is most like `parallel`.

    Sizes above 1 stay above 1 as far as `world` can be factored so; where not all can, the pipeline goes first, then
    tensor parallelism. Tensor and pipeline size never grow; data parallelism takes what they leave. A tensor-parallel
    group that lay within a node still does.
    """
    within = ranks_per_node is not None and ranks_per_node % parallel.tensor == 0
    best: tuple[tuple[int, ...], Layout] | None = None
    for tensor in _sizes(world, parallel.tensor):
        for pipeline in _sizes(world // tensor, parallel.pipeline):
            data = world // tensor // pipeline
            wanted = (parallel.tensor, parallel.pipeline, parallel.data)
            kept = [int(size > 1) for size, before in zip((tensor, pipeline, data), wanted, strict=True) if before > 1]
            inside = not within or (ranks_per_node or 1) % tensor == 0
            keeps_data = int(data > 1 or parallel.data == 1)
            score = (sum(kept), int(inside), keeps_data, int(tensor > 1), tensor, pipeline)
            best = max(best or (score, (tensor, pipeline, data)), (score, (tensor, pipeline, data)))
    assert best is not None  # 1 divides everything
    return best[1]


def _sizes(world: int, most: int) -> list[int]:
    """Sizes, at most `most`, by which `world` processes can be split."""
    return [size for size in divisors(world) if size <= most]


def _model(model: ModelConfig, tensor: int, pipeline: int) -> dict[str, Any]:
    heads = tensor * -(-4 // tensor)
    changed = {
        "layers": max(pipeline, min(model.layers, 2 * pipeline)),
        "hidden_size": heads * _HEAD_SIZE,
        "heads": heads,
        "sequence_length": min(model.sequence_length, _SEQUENCE),
    }
    own = ("init_std", "padded_vocabulary_size", "feed_forward_size")
    return changed | {name: None for name in own if getattr(model, name) is not None}


def _training(training: TrainingConfig, tensor: int, pipeline: int, data: int) -> dict[str, Any]:
    micro = min(training.batch.micro_batch_size, 2)
    # At least as many micro-batches as stages, so that every stage works; an even number, for a ramp-up in two steps.
    half = micro * data * max(1, -(-pipeline // 2))
    full = 2 * half
    samples = ITERATIONS * full
    changed: dict[str, Any] = {}
    batch: dict[str, Any] = {"micro_batch_size": micro, "global_batch_size": full}
    if training.batch.rampup is not None:
        batch["rampup"] = {"start": half, "increment": half, "samples": 4 * full}
    if training.batch.micro_batch_changes:
        batch["micro_batch_changes"] = [{"from_batch": full, "size": 2 * micro}]
    optimizer = _optimizer(training, 4 * full, samples)
    if training.curriculum is not None:
        lengths = {"start_length": _SHORTEST, "length_step": _SHORTEST}
        changed["curriculum"] = lengths | {"samples": samples // 2}
    parallel: dict[str, Any] = {"tensor": tensor, "pipeline": pipeline, "data": data}
    if training.parallel.sequence_parallel:
        parallel["sequence_parallel"] = tensor > 1 and _SHORTEST % tensor == 0
    checkpoint = {"every_iterations": ITERATIONS // 4, "keep_last": min(training.checkpoint.keep_last, 3)}
    return changed | {
        "train_samples": samples,
        "train_tokens": None,
        "skip": [],
        "parallel": parallel,
        "batch": batch,
        "optimizer": optimizer,
        "checkpoint": checkpoint,
        "validation": {"every_iterations": ITERATIONS // 2, "samples": min(training.validation.samples, 4)},
        "segment": training.segment.model_dump(mode="json", exclude_unset=True)
        | {"minutes": None, "iterations": ITERATIONS // 2 + 5},
        "on_change": "restart",
    }


def _optimizer(training: TrainingConfig, warmup: int, samples: int) -> dict[str, Any]:
    """The run's own optimizer, with a schedule of the same shape over `samples`, in samples."""
    own = training.optimizer
    optimizer = own.model_dump(mode="json", exclude_unset=True)
    for unit in ("samples", "tokens"):
        for part in ("warmup", "decay", "cooldown"):
            optimizer.pop(f"{part}_{unit}", None)
    if own.warmup_samples or own.warmup_tokens:
        optimizer["warmup_samples"] = warmup
    if own.decay_samples or own.decay_tokens:
        optimizer["decay_samples"] = samples
    if own.cooldown_samples or own.cooldown_tokens:
        optimizer["cooldown_samples"] = samples // 4
    return optimizer
