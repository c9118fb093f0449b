"""Compute the mixture: how much of each language and of each source the tokenizer and the training read.

Only manifests are read: those of the clean shards and of adopted token files. The size of an adopted file is the number
of bytes of text that its tokens encode. Within a language, sources are mixed in proportion to bytes times
`sources[].weight` (default 1), under the same cap on epochs as the languages. `shares.py` computes the shares of the
languages.

Every later stage takes the mixture from mixture.json. The tokenizer weighs its counts by it. The index builds its blend
from it, and writes exact tokens and epochs to index.json. The epochs in mixture.json are estimates from bytes: how
often each text is read if training reads `budget_bytes` of this mixture.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from bloomery.base.errors import InputError
from bloomery.base.progress import say
from bloomery.base.self_digest import write_with_own_digest
from bloomery.base.units import format_bytes
from bloomery.config.stages import MixtureStage
from bloomery.contracts.lineage import (
    SECTION,
    TEXTS,
    TOKEN_FILES,
    adopted_pair,
    pairs_digest,
    stage_digest,
    texts_digest,
)
from bloomery.contracts.safe_path import read_part_names
from data_prep.corpus.shares import fill, weights
from data_prep.formats.shard import read_manifest
from data_prep.formats.sidecar import sidecar_path

Sizes = dict[str, dict[str, Counter[str]]]
"""Documents and bytes by language, then by source."""

MANY = 12
"""Number of languages that the printed table lists."""


def mixture(
    stage: MixtureStage, corpus: Path, parts: Path, output: Path, adopted: Sequence[Path] = ()
) -> dict[str, Any]:
    """Write the mixture of the clean corpus and the adopted token files, and return it.

    Args:
        stage: settings of the stage.
        corpus: corpus folder of the run.
        parts: path of parts.json.
        output: path of mixture.json.
        adopted: prefixes of adopted token files (`index/tokens/source/00000`) that are part of the mixture.

    Raises:
        InputError: a clean shard or token file is missing, no document is left, or the configured weights do not match
            the languages of the corpus (see `data_prep.corpus.shares.weights`).
    """
    sizes: Sizes = {}
    texts: dict[str, str] = {}
    removed: Counter[str] = Counter()
    shards = read_part_names(parts)
    for part in shards:
        manifest = read_manifest(corpus / "clean" / f"{part}.parquet")
        texts[part] = manifest["file"]["digest"]
        for language, entry in manifest["counts"]["languages"].items():
            removed.update({rule: size["documents"] for rule, size in entry["removed"].items()})
            _add(sizes, language, part.split("/")[0], entry["out"])
    pairs = {}
    for prefix in adopted:
        manifest = read_manifest(sidecar_path(prefix))
        pairs[f"{prefix.parent.name}/{prefix.name}"] = adopted_pair(manifest["inputs"], manifest["file"]["digest"])
        for language, size in manifest["counts"]["languages"].items():
            _add(sizes, language, prefix.parent.name, {key: size[key] for key in ("documents", "bytes")})
    names = dict.fromkeys([*(part.split("/")[0] for part in shards), *(prefix.parent.name for prefix in adopted)])
    if not sizes:
        raise _empty(removed)
    languages = table(stage, sizes)
    value = {
        "method": stage.mixture.method,
        "alpha": stage.mixture.alpha,
        "max_epochs": stage.mixture.max_epochs,
        "budget_bytes": stage.budget_bytes,
        "languages": languages,
        "sources": {name: _of_source(name, languages) for name in names},
        "made_from": {TEXTS: texts_digest(texts), SECTION: stage_digest(stage)}
        | ({TOKEN_FILES: pairs_digest(pairs)} if pairs else {}),
    }
    _warn_of_repeats(stage, languages)
    write_with_own_digest(output, value)
    return value


def _add(sizes: Sizes, language: str, source: str, size: dict[str, int]) -> None:
    if size["documents"]:
        sizes.setdefault(language, {}).setdefault(source, Counter()).update(size)


def table(stage: MixtureStage, sizes: Sizes) -> dict[str, dict[str, Any]]:
    """Return the entry of each language in mixture.json.

    An entry has `documents`, `bytes`, `share` of all text, `weight` in the mixture (all weights sum to 1), and `epochs`
    (None without a budget). `sources` has the same keys for each source of the language. `by_source` is true if these
    sources have different `sources[].weight`; then the blend has one dataset per source instead of one per language.

    Raises:
        InputError: as for `weights`.
    """
    total = sum(count["bytes"] for of_language in sizes.values() for count in of_language.values())
    factors = {
        code: {name: stage.source_weights.get(name, 1.0) for name in sorted(of_language)}
        for code, of_language in sizes.items()
    }
    used = {
        code: sum(count["bytes"] for name, count in of_language.items() if factors[code][name] > 0)
        for code, of_language in sizes.items()
    }
    found = {}
    # A language whose sources all have weight 0 is treated like a language without text.
    language_weights = weights(used, stage.mixture, stage.budget_bytes)
    for code, of_language in sorted(sizes.items()):
        weight = language_weights.get(code, 0.0)
        within = _within(stage, weight, {name: of_language[name]["bytes"] for name in factors[code]}, factors[code])
        found[code] = {
            **_line(stage, sum(of_language.values(), Counter()), total, weight, used[code]),
            "by_source": len(set(factors[code].values())) > 1,
            "sources": {
                name: _line(stage, of_language[name], total, part, of_language[name]["bytes"])
                for name, part in within.items()
            },
        }
    return found


def _within(stage: MixtureStage, weight: float, sizes: dict[str, int], factors: dict[str, float]) -> dict[str, float]:
    """Return the weight of each source of a language. They sum to `weight`, the weight of the language."""
    wanted = {name: size * factors[name] for name, size in sizes.items() if size * factors[name] > 0}
    if weight == 0 or not wanted:
        return dict.fromkeys(sizes, 0.0)
    cap = stage.mixture.max_epochs
    budget = Fraction(weight) * (stage.budget_bytes or 1)
    limits = {name: budget if cap is None else Fraction(cap) * sizes[name] for name in wanted}
    parts = fill(wanted, budget, limits)
    total = sum(parts.values())
    return {name: weight * float(parts[name] / total) if name in parts else 0.0 for name in sizes}


def _line(stage: MixtureStage, count: Counter[str], total: int, weight: float, used: int) -> dict[str, Any]:
    """Return the entry of a language or of one of its sources. `epochs` is how often its `used` bytes are read."""
    budget = stage.budget_bytes
    return {
        "documents": count["documents"],
        "bytes": count["bytes"],
        "share": count["bytes"] / total if total else 0.0,
        "weight": weight,
        "epochs": None if budget is None else weight * budget / used if used else 0.0,
    }


def _of_source(name: str, languages: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return documents and bytes of a source, in total and per language."""
    own = {code: entry["sources"][name] for code, entry in languages.items() if name in entry["sources"]}
    return {
        "documents": sum(entry["documents"] for entry in own.values()),
        "bytes": sum(entry["bytes"] for entry in own.values()),
        "languages": {code: {key: entry[key] for key in ("documents", "bytes")} for code, entry in own.items()},
    }


