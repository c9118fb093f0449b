"""What must agree between the sections of a run."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from bloomery.base.units import format_bytes
from bloomery.config.corpus import Thresholds
from bloomery.config.keys import all_keys
from bloomery.config.languages import language_profiles, resolved_thresholds
from bloomery.config.section import Contradiction
from bloomery.config.sources import MegatronSource, UdhrSource
from bloomery.config.tokenizer_report import report_contradictions
from bloomery.config.tokens import smallest_vocabulary
from bloomery.config.training import MOST_SIZES

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig


def contradictions(config: RunConfig) -> list[Contradiction]:
    """Every pair of sections of `config` that cannot both be meant."""
    sizes = (_of_sources, _of_layout, _of_tokenizer, _of_padding, _of_lengths, _of_tokens)
    checks = (*sizes, _of_report, _of_blend, _of_plan, _of_thresholds, _of_recipes)
    return [found for check in checks for found in check(config)]


def _of_sources(config: RunConfig) -> list[Contradiction]:
    places: dict[str, list[int]] = {}
    for number, source in enumerate(config.sources):
        places.setdefault(source.name, []).append(number)
    problems = [
        Contradiction(
            f"sources: the name {name!r} is used twice; each source needs its own",
            tuple(f"sources[{number}].name" for number in numbers[::-1]),
            name,
            "another name",
        )
        for name, numbers in places.items()
        if len(numbers) > 1
    ]
    if config.adopted_sources and config.tokenizer.existing is None:
        kind = f"sources[{config.sources.index(config.adopted_sources[0])}].kind"
        message = (
            f"tokenizer.existing: null, but {kind} megatron brings token ids, which mean nothing without their own"
        )
        keys = ("tokenizer.existing", kind)
        problems.append(Contradiction(message, keys, None, "the tokenizer that the token files were encoded with"))
    return problems


def _of_layout(config: RunConfig) -> list[Contradiction]:
    model, parallel, tokenizer = config.model, config.training.parallel, config.tokenizer
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
        message = f"model.layers {model.layers} cannot fill {pipeline} {parallel.pipeline} stages"
        right = f"at most {model.layers} stages"
        problems.append(Contradiction(message, (pipeline, "model.layers"), parallel.pipeline, right))
    if model.family != "gpt" and parallel.pipeline > 1:
        message = f"{pipeline} {parallel.pipeline}: the layers of model.family {model.family} do not partition"
        problems.append(Contradiction(message, (pipeline, "model.family"), parallel.pipeline, "1"))
    if tokenizer.existing is None and tokenizer.vocabulary_size < smallest_vocabulary(tokenizer.reserved_tokens):
        message = (
            f"tokenizer.vocabulary_size {tokenizer.vocabulary_size} is less than 4 special + "
            f"{tokenizer.reserved_tokens} reserved + 256 byte tokens"
        )
        keys = ("tokenizer.vocabulary_size", "tokenizer.reserved_tokens")
        right = f"at least {smallest_vocabulary(tokenizer.reserved_tokens)}"
        problems.append(Contradiction(message, keys, tokenizer.vocabulary_size, right))
    return problems


def _of_tokenizer(config: RunConfig) -> list[Contradiction]:
    """What an existing tokenizer decides itself cannot be asked for."""
    tokenizer, key = config.tokenizer, "tokenizer.existing"
    if tokenizer.existing is None:
        if tokenizer.end_of_document is None:
            return []
        message = f"tokenizer.end_of_document {tokenizer.end_of_document!r}: a tokenizer that is trained has its own"
        keys = ("tokenizer.end_of_document", key)
        return [Contradiction(message, keys, tokenizer.end_of_document, "null, or tokenizer.existing")]
    trained = ("reserved_tokens", "pre_tokenizer", "split_digits", "min_frequency", "max_token_bytes", "max_pieces")
    fields = type(tokenizer).model_fields
    problems = []
    for name in trained:
        value = getattr(tokenizer, name)
        if value != fields[name].default:
            message = f"tokenizer.{name} {value}: only a tokenizer that is trained has it, and {key} gives one"
            problems.append(Contradiction(message, (f"tokenizer.{name}", key), value, "no such key"))
    return problems


def _of_report(config: RunConfig) -> list[Contradiction]:
    report, existing = config.tokenizer.report, "tokenizer.existing"
    found = report_contradictions(report, [source.name for source in config.sources])
    if config.tokenizer.existing is not None and report.gate and report.gate.max_over_monolingual is not None:
        key = "tokenizer.report.gate.max_over_monolingual"
        message = f"{key} is set, but with {existing} nothing is counted that a language's own could be trained on"
        found.append(Contradiction(message, (key, existing), report.gate.max_over_monolingual, "null"))
    return found


def _of_padding(config: RunConfig) -> list[Contradiction]:
    """A stated number of embedding rows must hold the tokenizer's entries and split over the tensor-parallel ranks."""
    rows, entries = config.model.padded_vocabulary_size, config.tokenizer.vocabulary_size
    if rows is None:
        return []
    multiple = config.model.vocabulary_multiple * config.training.parallel.tensor
    key = "model.padded_vocabulary_size"
    right = f"{-(-max(rows, entries) // multiple) * multiple}"
    problems = []
    if rows < entries:
        message = f"{key} {rows} is smaller than tokenizer.vocabulary_size {entries}"
        problems.append(Contradiction(message, (key, "tokenizer.vocabulary_size"), rows, right))
    if rows % multiple:
        message = (
            f"{key} {rows} must be divisible by model.vocabulary_multiple x training.parallel.tensor = "
            f"{config.model.vocabulary_multiple} x {config.training.parallel.tensor} = {multiple}"
        )
        keys = (key, "model.vocabulary_multiple", "training.parallel.tensor")
        problems.append(Contradiction(message, keys, rows, right))
    return problems


