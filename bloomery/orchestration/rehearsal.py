"""Derive a rehearsal from a run: the same code path with a tiny model on a few nodes, to test a change first.

A rehearsal keeps the sources, the cleaning, the kind of optimizer, the precision, the recomputation, the rule of the
pipeline partition, and the ramp-up of the batch if there is one. It reduces the amount of text, the vocabulary, the
network, the batches and the length of the training. Its layout fills exactly the requested nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bloomery.base.errors import ConfigError
from bloomery.spec.batch_scaling import resolved_optimizer
from bloomery.spec.partition import divisors
from bloomery.spec.refuse_unsupported import refuse_untrainable

if TYPE_CHECKING:
    from bloomery.config.model import ModelConfig
    from bloomery.config.run import RunConfig
    from bloomery.config.site import Site
    from bloomery.config.training import ParallelConfig, TrainingConfig

DOCUMENTS = 1000
"""Maximum number of rows read from each source."""
ITERATIONS = 40
"""Number of optimizer steps if every batch is full; a ramp-up has smaller batches and therefore adds steps."""
_VOCABULARY = 1024
_RESERVED = 16
_HEAD_SIZE = 16
_SEQUENCE = 128
_SHORTEST = 8
"""First sequence length of a curriculum, and the step by which it grows, in tokens."""
_ONE_NODE = 8
"""Maximum number of processes on one node if the site's file does not state the number."""

Layout = tuple[int, int, int]
"""Tensor-parallel, pipeline-parallel and data-parallel size."""


def rehearsal(config: RunConfig, site: Site, nodes: int) -> dict[str, Any]:
    """Return the rehearsal of `config` on `nodes` nodes of `site`, as the values of a run's YAML without defaults.

    Raises:
        ConfigError: the run can be planned but not trained, or `nodes` is above 1 and the site's file does not state
            the number of processes per node.
    """
    refuse_untrainable(config.model)
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
    # The weights of the full network do not fit the small one.
    values["training"].pop("initial_checkpoint", None)
    values.get("export", {}).pop("model_name", None)
    values["publish"] = {"hub": False}
    values.pop("plan", None)
    stated, full = config.model_dump(mode="json", exclude_unset=True), config.model_dump(mode="json")
    small = _without_defaults(values, stated, full)
    return {key: small[key] for key in type(config).model_fields if key in small}


def _without_defaults(values: dict[str, Any], stated: dict[str, Any], full: dict[str, Any]) -> dict[str, Any]:
    """Return the values that the rehearsal's YAML needs.

    These are the values whose key is in the run's own YAML (`stated`), and the values that differ from the run's values
    (`full`).
    """
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
    """Limit a source to `DOCUMENTS` rows.

    The Universal Declaration (`udhr`) is not limited, because it is small and a limit would drop languages.
    """
    first = {key: source[key] for key in ("name", "kind")}
    most = min(source.get("max_documents") or DOCUMENTS, DOCUMENTS)
    return first | source | ({"max_documents": most} if source["kind"] != "udhr" else {})


def _ranks_of(site: Site) -> int | None:
    """Return the number of processes per node; None if the site's file does not state it."""
    return site.training.ranks_per_node or site.training.gpus_per_node or None


def processes(parallel: ParallelConfig, site: Site, nodes: int) -> int:
    """Return the number of processes of a rehearsal on `nodes` nodes.

    Raises:
        ConfigError: `nodes` is above 1 and the site's file does not state the number of processes per node.
    """
    ranks = _ranks_of(site)
    if ranks is not None:
        return nodes * ranks
    if nodes > 1:
        raise ConfigError(
            f"not set, so the number of processes on {nodes} nodes is unknown",
            where="training.ranks_per_node in the site's file",
            expected="the number of processes per node (for example `bloomery cluster init --ranks-per-node 4`), or "
            "--nodes 1",
        )
    return min(parallel.world_size, _ONE_NODE)


def layout(parallel: ParallelConfig, world: int, ranks_per_node: int | None = None) -> Layout:
    """Return the layout of exactly `world` processes that is most like `parallel`.

    As many sizes as possible that are above 1 stay above 1. If not all of them can, pipeline parallelism is given up
    first, tensor parallelism second, and data parallelism last. The tensor and pipeline sizes never grow; the data size
    is the remaining factor of `world`. If the tensor-parallel groups of `parallel` fit within a node of
    `ranks_per_node` processes, layouts whose groups also fit within a node are preferred.
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
    """Return the divisors of `world` that are at most `most`."""
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
    if model.masked_rows:
        changed["masked_rows"] = 0
    return changed | {name: None for name in own if getattr(model, name) is not None}


def _training(training: TrainingConfig, tensor: int, pipeline: int, data: int) -> dict[str, Any]:
    micro = min(training.batch.micro_batch_size, 2)
    # The full batch has at least as many micro-batches as stages, so that every stage has work. The number of
    # micro-batches is even, so that a ramp-up can start at half of the full batch.
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
    if (scaling := training.batch_scaling) is not None:
        # The peak learning rate stays that of the run, although the batch is smaller.
        rate = resolved_optimizer(training).learning_rate
        changed["batch_scaling"] = scaling.model_dump(mode="json", exclude_unset=True) | {
            "base_batch": full,
            "base_learning_rate": rate,
        }
        if scaling.warmup_iterations is not None:
            changed["batch_scaling"]["warmup_iterations"] = 4
    if training.curriculum is not None:
        lengths = {"start_length": _SHORTEST, "length_step": _SHORTEST}
        changed["curriculum"] = lengths | {"samples": samples // 2}
    parallel: dict[str, Any] = {"tensor": tensor, "pipeline": pipeline, "data": data}
    if training.parallel.sequence_parallel:
        parallel["sequence_parallel"] = tensor > 1 and _SHORTEST % tensor == 0
    checkpoint = {"every_iterations": ITERATIONS // 4, "keep_last": min(training.checkpoint.keep_last, 3)}
    return changed | {
        "train_samples": samples,
        "train_epochs": None,
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
    """Return the run's optimizer settings with a schedule of the same shape; `warmup` and `samples` are in samples."""
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
