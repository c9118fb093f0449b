"""Plan how many samples each stage of the blend reads of each dataset, from the configuration and the available text.

A stage's quotas are spread evenly from its first sample to `spread_to`, and the stage ends where the next one begins.
`bloomery.spec.blend_counts` computes the samples that a stage takes of each dataset up to the stage's
end. The next stage continues with the following samples, so no sample of a dataset is repeated or lost. The weights of
a run can therefore change at sample N. The first N samples stay the same if `spread_to` of the earlier stage is the end
that this stage had before the change.

The mixture's cap on epochs (`max_epochs`) is exact here, because the numbers of tokens are known. It applies to all
stages together: no dataset gives more samples than `max_epochs` times its tokens hold. Samples beyond the cap are taken
from other datasets of the same language, then from other languages, in proportion to their weights.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from bloomery.base.errors import InputError
from bloomery.base.progress import say
from bloomery.config.stages import IndexStage
from bloomery.config.tokens import BlendStage
from bloomery.contracts.blend import StageEntry, StageShare
from bloomery.spec.blend_counts import taken
from data_prep.formats.mixture import Mixture
from data_prep.index.order import samples_in
from data_prep.index.write_blend import quotas

Tokens = Mapping[str, Mapping[str, int]]
"""Unique tokens, keyed by language and dataset."""


@dataclass(frozen=True)
class _Wanted:
    """Weights that a stage gives to a language and to its datasets. Only weights above 0 are listed."""

    weight: float
    """Weight of the language."""
    datasets: dict[str, float]
    """Weight of each dataset, relative to the other datasets of the language."""


def plan_stages(mixture: Mixture, tokens: Tokens, stage: IndexStage) -> list[StageEntry]:
    """Return the stages of the training with their exact numbers of samples.

    Args:
        mixture: the cap on epochs, and the weights of stages that have no weights of their own.
        tokens: tokens of every dataset with text, also of datasets without weight in the mixture.
        stage: number and length of the training samples, and the configured stages of the blend.

    Raises:
        InputError: a weight names a language or dataset without text, no text has a weight, or the cap on epochs
            leaves too few samples.
    """
    asked = stage.blend or [BlendStage()]
    _refuse_late(asked, stage.train_samples)
    bounds = [*(entry.from_sample for entry in asked), stage.train_samples]
    used: Counter[str] = Counter()
    planned = []
    for number, (entry, (begin, end)) in enumerate(zip(asked, pairwise(bounds), strict=True)):
        where = _where(number, stage)
        spread_to = end if entry.spread_to is None else entry.spread_to
        wanted = _wanted(entry, mixture, tokens, where)
        if not wanted:
            expected = f"a weight above 0 for a language or dataset that has text: {_known(tokens)}"
            raise InputError(
                "no text has a weight, so there is no document to train on", where=where, expected=expected
            )
        counts = _quotas(wanted, spread_to - begin, _Cap(mixture, tokens, stage, used), where)
        shares = _shares(wanted)
        reads = taken(counts, end - begin)
        planned.append(
            StageEntry(
                from_sample=begin,
                to_sample=end,
                spread_to=spread_to,
                datasets={
                    name: StageShare(weight=shares[name], quota=quota, first_sample=used[name], taken=reads[name])
                    for name, quota in counts.items()
                    if quota
                },
            )
        )
        used.update(reads)
    return planned


def totals(stages: Sequence[StageEntry]) -> dict[str, int]:
    """Return the samples that the training reads of each dataset. Datasets that it does not read are left out."""
    found: Counter[str] = Counter()
    for stage in stages:
        found.update({name: share.taken for name, share in stage.datasets.items()})
    return {name: count for name, count in found.items() if count}


def weighted_tokens(mixture: Mixture, tokens: Tokens, stage: IndexStage) -> int:
    """Return the tokens of all datasets that have a weight in some stage of the blend.

    Raises:
        InputError: a weight names a language or dataset without text.
    """
    found: dict[str, int] = {}
    for number, entry in enumerate(stage.blend or [BlendStage()]):
        for language, wanted in _wanted(entry, mixture, tokens, _where(number, stage)).items():
            found |= {name: tokens[language][name] for name in wanted.datasets}
    return sum(found.values())


def _refuse_late(asked: Sequence[BlendStage], samples: int) -> None:
    """Raise InputError for a stage that begins after the end of a training whose length the index has computed."""
    for number, entry in enumerate(asked):
        if number and entry.from_sample >= samples:
            raise InputError(
                f"the stage begins at sample {entry.from_sample}, but the training reads only {samples} samples",
                where=f"index.blend[{number}].from_sample",
                expected=f"at most {samples - 1}, or a larger training.train_epochs",
            )
    if (last := asked[-1].spread_to) is not None and last < samples:
        raise InputError(
            f"{last} is less than the {samples} samples of the training",
            where=f"index.blend[{len(asked) - 1}].spread_to",
            expected=f"at least {samples}, or null for the end of the training",
        )


def _where(number: int, stage: IndexStage) -> str:
    """Return the configuration key that sets the weights of stage `number`, for error messages."""
    return f"index.blend[{number}]" if stage.blend else "corpus.mixture"


def _wanted(entry: BlendStage, mixture: Mixture, tokens: Tokens, where: str) -> dict[str, _Wanted]:
    """Return the weights of one stage."""
    return _of_mixture(mixture, tokens) if entry.weights is None else _stated(entry.weights, mixture, tokens, where)


def _known(tokens: Tokens) -> str:
    return ", ".join(dict.fromkeys(name for language, own in tokens.items() for name in (language, *own)))


def _of_mixture(mixture: Mixture, tokens: Tokens) -> dict[str, _Wanted]:
    weights = mixture.datasets
    found = {}
    for language, own in tokens.items():
        datasets = {name: weights[name] for name in own if weights.get(name, 0.0) > 0}
        if datasets and mixture.languages[language] > 0:
            found[language] = _Wanted(mixture.languages[language], datasets)
    return found


def _stated(weights: Mapping[str, float], mixture: Mixture, tokens: Tokens, where: str) -> dict[str, _Wanted]:
    """Return the weights of the languages and datasets that a stage names in its own weights.

    Raises:
        InputError: a name has no text, or a language is named together with one of its datasets.
    """
    known = {name for language, own in tokens.items() for name in (language, *own)}
    for key in weights:
        if key not in known:
            expected = f"a language or dataset that has text: {_known(tokens)}"
            raise InputError(
                f"there is no text in the language or dataset {key!r}", where=f"{where}.weights", expected=expected
            )
    found = {}
    for language, own in tokens.items():
        datasets = {name: weights[name] for name in own if name in weights and name != language}
        weight = math.fsum(datasets.values())
        if language in weights:
            if datasets:
                both = f"{language!r} and {next(iter(datasets))!r}"
                raise InputError(
                    f"weights are given for {both}",
                    where=f"{where}.weights",
                    expected=f"a weight for the language {language!r} or for its datasets, but not for both",
                )
            weight, datasets = weights[language], {name: mixture.datasets.get(name, 0.0) for name in own}
            if len(own) == 1:
                datasets = dict.fromkeys(own, 1.0)
            if weight > 0 and not any(datasets.values()):
                raise InputError(
                    f"no dataset of {language!r} has a weight above 0 in the mixture, so the weight of "
                    f"{language!r} in this stage cannot be divided among its datasets",
                    where=f"{where}.weights",
                    expected=f"weights for one or more of these datasets instead of {language!r}: {', '.join(own)}",
                )
        if weight > 0:
            found[language] = _Wanted(weight, {name: part for name, part in datasets.items() if part > 0})
    return found


def _shares(wanted: Mapping[str, _Wanted]) -> dict[str, float]:
    """Return the weight of each dataset. The weights sum to 1."""
    whole = math.fsum(own.weight for own in wanted.values())
    return {
        name: own.weight / whole * part / math.fsum(own.datasets.values())
        for own in wanted.values()
        for name, part in own.datasets.items()
    }


@dataclass(frozen=True)
class _Cap:
    """Computes how many samples of each dataset a stage may still read under the mixture's cap on epochs."""

    mixture: Mixture
    tokens: Tokens
    stage: IndexStage
    used: Mapping[str, int]

    def limits(self, language: str, names: Mapping[str, float], samples: int) -> dict[str, int]:
        cap = self.mixture.max_epochs
        if cap is None:
            return dict.fromkeys(names, samples)
        own = self.tokens[language]
        held = {name: samples_in(int(Fraction(cap) * own[name]), self.stage.sequence_length) for name in names}
        return {name: max(0, count - self.used.get(name, 0)) for name, count in held.items()}


