"""Compute the mixture in tokens: how much text each dataset has, and how many epochs of it the training reads.

The weights come from mixture.json, and `data_prep.index.plan_blend_stages` plans the samples of each dataset. When the
weights were computed, the cap on epochs was applied to estimates from bytes (in BLOOM, a token is 3 bytes of Bambara
but 11 bytes of Tamil). Here it is applied to exact numbers of tokens. A language's share of the samples is below its
weight if the exact cap gives the language fewer samples. The share also differs from the weight if the stages of the
blend have their own weights. `bloomery index show` prints the share and the weight.
"""

from __future__ import annotations

from collections.abc import Mapping

from bloomery.config.stages import IndexStage
from bloomery.contracts.index_manifest import LanguageRead, TextRead
from data_prep.formats.mixture import Mixture
from data_prep.index.split import TextSize


def datasets_of(mixture: Mixture, language: str, texts: Mapping[str, TextSize]) -> dict[str, dict[str, TextSize]]:
    """Return, for each dataset of a language, the text size of each source. Datasets without weight are included.

    `texts` maps each source of the language to its text.
    """
    found: dict[str, dict[str, TextSize]] = {}
    for source, text in texts.items():
        found.setdefault(mixture.dataset(language, source), {})[source] = text
    return found


def language_read(
    weight: float, datasets: Mapping[str, Mapping[str, TextSize]], counts: Mapping[str, int], stage: IndexStage
) -> LanguageRead:
    """Return how much of a language, and of each of its sources, the training reads.

    Args:
        weight: weight of the language in the mixture.
        datasets: text per source of each dataset of the language.
        counts: samples that the training reads of each dataset.
        stage: settings of the index, with the number and the length of the training samples.
    """
    of_sources: dict[str, TextRead] = {}
    for name, texts in datasets.items():
        read = counts[name] * stage.sequence_length / sum(text.tokens for text in texts.values())
        of_sources |= {source: _text_read([text], read, stage) for source, text in texts.items()}
    whole = [text for texts in datasets.values() for text in texts.values()]
    read = sum(counts[name] for name in datasets) * stage.sequence_length / sum(text.tokens for text in whole)
    return LanguageRead(weight=weight, sources=of_sources, **_text_read(whole, read, stage).model_dump())


def _text_read(texts: list[TextSize], epochs: float, stage: IndexStage) -> TextRead:
    documents, tokens = sum(text.documents for text in texts), sum(text.tokens for text in texts)
    share = epochs * tokens / (stage.train_samples * stage.sequence_length)
    return TextRead(documents=documents, tokens=tokens, share=share, epochs=epochs)