def _warn_of_repeats(stage: MixtureStage, languages: dict[str, dict[str, Any]]) -> None:
    """Warn if the text is too small for the cap on epochs.

    This is only a warning, because epochs are estimated from bytes here. The index fails if the exact number of tokens
    is too small.
    """
    cap = stage.mixture.max_epochs
    most = max(entry["epochs"] or 0.0 for entry in languages.values())
    if cap is None or stage.budget_bytes is None or most <= cap * (1 + 1e-9):
        return
    text = sum(entry["bytes"] for entry in languages.values() if entry["weight"] > 0)
    say(
        f"warning: the training reads {format_bytes(stage.budget_bytes)}, more than {cap:g} times the "
        f"{format_bytes(text)} of text in the mixture: about {most:.3g} epochs. The index, which counts tokens, fails "
        f"above {cap:g} epochs. Increase corpus.mixture.max_epochs, reduce training.train_samples or add text"
    )


def lines(value: dict[str, Any]) -> list[str]:
    """Return a table of the mixture for people, with one line for each of the `MANY` largest weights."""
    languages = value["languages"]
    first = sorted(languages, key=lambda code: (-languages[code]["weight"], code))
    text = [f"{'language':<10}{'text':>12}{'of all':>9}{'mixture':>9}{'epochs':>9}"]
    for code in first[:MANY]:
        entry = languages[code]
        epochs = "" if entry["epochs"] is None else f"{entry['epochs']:.2f}"
        size = format_bytes(entry["bytes"])
        text.append(f"{code:<10}{size:>12}{entry['share']:>9.2%}{entry['weight']:>9.2%}{epochs:>9}".rstrip())
    if len(first) > MANY:
        rest = sum(languages[code]["weight"] for code in first[MANY:])
        text.append(f"{len(first) - MANY} more languages: {rest:.2%} of the mixture")
    return text


def _empty(removed: Counter[str]) -> InputError:
    """Return the error for an empty corpus. It names the rules that removed most documents."""
    most = ", ".join(f"{rule} ({count})" for rule, count in removed.most_common(3))
    return InputError(
        f"no document is left; most were removed by the rules {most}" if most else "the sources contain no document",
        where="corpus",
        expected="at least one document in the clean corpus; change the limits in corpus.judge, or add sources",
    )
