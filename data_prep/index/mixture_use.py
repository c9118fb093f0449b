"""The mixture in tokens: which text a dataset has, and how often the training reads it.

Weights are those of mixture.json; `data_prep.index.plan_blend_stages` plans what each dataset gives. When the weights
were made, bytes only estimated epochs (a token is 3 bytes of Bambara and 11 of Tamil in BLOOM). So the share of samples
may lie below the weight where a cap on epochs cuts it, and differ from it where stages state their own weights; the
table shows both.
"""

from __future__ import annotations

from collections.abc import Mapping

from bloomery.config.stages import IndexStage
from bloomery.contracts.index import LanguageRead, TextRead
from data_prep.formats.mixture import Mixture
from data_prep.index.split import TextSize


def datasets_of(mixture: Mixture, language: str, texts: Mapping[str, TextSize]) -> dict[str, dict[str, TextSize]]:
    """The datasets of a language, those without weight too: text per source of each. `texts`: of each source."""
    found: dict[str, dict[str, TextSize]] = {}
    for source, text in texts.items():
        found.setdefault(mixture.dataset(language, source), {})[source] = text
    return found


def language_read(
    weight: float, datasets: Mapping[str, Mapping[str, TextSize]], counts: Mapping[str, int], stage: IndexStage
) -> LanguageRead:
    """What training reads of a language and of each source in it.

    Args:
        weight: the language's in the mixture.
        datasets: text per source of each dataset of the language.
        counts: samples per dataset.
        stage: samples of the training, and their length.
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