def _of_lengths(config: RunConfig) -> list[Contradiction]:
    curriculum, longest = config.training.curriculum, config.model.sequence_length
    if curriculum is None:
        return []
    section = "training.curriculum"
    problems: list[Contradiction] = []
    keys: tuple[str, ...]
    lengths = {
        f"{section}.start_length": curriculum.start_length,
        f"{section}.length_step": curriculum.length_step,
        "model.sequence_length": longest,
    }
    for key, length in lengths.items():
        if length % 8:
            message = f"{key} {length} of a curriculum must be divisible by 8"
            problems.append(Contradiction(message, (key, section), length, f"{-(-length // 8) * 8}"))
    if curriculum.start_length > longest:
        message = f"{section}.start_length {curriculum.start_length} exceeds model.sequence_length {longest}"
        keys = (f"{section}.start_length", "model.sequence_length")
        problems.append(Contradiction(message, keys, curriculum.start_length, f"at most {longest}"))
    if curriculum.start_length < curriculum.length_step:
        message = (
            f"{section}.start_length {curriculum.start_length} is less than length_step {curriculum.length_step}: "
            "cut to whole steps, the first samples have no tokens"
        )
        keys = (f"{section}.start_length", f"{section}.length_step")
        right = f"at least {curriculum.length_step}"
        problems.append(Contradiction(message, keys, curriculum.start_length, right))
    if (longest - curriculum.start_length) // curriculum.length_step > MOST_SIZES:
        message = f"{section}.length_step {curriculum.length_step} makes more than {MOST_SIZES} lengths"
        keys = (f"{section}.length_step", f"{section}.start_length", "model.sequence_length")
        right = f"at least {-(-longest // MOST_SIZES // 8) * 8}"
        problems.append(Contradiction(message, keys, curriculum.length_step, right))
    if curriculum.samples > config.training.train_samples:
        most = config.training.train_samples
        message = f"{section}.samples {curriculum.samples} exceeds training.train_samples {most}"
        keys = (f"{section}.samples", "training.train_samples")
        problems.append(Contradiction(message, keys, curriculum.samples, f"at most {most}"))
    return problems


