"""What must agree between the sections of a run."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from bloomery.base.units import format_bytes
from bloomery.checks.check_training import has_countable_steps, training_contradictions
from bloomery.config.corpus import Thresholds
from bloomery.config.keys import all_keys
from bloomery.config.languages import language_profiles, resolved_thresholds
from bloomery.config.section import Contradiction
from bloomery.config.sources import MegatronSource, UdhrSource
from bloomery.config.tokenizer_report import report_contradictions
from bloomery.config.tokens import smallest_vocabulary

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig


def contradictions(config: RunConfig) -> list[Contradiction]:
    """Every pair of sections of `config` that cannot both be meant."""
    text = (_of_sources, _of_tokenizer, _of_vocabulary, _of_report, _of_thresholds, _of_recipes)
    checks = (*text, training_contradictions, _of_blend, _of_plan)
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


def _of_vocabulary(config: RunConfig) -> list[Contradiction]:
    tokenizer = config.tokenizer
    least = smallest_vocabulary(tokenizer.reserved_tokens)
    if tokenizer.existing is not None or tokenizer.vocabulary_size >= least:
        return []
    message = (
        f"tokenizer.vocabulary_size {tokenizer.vocabulary_size} is less than 4 special + "
        f"{tokenizer.reserved_tokens} reserved + 256 byte tokens"
    )
    keys = ("tokenizer.vocabulary_size", "tokenizer.reserved_tokens")
    return [Contradiction(message, keys, tokenizer.vocabulary_size, f"at least {least}")]


def _of_report(config: RunConfig) -> list[Contradiction]:
    report, existing = config.tokenizer.report, "tokenizer.existing"
    found = report_contradictions(report, [source.name for source in config.sources])
    if config.tokenizer.existing is not None and report.gate and report.gate.max_over_monolingual is not None:
        key = "tokenizer.report.gate.max_over_monolingual"
        message = f"{key} is set, but with {existing} nothing is counted that a language's own could be trained on"
        found.append(Contradiction(message, (key, existing), report.gate.max_over_monolingual, "null"))
    return found


def _of_blend(config: RunConfig) -> list[Contradiction]:
    from bloomery.checks.check_blend import blend_contradictions

    return blend_contradictions(config) if config.index.blend and has_countable_steps(config) else []


def _of_plan(config: RunConfig) -> list[Contradiction]:
    from bloomery.spec.disk import disk_bytes
    from bloomery.spec.hardware import gpus, grids

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
    if plan.disk is not None and has_countable_steps(config) and (needed := disk_bytes(config).total) > plan.disk:
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
