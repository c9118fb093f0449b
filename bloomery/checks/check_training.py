"""Check that the keys of the training contradict neither each other nor the network or the vocabulary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomery.base.errors import InputError
from bloomery.checks.check_batch import MOST_SIZES, batch_contradictions, has_countable_steps
from bloomery.checks.check_optimizer import kind_contradictions
from bloomery.checks.check_schedule import schedule_contradictions
from bloomery.checks.check_warmup import warmup_contradictions, warmup_keys
from bloomery.config.section import Contradiction
from bloomery.spec.choose_kernels import apex_optimizer_lacks
from bloomery.spec.learning_rate import decay_end, decay_start
from bloomery.spec.partition import partition_problem
from bloomery.spec.trajectory import trajectory

if TYPE_CHECKING:
    from bloomery.config.model import ModelConfig
    from bloomery.config.run import RunConfig
    from bloomery.config.training import TrainingConfig


def section_contradictions(training: TrainingConfig) -> list[Contradiction]:
    """Find keys of `training` that are each valid but contradict each other."""
    return [
        *batch_contradictions(training),
        *schedule_contradictions(training),
        *kind_contradictions(training.optimizer),
        *_of_engine(training),
    ]


def refuse_contradictions(model: ModelConfig, training: TrainingConfig, *, where: str) -> None:
    """Raise an error if the training of a stage file contradicts itself.

    The workflow writes only stage files that passed the checks. Only a file that the workflow did not write can fail
    here.

    Args:
        model: the section `model` of the stage file.
        training: the section `training` of the stage file.
        where: path of the stage file, for the error.

    Raises:
        InputError: there are contradictions; the error lists them.
    """
    contradictions = [*section_contradictions(training), *warmup_contradictions(model, training)]
    problems = [found.problem for found in contradictions]
    if problems:
        expected = "a stage file that the workflow wrote to runs/<name>/config/; start the workflow again to rewrite it"
        raise InputError("; ".join(map(str, problems)), where=where, expected=expected)


def training_contradictions(config: RunConfig) -> list[Contradiction]:
    """Find keys of `model`, `training` and `tokenizer` that are each valid but contradict each other."""
    checks = (_of_padding, _of_initial_checkpoint, _of_lengths, _of_tokens, _of_cooldown, _of_skips, _of_kernels)
    found = [problem for check in checks for problem in check(config)]
    return [
        *layout_contradictions(config.model, config.training),
        *warmup_contradictions(config.model, config.training),
        *found,
    ]


def layout_contradictions(model: ModelConfig, training: TrainingConfig) -> list[Contradiction]:
    """Find reasons why the network cannot be distributed over the layout of `training`."""
    return [*_of_layout(model, training), *_of_sequence_parallel(model, training)]


def _of_layout(model: ModelConfig, training: TrainingConfig) -> list[Contradiction]:
    parallel = training.parallel
    tensor, pipeline = "training.parallel.tensor", "training.parallel.pipeline"
    problems: list[Contradiction] = []
    keys: tuple[str, ...]
    if model.heads % parallel.tensor:
        message = f"model.heads {model.heads} must be divisible by {tensor} {parallel.tensor}"
        right = f"a multiple of {parallel.tensor}"
        problems.append(Contradiction(message, ("model.heads", tensor), model.heads, right))
    if model.ffn_size % parallel.tensor:
        message = f"model.feed_forward_size {model.ffn_size} must be divisible by {tensor} {parallel.tensor}"
        keys = ("model.feed_forward_size", "model.hidden_size", tensor)
        problems.append(Contradiction(message, keys, model.ffn_size, f"a multiple of {parallel.tensor}"))
    if model.layers < parallel.pipeline:
        message = f"model.layers {model.layers} cannot fill the pipeline stages of {pipeline} {parallel.pipeline}"
        right = f"{pipeline} of at most {model.layers}, the number of layers"
        problems.append(Contradiction(message, (pipeline, "model.layers"), parallel.pipeline, right))
    elif reason := partition_problem(model, parallel.pipeline, training.partition):
        message = f"training.partition {training.partition!r} for {parallel.pipeline} pipeline stages: {reason}"
        keys = ("training.partition", pipeline, "model.layers")
        right = (
            "'parameters', 'uniform', or 'type:' followed by a regular expression that matches at least "
            f"{parallel.pipeline} layers, one for each pipeline stage, such as 'type:transformer|embedding'"
        )
        problems.append(Contradiction(message, keys, training.partition, right))
    if model.family != "gpt" and parallel.pipeline > 1:
        message = (
            f"{pipeline} {parallel.pipeline}: the layers of model.family {model.family!r} cannot be split into "
            "pipeline stages"
        )
        problems.append(Contradiction(message, (pipeline, "model.family"), parallel.pipeline, "1"))
    return problems


def _of_padding(config: RunConfig) -> list[Contradiction]:
    """Check the configured number of embedding rows. It must be at least the size of the vocabulary, and a multiple of
    `vocabulary_multiple` x the tensor-parallel size."""
    rows, masked = config.model.padded_vocabulary_size, config.model.masked_rows
    entries = config.tokenizer.vocabulary_size + masked
    if rows is None and masked:
        message = f"model.masked_rows {masked} is set, but model.padded_vocabulary_size is null"
        stated = ("model.masked_rows", "model.padded_vocabulary_size")
        return [Contradiction(message, stated, masked, "0, or a number of rows for model.padded_vocabulary_size")]
    if rows is None:
        return []
    multiple = config.model.vocabulary_multiple * config.training.parallel.tensor
    key = "model.padded_vocabulary_size"
    right = f"{-(-max(rows, entries) // multiple) * multiple}"
    problems = []
    if rows < entries:
        more = f" and model.masked_rows {masked} together" if masked else ""
        message = f"{key} {rows} is smaller than tokenizer.vocabulary_size {entries - masked}{more}"
        problems.append(Contradiction(message, (key, "tokenizer.vocabulary_size"), rows, right))
    if rows % multiple:
        message = (
            f"{key} {rows} must be divisible by model.vocabulary_multiple x training.parallel.tensor = "
            f"{config.model.vocabulary_multiple} x {config.training.parallel.tensor} = {multiple}"
        )
        factors = (key, "model.vocabulary_multiple", "training.parallel.tensor")
        problems.append(Contradiction(message, factors, rows, right))
    return problems


def _of_initial_checkpoint(config: RunConfig) -> list[Contradiction]:
    """Check that a training that starts with the weights of a checkpoint also has an existing tokenizer."""
    place, key = config.training.initial_checkpoint, "training.initial_checkpoint"
    if place is None or config.tokenizer.existing is not None:
        return []
    message = (
        f"{key} is set, but tokenizer.existing is null: the weights were trained with the token ids of their own "
        "tokenizer"
    )
    right = "the tokenizer of the checkpoint, such as FOLDER/tokenizer of an imported folder, for tokenizer.existing"
    return [Contradiction(message, (key, "tokenizer.existing"), place, right)]


def _of_lengths(config: RunConfig) -> list[Contradiction]:
    curriculum, longest = config.training.curriculum, config.model.sequence_length
    problems: list[Contradiction] = []
    if curriculum is None:
        return problems
    section = "training.curriculum"
    keys: tuple[str, ...]
    lengths = {
        f"{section}.start_length": curriculum.start_length,
        f"{section}.length_step": curriculum.length_step,
        "model.sequence_length": longest,
    }
    for key, length in lengths.items():
        if length % 8:
            message = f"{key} {length} must be divisible by 8, because a curriculum is set"
            problems.append(Contradiction(message, (key, section), length, f"{-(-length // 8) * 8}"))
    if curriculum.start_length > longest:
        message = f"{section}.start_length {curriculum.start_length} exceeds model.sequence_length {longest}"
        keys = (f"{section}.start_length", "model.sequence_length")
        problems.append(Contradiction(message, keys, curriculum.start_length, f"at most {longest}"))
    if curriculum.start_length < curriculum.length_step:
        message = (
            f"{section}.start_length {curriculum.start_length} is less than length_step {curriculum.length_step}: "
            "the first samples would have no tokens, because lengths are cut to multiples of length_step"
        )
        keys = (f"{section}.start_length", f"{section}.length_step")
        right = f"at least {curriculum.length_step}"
        problems.append(Contradiction(message, keys, curriculum.start_length, right))
    if (longest - curriculum.start_length) // curriculum.length_step > MOST_SIZES:
        message = f"{section}.length_step {curriculum.length_step} gives more than {MOST_SIZES} sequence lengths"
        keys = (f"{section}.length_step", f"{section}.start_length", "model.sequence_length")
        right = f"at least {-(-longest // MOST_SIZES // 8) * 8}"
        problems.append(Contradiction(message, keys, curriculum.length_step, right))
    if curriculum.samples > config.training.train_samples:
        most = config.training.train_samples
        message = f"{section}.samples {curriculum.samples} exceeds training.train_samples {most}"
        keys = (f"{section}.samples", "training.train_samples")
        problems.append(Contradiction(message, keys, curriculum.samples, f"at most {most}"))
    return problems


def _of_sequence_parallel(model: ModelConfig, training: TrainingConfig) -> list[Contradiction]:
    """Check that sequence lengths are divisible by the tensor-parallel size if sequence parallelism is on."""
    parallel, curriculum = training.parallel, training.curriculum
    key, tensor = "training.parallel.sequence_parallel", "training.parallel.tensor"
    if not parallel.sequence_parallel:
        return []
    if parallel.tensor == 1:
        message = f"{key} splits sequences over the tensor-parallel ranks, but {tensor} is 1"
        return [Contradiction(message, (key, tensor), True, f"false, or {tensor} above 1")]
    lengths = {"model.sequence_length": model.sequence_length}
    if curriculum is not None:
        lengths["training.curriculum.start_length"] = curriculum.start_length
        lengths["training.curriculum.length_step"] = curriculum.length_step
    return [
        Contradiction(
            f"{name} {length} must be divisible by {tensor} {parallel.tensor}, because {key} is true",
            (name, tensor, key),
            length,
            f"{-(-length // parallel.tensor) * parallel.tensor}",
        )
        for name, length in lengths.items()
        if length % parallel.tensor
    ]


def _of_tokens(config: RunConfig) -> list[Contradiction]:
    """Find a decay that ends after the run, if the end of the decay or of the run is stated in tokens."""
    training, optimizer, section = config.training, config.training.optimizer, "training.optimizer"
    ends, decays = training.train_tokens, optimizer.decay_tokens
    if (ends is None and decays is None) or not has_countable_steps(config.model, training):
        return []
    run = trajectory(config.model, training)
    whole, last = run.tokens_at(training.train_samples), run.end.consumed_samples
    problems: list[Contradiction] = []
    keys: tuple[str, ...]
    shape = ("training.train_samples", "training.batch", "training.curriculum", "model.sequence_length")
    if decays is not None and decays > whole and (ends is None or decays <= ends):
        message = (
            f"{section}.decay_tokens {decays} exceeds the {whole} tokens of training.train_samples "
            f"{training.train_samples}"
        )
        keys = (f"{section}.decay_tokens", *shape)
        problems.append(Contradiction(message, keys, decays, f"at most {whole}"))
    stop = optimizer.decay_samples or training.train_samples
    by_samples = decays is None and optimizer.schedule != "constant"
    if ends is not None and by_samples and stop > last + run.end.global_batch_size:
        default = "" if optimizer.decay_samples else " (by default training.train_samples)"
        message = (
            f"{section}.decay_samples {stop}{default} exceeds the {last} samples after which training.train_tokens "
            f"{ends} ends the run"
        )
        keys = (f"{section}.decay_samples", "training.train_tokens", *shape)
        right = f"at most {last}, or {section}.decay_tokens instead"
        problems.append(Contradiction(message, keys, optimizer.decay_samples, right))
    return problems


def _of_cooldown(config: RunConfig) -> list[Contradiction]:
    """Check that the cooldown of `wsd` fits between the end of the warm-up and the end of the decay."""
    training, section = config.training, "training.optimizer"
    if training.optimizer.schedule != "wsd" or not has_countable_steps(config.model, training):
        return []
    unit, end, cooldown = decay_end(training)
    start = decay_start(config.model, training)
    if cooldown is None or cooldown <= max(0, end - start):
        return []
    message = (
        f"{section}.cooldown_{unit} {cooldown} exceeds the {end - start} {unit} between the end of the warm-up "
        f"({start}) and the end of the decay ({end})"
    )
    keys = (f"{section}.cooldown_{unit}", f"{section}.decay_{unit}", *warmup_keys(training), "training.train_samples")
    return [Contradiction(message, keys, cooldown, f"at most {max(0, end - start)}")]


def _of_skips(config: RunConfig) -> list[Contradiction]:
    training = config.training
    problems = []
    for number, each in enumerate(training.skip):
        if each.to_sample > training.train_samples:
            key = f"training.skip[{number}].to_sample"
            message = f"{key} {each.to_sample} exceeds training.train_samples {training.train_samples}"
            right = f"at most {training.train_samples}"
            problems.append(Contradiction(message, (key, "training.train_samples"), each.to_sample, right))
    if (
        not problems
        and training.skip
        and has_countable_steps(config.model, config.training)
        and not trajectory(config.model, training).iterations
    ):
        message = "training.skip skips so many samples that no batch is left to train on"
        problems.append(
            Contradiction(message, ("training.skip", "training.train_samples"), None, "fewer skipped samples")
        )
    return problems


def _of_kernels(config: RunConfig) -> list[Contradiction]:
    training, model = config.training, config.model
    kernels, section = training.kernels, "training.kernels"
    problems = []
    if training.dropout.attention > 0 and kernels.attention not in ("auto", "eager"):
        keys: tuple[str, ...] = (f"{section}.attention", "training.dropout.attention")
        message = f"{keys[0]} {kernels.attention!r} does not compute the attention weights that {keys[1]} drops"
        problems.append(Contradiction(message, keys, kernels.attention, "auto or eager"))
    if kernels.attention == "flash" and training.precision == "fp32":
        keys = (f"{section}.attention", "training.precision")
        message = f"{keys[0]} 'flash' does not support training.precision 'fp32'"
        problems.append(Contradiction(message, keys, "flash", "auto, sdpa or eager"))
    if kernels.attention == "flash" and model.head_size % 8:
        keys = (f"{section}.attention", "model.hidden_size", "model.heads")
        message = f"{keys[0]} 'flash' needs a head size that is a multiple of 8, not {model.head_size}"
        problems.append(Contradiction(message, keys, "flash", "auto, sdpa or eager"))
    if kernels.optimizer == "apex" and (lacks := apex_optimizer_lacks(training)):
        keys = (f"{section}.optimizer", "training.optimizer.kind")
        message = f"{keys[0]} 'apex' cannot be used: {lacks}"
        problems.append(Contradiction(message, keys, "apex", "auto, torch or fused"))
    return problems


def _of_engine(training: TrainingConfig) -> list[Contradiction]:
    """Find settings that DeepSpeed's pipeline engine does not support."""
    problems: list[Contradiction] = []
    keys: tuple[str, ...]
    if training.zero_stage > 1:
        message = (
            f"training: zero_stage {training.zero_stage} is not supported, because the pipeline engine, "
            "which runs every training, cannot split gradients"
        )
        keys = ("training.zero_stage",)
        problems.append(Contradiction(message, keys, training.zero_stage, "1"))
    if training.precision == "bf16" and training.gradient_accumulation != "fp32":
        message = "training: precision 'bf16' needs gradient_accumulation 'fp32': a sum in bf16 loses small gradients"
        keys = ("training.gradient_accumulation", "training.precision")
        problems.append(Contradiction(message, keys, training.gradient_accumulation, "fp32"))
    return problems