def _quotas(wanted: Mapping[str, _Wanted], samples: int, cap: _Cap, where: str) -> dict[str, int]:
    """Return the samples per dataset, which sum to `samples`. Raises InputError if the cap on epochs allows fewer."""
    limits = {language: cap.limits(language, own.datasets, samples) for language, own in wanted.items()}
    most = sum(count for of_language in limits.values() for count in of_language.values())
    if most < samples:
        raise _too_little(wanted, samples, most, cap, where)
    per_language = quotas(
        {language: own.weight for language, own in wanted.items()},
        samples,
        {language: sum(of_language.values()) for language, of_language in limits.items()},
    )
    counts: dict[str, int] = {}
    for language, own in wanted.items():
        found = quotas(own.datasets, per_language[language], limits[language])
        counts |= {name: found[name] for name in own.datasets}
    uncapped = quotas(_shares(wanted), samples)
    allowed = {name: count for of_language in limits.values() for name, count in of_language.items()}
    cut = [name for name in sorted(counts) if counts[name] == allowed[name] < uncapped[name]]
    if cut:
        say(
            f"{where}: the limit corpus.mixture.max_epochs ({cap.mixture.max_epochs:g}) reduces the share of these "
            f"datasets below their weight: {', '.join(cut)}"
        )
    return counts


def _too_little(wanted: Mapping[str, _Wanted], samples: int, most: int, cap: _Cap, where: str) -> InputError:
    counts = [cap.tokens[language][name] for language, own in wanted.items() for name in own.datasets]
    length, epochs = cap.stage.sequence_length, cap.mixture.max_epochs
    left = ", minus the samples of earlier stages" if any(cap.used.values()) else ""
    what = (
        f"the stage of the blend needs {samples} samples of {length} tokens, but only {most} samples are available: "
        f"{epochs:g} epochs (corpus.mixture.max_epochs) of the {sum(counts)} tokens in datasets with a weight{left}"
    )
    if cap.stage.blend:
        right = "a shorter stage, weights for further datasets, or a higher corpus.mixture.max_epochs"
        return InputError(what, where=where, expected=right)
    needed = math.ceil(100 * (samples + len(counts)) * length / sum(counts)) / 100
    return InputError(
        what,
        where="corpus.mixture.max_epochs",
        expected=f"training.train_samples of at most {most}, corpus.mixture.max_epochs of about {needed:g}, or more "
        "text",
    )
