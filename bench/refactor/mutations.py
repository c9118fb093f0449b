"""Draw wrong and unusual configurations from the shipped ones, with a fixed seed.

This file imports no module of the packages, so a change of the packages cannot change the drawn configurations.
"""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

SEED = 16
"""Seed of all draws."""
COUNT = 400
"""Number of configurations to draw."""
_OTHER_TYPES: list[Any] = ["a word", [1, 2], {"a": 1}, None, True, "12", 3.5, []]
_UNKNOWN = ["nonsense", "samples", "hidden", "learning_rat", "size", "every_iteration", "micro_batch"]
_POWERS = [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64, 96, 128, 512, 2048]
_SAMPLES = [1, 7, 160, 1600, 5000, 183_105, 5_000_000, 220_000_000, 600_000_000]
PLAUSIBLE: dict[str, list[Any]] = {
    "catalogue": ["config/catalogue.csv", "absent.csv"],
    "corpus.dedup.near.bands": [1, 7, 20],
    "corpus.ingest.shard_bytes": ["1KiB", "64MiB", "10 parsecs"],
    "corpus.lines": [{"enabled": True}, {"enabled": True, "partitions": 4}],
    "corpus.mixture.alpha": [0.0, 0.3, 1.0, 1.5],
    "corpus.mixture.method": ["unimax", "explicit", "alpha", "even"],
    "corpus.mixture.weights": [{"en": 0.5}, {"fr": 2, "en": 1}, {"en": -1}],
    "index.blend": [
        [{"from_sample": 0}, {"from_sample": 800, "weights": {"en": 1.0}}],
        [{"from_sample": 10, "weights": {"en": 1.0}}],
        [{"from_sample": 0, "spread_to": 100}, {"from_sample": 500_000_000}],
    ],
    "index.order": ["epochs", "megatron"],
    "index.validation_share": [0.0, 0.5, 1.0],
    "model.activation": ["gelu", "swiglu"],
    "model.decoder_layers": [6, 12],
    "model.decoder_sequence_length": [64, 128],
    "model.embedding_layernorm": [True, False],
    "model.family": ["gpt", "bert", "t5"],
    "model.feed_forward_size": [512, 1000, 20_480],
    "model.heads": [1, 3, 7, 8, 16, 80],
    "model.hidden_size": [64, 100, 1024, 11_600],
    "model.layers": [1, 2, 3, 24, 70],
    "model.padded_vocabulary_size": [2048, 50_257, 250_880, 250_881],
    "model.positions": ["alibi", "learned", "rotary"],
    "model.sequence_length": [8, 100, 512, 4096],
    "model.tied_embeddings": [True, False],
    "model.vocabulary_multiple": [1, 100, 256],
    "plan.disk": ["1GB", "40TB"],
    "plan.faults": [{"days_between_failures": 5}, {"job_hours": 0.01}, {"days_between_maintenances": 30}],
    "plan.gpu": ["a100-80gb", "v100-32gb", "t4-16gb", "abacus"],
    "plan.gpus_per_node": [1, 3, 4, 8],
    "plan.grid": ["france", "atlantis"],
    "publish.hub": [True, False],
    "tokenizer.existing": ["runs/other/tokenizer", "owner/name@main", None],
    "tokenizer.report": [{"parallel_source": "absent"}, {"monolingual_vocabulary": 1024}],
    "tokenizer.reserved_tokens": [0, 200, 2000, 300_000],
    "tokenizer.vocabulary_size": [259, 512, 2048, 250_680, 300_000],
    "training.activation_checkpointing": ["full", "selective", "none"],
    "training.batch.global_batch_size": [*_POWERS, 4096],
    "training.batch.micro_batch_changes": [
        [{"from_batch": 16, "size": 2}],
        [{"from_batch": 784, "size": 2}, {"from_batch": 100, "size": 4}],
    ],
    "training.batch.micro_batch_size": _POWERS,
    "training.batch.rampup": [
        {"start": 8, "increment": 8, "samples": 320},
        {"start": 16, "increment": 16, "samples": 6_000_000},
        {"start": 192, "increment": 100, "samples": 1000},
        None,
    ],
    "training.batch.rampup.increment": [1, 3, 8, 16, 32],
    "training.batch.rampup.samples": _SAMPLES,
    "training.batch.rampup.start": [1, 4, 8, 16, 4096],
    "training.batch_scaling": [
        {"base_batch": 512, "base_learning_rate": 2.83e-3, "cap": 1.13e-2, "warmup_iterations": 1024},
        {"base_batch": 2048, "base_learning_rate": 0.01, "floor": 0.01, "cap": 0.02},
        {"base_batch": 8, "base_learning_rate": 1.0e-4, "floor": 1.0, "cap": 0.1},
        {"base_batch": 8},
    ],
    "training.batch_scaling.warmup_iterations": [1, 304, 10_176],
    "training.checkpoint": [{"every_iterations": 7}, {"every_iterations": 100, "keep_every_iterations": 150}],
    "training.checkpoint.keep_every_iterations": [10, 100, 1000],
    "training.curriculum": [
        {"start_length": 64, "samples": 73_728_000},
        {"start_length": 7, "length_step": 8, "samples": 100},
        {"start_length": 4096, "samples": 100},
    ],
    "training.dropout.attention": [0.0, 0.1, 1.0],
    "training.dropout.hidden": [0.0, 0.1, 1.0],
    "training.gradient_accumulation": ["fp32", "same"],
    "training.on_change": ["refuse", "continue", "archive", "shrug"],
    "training.optimizer.cooldown_samples": _SAMPLES,
    "training.optimizer.decay_samples": _SAMPLES,
    "training.optimizer.decay_tokens": [1000, 260_000_000_000],
    "training.optimizer.kind": ["adam", "sgd", "lamb", "muon"],
    "training.optimizer.lamb": [
        {"dialect": "floor"},
        {"dialect": "innovation", "norms": "stale"},
        {"dialect": "embedding_gain", "alpha": 0.5},
        {"use_nvlamb": True},
        {"dialect": "floor", "use_nvlamb": True},
    ],
    "training.optimizer.min_learning_rate": [0.0, 1.0e-5, 1.0],
    "training.optimizer.momentum": [0.5, 0.9],
    "training.optimizer.schedule": ["cosine", "linear", "constant", "wsd", "step"],
    "training.optimizer.warmup_samples": _SAMPLES,
    "training.optimizer.warmup_tokens": [1000, 3_000_000_000],
    "training.parallel.data": _POWERS,
    "training.parallel.pipeline": _POWERS,
    "training.parallel.sequence_parallel": [True, False],
    "training.parallel.tensor": _POWERS,
    "training.partition": ["parameters", "uniform", "type:transformer", "type:transformer|head", "type:nothing"],
    "training.precision": ["bf16", "fp16", "fp32", "fp8"],
    "training.segment": [{"minutes": 0.5, "margin_minutes": 5}, {"max_crashes": 0}, {"minutes": 100}],
    "training.train_samples": _SAMPLES,
    "training.train_tokens": [1, 1_000_000, 300_000_000_000],
    "training.validation": [{"every_iterations": 3}, {"every_iterations": 10, "samples": 100_000}],
    "training.zero_stage": [0, 1, 2, 3, 4],
}
"""Values to draw for each key. Most of them are valid in some configuration, but a few, such as `10 parsecs`, never
are. Several of them in one configuration may contradict each other."""

