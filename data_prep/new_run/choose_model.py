"""Choose a model and a number of tokens that fit the text, the machine and the time.

The largest shape is chosen whose training reads at least 20 tokens for each parameter (Hoffmann et al. 2022,
arXiv:2203.15556) and ends in time. The text is read at most four times, because further epochs add little (Muennighoff
et al. 2023, arXiv:2305.16264).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from bloomery.config.model import ModelConfig
from bloomery.spec.flops import iteration_flops
from bloomery.spec.memory import bytes_per_parameter, usable_bytes
from bloomery.spec.parameters import padded_vocabulary, parameter_count
from bloomery.spec.text_size import bytes_per_token
from data_prep.new_run.machine import Machine

TOKENS_PER_PARAMETER = 20
MOST_EPOCHS = 4.0
VALIDATION_SHARE = 0.1
"""Greatest time of all validations together, as a share of the time of the training steps."""
_MEMORY_SHARE = 0.6
"""Share of the memory that the training state may fill. The rest is for activations and for other programs."""
_VOCABULARIES = (
    (10**7, 4096),
    (5 * 10**7, 8192),
    (5 * 10**8, 16_384),
    (5 * 10**9, 32_768),
    (10**11, 65_536),
)
"""Each row is (bytes of text, number of vocabulary entries). A corpus gets the first row with more bytes than its text.
If there is no such row, it gets the size of BLOOM's vocabulary."""


@dataclass(frozen=True)
class Shape:
    """Size of a GPT: number of blocks, width, attention heads and tokens of a sample."""

    layers: int
    hidden_size: int
    heads: int
    sequence_length: int

    def model(self) -> ModelConfig:
        """Return the section `model` of this shape."""
        return ModelConfig.model_validate(self.values())

    def values(self) -> dict[str, int]:
        """Return the keys of the section `model`."""
        return dict(vars(self))


SHAPES = (
    Shape(2, 64, 2, 128),
    Shape(4, 128, 4, 256),
    Shape(4, 256, 4, 256),
    Shape(6, 384, 6, 512),
    Shape(8, 512, 8, 512),
    Shape(12, 768, 12, 1024),
    Shape(24, 1024, 16, 2048),
    Shape(24, 2048, 16, 2048),
    Shape(30, 2560, 32, 2048),
    Shape(30, 4096, 32, 2048),
)
"""Shapes to choose from, in ascending order. From 24 layers on they are those of BLOOM's smaller models."""


@dataclass(frozen=True)
class Limits:
    """Limits that the chosen model and its training must fit."""

    machine: Machine
    flops: float
    """Operations per second of a training on this machine."""
    seconds: float
    """Time of the training."""
    text_bytes: int
    """Bytes of text that an epoch reads."""
    vocabulary: int
    languages: int = 1
    """Number of languages that the training reads. Each has a validation set."""
    epochs: float | None = None
    """Number of epochs that the user wants, or None if the program chooses it."""
    parameters: int | None = None
    """Approximate number of parameters that the user wants, or None if the program chooses it."""
    sequence_length: int | None = None
    """Number of tokens of a sample that the user wants, or None to use the number of the shape."""


@dataclass(frozen=True)
class Choice:
    """A model and its training."""

    shape: Shape
    parameters: int
    tokens: int
    """Tokens that the training reads."""
    epochs: float
    """Tokens of the training divided by the estimated tokens of the text."""
    seconds: float
    """Estimated time of the training steps."""
    whole_epochs: float | None = None
    """Number of epochs, if the user or `MOST_EPOCHS` decided the length. None if the time decided it."""


def vocabulary_for(text_bytes: int) -> int:
    """Return a vocabulary size that suits this much text."""
    return next((size for below, size in _VOCABULARIES if text_bytes < below), 250_680)


def rows_of(shape: Shape, vocabulary: int) -> int:
    """Return the number of embedding rows of the model in one process."""
    return padded_vocabulary(vocabulary, shape.model(), 1)


def flops_per_token(shape: Shape, vocabulary: int) -> float:
    """Return the operations of the training on one token, without recomputation."""
    model = shape.model()
    return iteration_flops(model, rows_of(shape, vocabulary), 1, recomputed=False) / model.sequence_length


