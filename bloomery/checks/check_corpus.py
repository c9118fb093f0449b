"""Check that the sources, limits and recipes of the corpus do not contradict each other."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from bloomery.config.corpus import Thresholds
from bloomery.config.languages import language_profiles, resolved_thresholds
from bloomery.config.section import Contradiction
from bloomery.config.sources import MegatronSource, UdhrSource

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig


def source_contradictions(config: RunConfig) -> list[Contradiction]:
    """Find sources with the same name, and token files without the tokenizer that encoded them."""
    places: dict[str, list[int]] = {}
    for number, source in enumerate(config.sources):
        places.setdefault(source.name, []).append(number)
    problems = [
        Contradiction(
            f"sources: several sources have the name {name!r}; each source needs its own name",
            tuple(f"sources[{number}].name" for number in numbers[::-1]),
            name,
            "a name that no other source has",
        )
        for name, numbers in places.items()
        if len(numbers) > 1
    ]
    if config.adopted_sources and config.tokenizer.existing is None:
        kind = f"sources[{config.sources.index(config.adopted_sources[0])}].kind"
        message = (
            f"tokenizer.existing is null, but {kind} is 'megatron': such a source provides token ids, which only the "
            "tokenizer that encoded them can decode"
        )
        keys = ("tokenizer.existing", kind)
        right = "the tokenizer that encoded the token files: a folder, a `tokenizer.json` or a Hub repository"
        problems.append(Contradiction(message, keys, None, right))
    return problems


def threshold_contradictions(config: RunConfig) -> list[Contradiction]:
    """Find limits and word lists of unknown languages, and limits whose minimum is above the maximum."""
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
            message = f"{key}: unknown language code {language!r}{f' (did you mean {near[0]!r}?)' if near else ''}"
            right = "`default`, the code of a file in config/languages, or the `language` of a source"
            problems.append(Contradiction(message, (key, *declared), language, right))
    for language, least, greatest, low, high in _crossed(resolved_thresholds(judge)):
        # Each limit may come from the language, from `default` or from the preset, so the problem names all three.
        own = [f"{section}.{where}.{key}" for where in (language, "default") for key in (least, greatest)]
        message = f"{section}.{language}: {least} {low:g} exceeds {greatest} {high:g}: no document would be kept"
        right = f"{least} of at most {high:g}"
        problems.append(Contradiction(message, (own[0], "corpus.judge.preset", *own[1:]), low, right))
    return problems


def _crossed(limits: dict[str, Thresholds]) -> Iterator[tuple[str, str, str, float, float]]:
    """Yield (language, minimum key, maximum key, minimum, maximum) for each minimum above its maximum."""
    for language, own in limits.items():
        for least in [name for name in Thresholds.model_fields if name.startswith("min_")]:
            greatest = least.replace("min_", "max_")
            low, high = getattr(own, least), getattr(own, greatest, None)
            if low is not None and high is not None and low > high:
                yield language, least, greatest, low, high


def recipe_contradictions(config: RunConfig) -> list[Contradiction]:
    """Find sources whose recipe is not defined, and recipes that would keep no document."""
    known = config.corpus.judge.recipes
    problems = []
    for number, source in enumerate(config.sources):
        if isinstance(source, MegatronSource) or source.recipe is None:
            continue
        if source.recipe not in known:
            key = f"sources[{number}].recipe"
            near = difflib.get_close_matches(source.recipe, known, n=1, cutoff=0.4)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            message = f"{key}: {source.recipe!r} is not a recipe in corpus.judge.recipes{hint}"
            right = f"one of {', '.join(known)}" if known else "a name that corpus.judge.recipes defines"
            problems.append(Contradiction(message, (key, "corpus.judge.recipes"), source.recipe, right))
    for name, recipe in known.items():
        said = set()
        for language, least, greatest, low, high in _crossed(resolved_thresholds(config.corpus.judge, name)):
            if least not in said and recipe.model_fields_set & {least, greatest}:
                said.add(least)
                key = f"corpus.judge.recipes.{name}"
                message = (
                    f"{key}: {least} {low:g} exceeds {greatest} {high:g} for the language {language}: no document "
                    "would be kept"
                )
                keys = (f"{key}.{least}", f"{key}.{greatest}", "corpus.judge.preset", "corpus.judge.thresholds")
                problems.append(Contradiction(message, keys, low, f"{least} of at most {high:g}"))
    return problems
