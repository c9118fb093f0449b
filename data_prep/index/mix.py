"""The mixture in tokens: which rows a dataset has, how many samples it gives, how often that reads it.

The weights are those of mixture.json. Its cap on epochs is exact here, because tokens are known: no dataset gives more
samples than `max_epochs` times its tokens hold, and what that cuts off goes to the other sources of its language, then
to the other languages, in proportion to their weights. Bytes only estimated this when the weights were made (a token is
3 bytes of Bambara and 11 of Tamil in BLOOM), so shares of samples may lie below weights; the table says both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

import numpy as np

from bloomery.base.errors import InputError
from bloomery.base.progress import say
from bloomery.config.stages import IndexStage
from bloomery.contracts.index import IndexManifest, LanguageRead, TextRead
from bloomery.contracts.mixture import Mixture
from data_prep.index.blend import quotas
from data_prep.index.samples import samples_in
from data_prep.index.split import Rows


def rows_by_source(rows: Rows, sources: Sequence[str]) -> dict[str, list[Rows]]:
    """Views of the rows of each source. `rows`: in corpus order; `sources`: source of each token file."""
    bounds = np.searchsorted(rows[:, 0], np.arange(len(sources) + 1, dtype=np.int32))
    found: dict[str, list[Rows]] = {}
    for number in np.flatnonzero(np.diff(bounds)).tolist():
        found.setdefault(sources[number], []).append(rows[bounds[number] : bounds[number + 1]])
    return {name: found[name] for name in sorted(found)}


def datasets_of(mixture: Mixture, language: str, rows: Rows, sources: Sequence[str]) -> dict[str, Rows]:
    """Rows per dataset of a language, of those with weight."""
    if language not in mixture.sources:
        return {language: rows} if mixture.languages.get(language, 0.0) > 0 else {}
    weights = mixture.sources[language]
    return {
        mixture.dataset(language, name): np.concatenate(views)
        for name, views in rows_by_source(rows, sources).items()
        if weights.get(name, 0.0) > 0
    }


def sample_quotas(mixture: Mixture, tokens: Mapping[str, Mapping[str, int]], stage: IndexStage) -> dict[str, int]:
    """Samples per dataset, summing to those of the training.

    Args:
        mixture: weights and cap.
        tokens: unique tokens per dataset of each language; at least one, all with weight.
        stage: samples of the training, and their length.

    Raises:
        InputError: the cap leaves fewer.
    """
    samples, sequence_length = stage.train_samples, stage.sequence_length
    flat = {name: count for of_language in tokens.values() for name, count in of_language.items()}
    limits = dict.fromkeys(flat, samples)
    cap = mixture.max_epochs
    if cap is not None:
        limits = {name: samples_in(int(Fraction(cap) * count), sequence_length) for name, count in flat.items()}
        most, unique = sum(limits.values()), sum(flat.values())
        if most < samples:
            needed = math.ceil(100 * (samples + len(flat)) * sequence_length / unique) / 100
            raise InputError(
                f"{samples} samples of {sequence_length} tokens are more than the {most} that {cap:g} epochs of the "
                f"mixture's {unique} tokens hold",
                where="corpus.mixture.max_epochs",
                expected=f"training.train_samples of at most {most}, or corpus.mixture.max_epochs of about {needed:g}, "
                "or more text",
            )
    weights = mixture.datasets
    per_language = quotas(
        {language: mixture.languages[language] for language in tokens},
        samples,
        {language: sum(limits[name] for name in of_language) for language, of_language in tokens.items()},
    )
    counts: dict[str, int] = {}
    for language, of_language in tokens.items():
        within = {name: weights[name] for name in of_language}
        counts |= quotas(within, per_language[language], {name: limits[name] for name in of_language})
    uncapped = quotas({name: weights[name] for name in counts}, samples)
    cut = [name for name in sorted(counts) if counts[name] == limits[name] < uncapped[name]]
    if cut:
        say(f"max_epochs {cap:g} leaves less than their weight in the mixture to {', '.join(cut)}")
    return counts


def language_read(
    weight: float, datasets: Mapping[str, Rows], sources: Sequence[str], counts: Mapping[str, int], stage: IndexStage
) -> LanguageRead:
    """What training reads of a language and of each source in it.

    Args:
        weight: the language's in the mixture.
        datasets: rows per dataset of the language.
        sources: source of each token file.
        counts: samples per dataset.
        stage: samples of the training, and their length.
    """
    of_sources: dict[str, TextRead] = {}
    for name, rows in datasets.items():
        read = counts[name] * stage.sequence_length / _tokens([rows])
        for source, views in rows_by_source(rows, sources).items():
            of_sources[source] = _text_read(views, read, stage)
    whole = list(datasets.values())
    read = sum(counts[name] for name in datasets) * stage.sequence_length / _tokens(whole)
    return LanguageRead(weight=weight, sources=of_sources, **_text_read(whole, read, stage).model_dump())


def _tokens(parts: Iterable[Rows]) -> int:
    return sum(int(part[:, 2].sum(dtype=np.int64)) for part in parts)


def _text_read(parts: list[Rows], epochs: float, stage: IndexStage) -> TextRead:
    tokens = _tokens(parts)
    share = epochs * tokens / (stage.train_samples * stage.sequence_length)
    return TextRead(documents=sum(map(len, parts)), tokens=tokens, share=share, epochs=epochs)


def lines(manifest: IndexManifest) -> list[str]:
    """The mixture in tokens for a person: a line a language, those that are read most first."""
    text = [f"{'language':<10}{'tokens':>16}{'mixture':>9}{'read':>9}{'epochs':>10}"]
    for code, entry in sorted(manifest.languages.items(), key=lambda item: (-item[1].share, item[0])):
        text.append(f"{code:<10}{entry.tokens:>16,}{entry.weight:>9.2%}{entry.share:>9.2%}{entry.epochs:>10.3g}")
        for name, part in sorted(entry.sources.items()) if len(entry.sources) > 1 else ():
            text.append(f"  {name:<8}{part.tokens:>16,}{'':>9}{part.share:>9.2%}{part.epochs:>10.3g}")
    return text
