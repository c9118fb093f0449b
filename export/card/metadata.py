"""Make the metadata at the beginning of the model card, which the Hub indexes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from bloomery.contracts.metrics_record import perplexity
from export.card.facts import CODE, CardFacts, RunRecords
from export.card.licences import licence_metadata

if TYPE_CHECKING:
    from bloomery.contracts.metrics_record import ValidationRecord

_HUB_CODES = {"zhs": "zh", "zht": "zh"}
_TASK = {"type": "text-generation", "name": "Text generation"}


def front_matter(facts: CardFacts, records: RunRecords) -> dict[str, Any]:
    """Return the card's metadata: languages, licence, tags, and the perplexities as `model-index`."""
    languages = records.all_languages
    codes = sorted({_HUB_CODES.get(code, code) for code in languages if code != CODE})
    tags = [facts.family.model_type, "bloomery", "text-generation"] + ([CODE] if CODE in languages else [])
    results = _results(records.validations[-1], facts.manifest.iteration) if records.validations else []
    return {
        **({"language": codes} if codes else {}),
        **licence_metadata(facts.stage.licences),
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "tags": tags,
        **({"model-index": [{"name": facts.stage.model_name, "results": results}]} if results else {}),
    }


def _results(record: ValidationRecord, iteration: int) -> list[dict[str, Any]]:
    """Return an entry for each validation set whose loss is finite, in the form that the Hub specifies.

    If the last validation is older than the exported checkpoint of `iteration`, the names of the metrics state the
    iteration of the validation, because the values are those of an earlier state of the model.
    """
    of = "" if record.iteration == iteration else f" after iteration {record.iteration:,} of {iteration:,}"
    return [
        {
            "task": dict(_TASK),
            "dataset": {
                "type": "validation",
                "name": f"validation set {name}",
                "config": name,
                "split": "validation",
            },
            "metrics": [{"type": "perplexity", "value": _rounded(value), "name": f"perplexity of {name}{of}"}],
        }
        for name, loss in sorted(record.validation.items())
        if (value := perplexity(loss)) is not None
    ]


def _rounded(value: float) -> float:
    """Round to six significant digits. More digits would only show rounding errors."""
    return round(value, max(0, 5 - math.floor(math.log10(value)))) if value > 0 else value