Path_ = tuple[str | int, ...]


@dataclass(frozen=True)
class Mutant:
    """One changed configuration."""

    base: str
    changes: list[str]
    yaml: str


def mutants(configs: dict[str, Path]) -> list[Mutant]:
    """Draw the configurations. The draws depend only on the seed and on the contents of the files."""
    raws = {name: yaml.safe_load(path.read_text(encoding="utf-8")) for name, path in sorted(configs.items())}
    found = []
    for number in range(COUNT):
        # Each configuration has its own generator, so a change of one draw does not affect the others.
        draw = random.Random(f"{SEED} {number}")
        base = draw.choice(list(raws))
        raw, changes = copy.deepcopy(raws[base]), []
        for _ in range(draw.choice([1, 1, 1, 2, 2, 2, 3])):
            change = draw.choice([_delete, _number, _type, _unknown, _plausible, _plausible, _plausible])
            changes.append(change(draw, raw))
        found.append(Mutant(base, changes, yaml.safe_dump(raw, sort_keys=False, allow_unicode=True)))
    return found


def _paths(value: Any, path: Path_ = ()) -> list[Path_]:
    """Return the path of every value in a configuration, sections before their keys."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [each for key, item in inner for each in [(*path, key), *_paths(item, (*path, key))]]


def _at(raw: Any, path: Path_) -> Any:
    for key in path:
        raw = raw[key]
    return raw


def _put(raw: Any, path: Path_, value: Any) -> str:
    _at(raw, path[:-1])[path[-1]] = copy.deepcopy(value)
    return f"{'.'.join(map(str, path))} = {value!r}"


def _delete(draw: random.Random, raw: Any) -> str:
    path = draw.choice(_paths(raw))
    del _at(raw, path[:-1])[path[-1]]
    return f"{'.'.join(map(str, path))} deleted"


def _number(draw: random.Random, raw: Any) -> str:
    numbers = [path for path in _paths(raw) if type(_at(raw, path)) in (int, float)]
    if not numbers:
        return _plausible(draw, raw)
    path = draw.choice(numbers)
    old = _at(raw, path)
    others = [0, -old, -1, old * 10**12, 2**64, old * 2, old * 3, float("inf")]
    others += [old + 1, old - 1, old // 2, 1] if isinstance(old, int) else [old * 1.5, old / 10, 1.0, float("nan")]
    return _put(raw, path, draw.choice(others))


def _type(draw: random.Random, raw: Any) -> str:
    return _put(raw, draw.choice(_paths(raw)), draw.choice(_OTHER_TYPES))


def _unknown(draw: random.Random, raw: Any) -> str:
    sections = [(), *(path for path in _paths(raw) if isinstance(_at(raw, path), dict))]
    return _put(raw, (*draw.choice(sections), draw.choice(_UNKNOWN)), draw.choice([1, "a word", 0.5]))


def _plausible(draw: random.Random, raw: Any) -> str:
    path = draw.choice(list(PLAUSIBLE))
    value, place, keys = draw.choice(PLAUSIBLE[path]), raw, path.split(".")
    for key in keys[:-1]:
        if not isinstance(place.get(key), dict):
            place[key] = {}
        place = place[key]
    place[keys[-1]] = copy.deepcopy(value)
    return f"{path} = {value!r}"