def fits_memory(parameters: int, machine: Machine) -> bool:
    """Return whether the training state of one replica leaves memory for activations."""
    memory = usable_bytes(machine.gpu_memory_bytes) if machine.gpus else machine.memory_bytes
    return parameters * bytes_per_parameter(machine.precision) <= _MEMORY_SHARE * memory


def choose_model(limits: Limits) -> Choice:
    """Return the model and the training that fit the limits.

    If the user asks for more than the time allows, the choice follows the user and its `seconds` exceed the limit.
    """
    choices = [choice_of(limits, shape) for shape in SHAPES]
    usable = [each for each in choices if fits_memory(each.parameters, limits.machine)] or choices[:1]
    if limits.parameters is not None:
        wanted = limits.parameters
        return min(usable, key=lambda each: abs(math.log(each.parameters / wanted)))
    good = [
        each
        for each in usable
        if each.seconds <= limits.seconds * 1.001 and each.tokens >= TOKENS_PER_PARAMETER * each.parameters
    ]
    return good[-1] if good else usable[0]


def choice_of(limits: Limits, shape: Shape) -> Choice:
    """Return the training of one shape within the limits."""
    if limits.sequence_length is not None:
        shape = Shape(shape.layers, shape.hidden_size, shape.heads, limits.sequence_length)
    corpus = max(1.0, limits.text_bytes / bytes_per_token(limits.vocabulary))
    per_token = flops_per_token(shape, limits.vocabulary)
    epochs = limits.epochs
    if epochs is None and limits.seconds * limits.flops / per_token >= MOST_EPOCHS * corpus:
        epochs = MOST_EPOCHS
    tokens = limits.seconds * limits.flops / per_token if epochs is None else epochs * corpus
    parameters = parameter_count(shape.model(), rows_of(shape, limits.vocabulary))
    return Choice(shape, parameters, round(tokens), tokens / corpus, tokens * per_token / limits.flops, epochs)


def training_values(choice: Choice, machine: Machine, languages: int) -> dict[str, Any]:
    """Return the keys of the section `training` for a choice.

    A longer training gets larger batches, so that it has about 1,000 updates. The learning rate follows Kaplan et al.
    2020 (arXiv:2001.08361, appendix D.6). `languages` is the number of validation sets. Their size is chosen so that
    all validations take at most a tenth of the time of the training steps.
    """
    length = choice.shape.sequence_length
    micro = max(1, min(8, (16_384 if machine.gpus else 1024) // length))
    unit = micro * max(1, machine.gpus)
    wanted = max(1, choice.tokens // length // 1000)
    batch = unit * max(1, 2 ** round(math.log2(max(1.0, wanted / unit))))
    batch = min(batch, unit * 1024)
    samples = max(batch, choice.tokens // length // batch * batch)
    iterations = samples // batch
    rate = 0.003239 - 0.0001395 * math.log(choice.parameters)
    interval = max(1, min(500, iterations // 10))
    # A validation sample takes a third of the time of a training sample, because it needs only the forward pass.
    validated = 3 * VALIDATION_SHARE * samples / max(1, languages)
    checks = max(1, min(5, int(validated // unit)))
    values: dict[str, Any] = {
        "train_samples": samples,
        "parallel": {"data": max(1, machine.gpus)},
        "batch": {"micro_batch_size": micro, "global_batch_size": batch},
        "optimizer": {
            "learning_rate": float(f"{max(1e-4, rate):.1e}"),
            "min_learning_rate": float(f"{max(1e-4, rate) / 10:.1e}"),
            "warmup_samples": min(samples, batch * max(1, iterations // 50)),
        },
        "precision": machine.precision,
        "activation_checkpointing": "none",
        "checkpoint": {"every_iterations": interval},
        "validation": {
            "every_iterations": -(-iterations // checks),
            "samples": max(1, min(64, int(validated / checks))),
        },
    }
    if not machine.gpus:
        values["threads_per_rank"] = machine.cores
    return values