def _of_tokens(config: RunConfig) -> list[Contradiction]:
    """Where the decay or the run ends by tokens, warm-up and decay must lie before that end."""
    from bloomery.plan.trajectory import trajectory

    training, optimizer, section = config.training, config.training.optimizer, "training.optimizer"
    ends, decays = training.train_tokens, optimizer.decay_tokens
    if (ends is None and decays is None) or not _walkable(config):
        return []
    run = trajectory(config.model, training)
    warmup, whole = run.tokens_at(optimizer.warmup_samples), run.tokens_at(training.train_samples)
    problems: list[Contradiction] = []
    shape = ("training.train_samples", "training.batch", "training.curriculum", "model.sequence_length")
    if decays is not None and warmup > decays:
        message = (
            f"{section}.warmup_samples {optimizer.warmup_samples} are {warmup} tokens, more than "
            f"{section}.decay_tokens {decays}: the decay ends before it begins"
        )
        keys: tuple[str, ...] = (f"{section}.decay_tokens", f"{section}.warmup_samples", *shape)
        problems.append(Contradiction(message, keys, decays, f"more than {warmup}"))
    if decays is not None and decays > whole and (ends is None or decays <= ends):
        message = f"{section}.decay_tokens {decays} exceeds the {whole} tokens of training.train_samples"
        keys = (f"{section}.decay_tokens", *shape)
        problems.append(Contradiction(message, keys, decays, f"at most {whole}"))
    last = run.end.consumed_samples
    if ends is not None and optimizer.warmup_samples > last and optimizer.warmup_samples <= training.train_samples:
        message = (
            f"{section}.warmup_samples {optimizer.warmup_samples} exceeds the {last} samples after which "
            f"training.train_tokens {ends} ends the run: the peak is never reached"
        )
        keys = (f"{section}.warmup_samples", "training.train_tokens", *shape)
        problems.append(Contradiction(message, keys, optimizer.warmup_samples, f"at most {last}"))
    stop = optimizer.decay_samples or training.train_samples
    by_samples = decays is None and optimizer.schedule != "constant"
    if ends is not None and by_samples and stop > last + run.end.global_batch_size:
        message = (
            f"{section}.decay_samples {stop} exceeds the {last} samples after which training.train_tokens {ends} "
            "ends the run"
        )
        keys = (f"{section}.decay_samples", "training.train_tokens", *shape)
        right = f"at most {last}, or {section}.decay_tokens instead"
        problems.append(Contradiction(message, keys, optimizer.decay_samples, right))
    return problems


def _of_blend(config: RunConfig) -> list[Contradiction]:
    from bloomery.config.blend import blend_contradictions

    return blend_contradictions(config) if config.index.blend and _walkable(config) else []


def _walkable(config: RunConfig) -> bool:
    """Whether the run has a step, and no more kinds of them than a plan goes through (else that is said elsewhere)."""
    training = config.training
    batch, curriculum = training.batch, training.curriculum
    sizes = (batch.global_batch_size - batch.rampup.start) // batch.rampup.increment if batch.rampup else 0
    lengths = (config.model.sequence_length - curriculum.start_length) // curriculum.length_step if curriculum else 0
    first = min(batch.rampup.start, batch.global_batch_size) if batch.rampup else batch.global_batch_size
    return max(sizes, lengths) <= MOST_SIZES and first <= training.train_samples


