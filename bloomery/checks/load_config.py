"""Load the YAML of a run. Every section is validated by itself, then all checks between sections run, and all problems
are reported at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bloomery.base.written_values import VARIABLE
from bloomery.checks.check_blend import blend_contradictions
from bloomery.checks.check_corpus import recipe_contradictions, source_contradictions, threshold_contradictions
from bloomery.checks.check_export import export_contradictions
from bloomery.checks.check_languages import language_contradictions
from bloomery.checks.check_length import (
    explained,
    length_contradictions,
    with_train_samples,
    without_train_samples,
)
from bloomery.checks.check_plan import plan_contradictions
from bloomery.checks.check_publish import publish_contradictions
from bloomery.checks.check_tokenizer import (
    existing_contradictions,
    report_contradictions,
    vocabulary_contradictions,
)
from bloomery.checks.check_training import section_contradictions, training_contradictions
from bloomery.config.catalogue import Catalogue
from bloomery.config.load import expanded, validate
from bloomery.config.run import RunConfig
from bloomery.config.section import Contradiction, Problem
from bloomery.config.yaml_text import read_yaml

_CHECKS: tuple[Callable[[RunConfig], list[Contradiction]], ...] = (
    # This check is first, so that contradictions within `training` are reported before those between sections.
    lambda config: section_contradictions(config.training),
    source_contradictions,
    language_contradictions,
    existing_contradictions,
    vocabulary_contradictions,
    report_contradictions,
    threshold_contradictions,
    recipe_contradictions,
    training_contradictions,
    blend_contradictions,
    plan_contradictions,
    export_contradictions,
    publish_contradictions,
)


def load_config(path: Path) -> RunConfig:
    """Read and validate a run's YAML.

    Raises:
        ConfigError: the file is missing or not YAML, or keys are wrong (all of them in one message).
    """
    return validate_config(read_yaml(path), where=str(path))


def validate_config(raw: Any, *, where: str = "config") -> RunConfig:
    """Validate a parsed configuration, including the sources that its catalogue lists. Errors contain `where`.

    Raises:
        ConfigError: the configuration is wrong; the error lists every problem. For problems in the catalogue, it states
            the line and column of the table.
    """
    raw, placed = _with_catalogue(raw, where)
    example = "keys and values of a run, as in config/sample.yaml"

    def checks(config: RunConfig) -> list[Contradiction]:
        # The other checks need the length of the training.
        return length_contradictions(config, raw) or contradictions(config)

    return validate(with_train_samples(raw), RunConfig, where=where, example=example, checks=checks, placed=placed)


def written_values(path: Path) -> dict[str, Any]:
    """Return all values of a run's YAML, including every default, as plain data.

    A value that contains `${NAME}` is returned with `${NAME}`, not with the value of the environment variable.

    Raises:
        ConfigError: the file is missing or not YAML, or keys are wrong (all of them in one message).
    """
    raw = read_yaml(path)
    values = validate_config(raw, where=str(path)).model_dump(mode="json")
    merged, _ = _with_catalogue(raw, str(path))
    shown: dict[str, Any] = _restored(without_train_samples(values), merged)
    return shown


def _restored(value: Any, written: Any) -> Any:
    """Return `value`, with each text replaced by the text at the same place in `written` if that contains `${NAME}`."""
    if isinstance(written, str) and VARIABLE.search(written):
        return written
    if isinstance(value, dict) and isinstance(written, dict):
        return {key: _restored(item, written.get(key)) for key, item in value.items()}
    if isinstance(value, list) and isinstance(written, list) and len(value) == len(written):
        return [_restored(item, other) for item, other in zip(value, written, strict=True)]
    return value


def _with_catalogue(raw: Any, where: str) -> tuple[Any, Callable[[Problem], Problem] | None]:
    """Return the configuration with the sources of its catalogue, and a function that adds the line and column of the
    catalogue to a problem. The function is None if there is no catalogue."""
    if isinstance(raw, dict) and isinstance(raw.get("catalogue"), str):
        own = raw.get("sources", [])
        if isinstance(own, list):
            catalogue = Catalogue(Path(expanded(raw["catalogue"], "catalogue", where)))
            merged = raw | {"sources": [*own, *catalogue.sources], "catalogue": None}
            return merged, partial(catalogue.placed, before=len(own))
    return raw, None


def contradictions(config: RunConfig) -> list[Contradiction]:
    """Return every contradiction between keys that no single section can find by itself."""
    return [explained(found, config) for check in _CHECKS for found in check(config)]
