"""Checks of language codes. Codes of other standards are rejected, and weights may only name languages of the
sources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bloomery.config.language_codes import meant_codes
from bloomery.config.section import Contradiction
from bloomery.config.sources import MegatronSource, UdhrSource

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig
    from bloomery.config.sources import AnySource

WEIGHTS = "corpus.mixture.weights"


def language_contradictions(config: RunConfig) -> list[Contradiction]:
    """Find codes of other standards (`zh`, `en-US`), and mixture weights of languages that no source can have.

    If the rows or the file names of a source state its languages, this check does not know them. `bloomery config check
    --data` reads rows of such sources and checks the weights.
    """
    problems = []
    for key, code in _stated_codes(config):
        if meant := meant_codes(code):
            message = (
                f"{key}: {code!r} is not one of Bloomery's language codes, so documents with this code would skip "
                "language identification"
            )
            problems.append(Contradiction(message, (key,), code, " or ".join(meant)))
    known = _languages(config)
    if known is None or problems:
        return problems
    for code, weight in config.corpus.mixture.weights.items():
        if weight > 0 and code not in known:
            message = f"{WEIGHTS}.{code}: no source has the language {code!r}"
            sources = tuple(f"sources[{number}]" for number in range(len(config.sources)))
            right = f"one of {', '.join(sorted(known))}"
            problems.append(Contradiction(message, (f"{WEIGHTS}.{code}", *sources), weight, right))
    return problems


def _stated_codes(config: RunConfig) -> Iterator[tuple[str, str]]:
    """Yield (key path, language code) for the codes of the sources and of the mixture.

    The codes of thresholds and word lists are left out, because `check_corpus` rejects unknown languages there.
    """
    for number, source in enumerate(config.sources):
        if source.language is not None:
            yield f"sources[{number}].language", source.language
        if isinstance(source, UdhrSource):
            for position, code in enumerate(source.languages or []):
                yield f"sources[{number}].languages[{position}]", code
    for code in config.corpus.mixture.weights:
        yield f"{WEIGHTS}.{code}", code


def _languages(config: RunConfig) -> set[str] | None:
    """Return the languages of all sources, or None if a source states its languages only in its data."""
    found: set[str] = set()
    for source in config.sources:
        own = source_languages(source)
        if own is None:
            return None
        found |= own
    return found


def source_languages(source: AnySource) -> set[str] | None:
    """Return the languages that the documents of a source can have, or None if only its data state the languages."""
    if isinstance(source, UdhrSource):
        return None if source.languages is None else set(source.languages)
    if isinstance(source, MegatronSource):
        return {source.language}
    stated_by_rows = getattr(source, "language_field", None) is not None
    return None if source.language is None or stated_by_rows else {source.language}