def _of_plan(config: RunConfig) -> list[Contradiction]:
    from bloomery.plan.disk import disk_bytes
    from bloomery.plan.hardware import gpus, grids

    plan = config.plan
    problems = []
    for key, name, table in (("plan.gpu", plan.gpu, gpus), ("plan.grid", plan.grid, grids)):
        if name is not None and name not in table():
            near = difflib.get_close_matches(name, table(), n=1, cutoff=0.4)
            message = f"{key}: unknown name {name!r}{f' (did you mean {near[0]!r}?)' if near else ''}"
            problems.append(Contradiction(message, (key,), name, f"one of {', '.join(table())}"))
    known = set(all_keys(type(config)))
    for path in plan.assumed:
        if path not in known:
            message = f"plan.assumed: {path!r} is no key of a run"
            problems.append(Contradiction(message, ("plan.assumed",), path, "the dotted path of a key"))
    if plan.disk is not None and _walkable(config) and (needed := disk_bytes(config).total) > plan.disk:
        message = (
            f"plan.disk {format_bytes(plan.disk)} is too little: the run needs {format_bytes(needed)} at most, "
            f"{format_bytes(disk_bytes(config).checkpoints)} of it for checkpoints"
        )
        right = f"{format_bytes(needed)}, or fewer checkpoints kept (training.checkpoint)"
        keys = ("plan.disk", "training", "model", "tokenizer", "export")
        problems.append(Contradiction(message, keys, plan.disk, right))
    return problems


def _of_thresholds(config: RunConfig) -> list[Contradiction]:
    judge, section = config.corpus.judge, "corpus.judge.thresholds"
    known = {"default", *language_profiles()}
    declared = [f"sources[{number}]" for number in range(len(config.sources))]
    for source in config.sources:
        known.add(source.language or "default")
        if isinstance(source, UdhrSource):
            known.update(source.languages or [])
    problems = []
    stated = [(section, language) for language in judge.thresholds]
    stated += [("corpus.measure.words", language) for language in config.corpus.measure.words]
    for key, language in ((f"{place}.{language}", language) for place, language in stated):
        if language not in known:
            near = difflib.get_close_matches(language, known, n=1, cutoff=0.4)
            message = f"{key}: unknown language{f' (did you mean {near[0]!r}?)' if near else ''}"
            right = "default, one of config/languages, or the `language` of a source"
            problems.append(Contradiction(message, (key, *declared), language, right))
    for language, least, greatest, low, high in _crossed(resolved_thresholds(judge)):
        # One number may come from the preset or from `default`: all three places are named.
        own = [f"{section}.{where}.{key}" for where in (language, "default") for key in (least, greatest)]
        message = f"{section}.{language}: {least} {low:g} exceeds {greatest} {high:g}: nothing would be kept"
        problems.append(Contradiction(message, (own[0], "corpus.judge.preset", *own[1:]), low, f"at most {high:g}"))
    return problems


def _crossed(limits: dict[str, Thresholds]) -> Iterator[tuple[str, str, str, float, float]]:
    """(language, key, key, value, value) of each least value above its greatest one."""
    for language, own in limits.items():
        for least in [name for name in Thresholds.model_fields if name.startswith("min_")]:
            greatest = least.replace("min_", "max_")
            low, high = getattr(own, least), getattr(own, greatest, None)
            if low is not None and high is not None and low > high:
                yield language, least, greatest, low, high


def _of_recipes(config: RunConfig) -> list[Contradiction]:
    known = config.corpus.judge.recipes
    problems = []
    for number, source in enumerate(config.sources):
        if isinstance(source, MegatronSource) or source.recipe is None:
            continue
        if source.recipe not in known:
            key = f"sources[{number}].recipe"
            near = difflib.get_close_matches(source.recipe, known, n=1, cutoff=0.4)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            message = f"{key}: {source.recipe!r} is no recipe of this run{hint}"
            right = f"one of {', '.join(known)}" if known else "a name that corpus.judge.recipes defines"
            problems.append(Contradiction(message, (key, "corpus.judge.recipes"), source.recipe, right))
    for name, recipe in known.items():
        said = set()
        for language, least, greatest, low, high in _crossed(resolved_thresholds(config.corpus.judge, name)):
            if least not in said and recipe.model_fields_set & {least, greatest}:
                said.add(least)
                key = f"corpus.judge.recipes.{name}"
                message = f"{key}: {least} {low:g} exceeds {greatest} {high:g} of {language}: nothing would be kept"
                keys = (f"{key}.{least}", f"{key}.{greatest}", "corpus.judge.preset", "corpus.judge.thresholds")
                problems.append(Contradiction(message, keys, low, f"at most {high:g}"))
    return problems
