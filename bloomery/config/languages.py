"""Languages as data: `config/languages/<code>.toml`, one file a language; `default.toml` for any other."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from bloomery.base.errors import ConfigError
from bloomery.config.corpus import JudgeConfig, MeasureConfig, Thresholds
from bloomery.config.words import WordLists

LANGUAGES_FOLDER = Path(__file__).resolve().parents[2] / "config" / "languages"
THRESHOLDS_FOLDER = LANGUAGES_FOLDER.parent / "thresholds"
SHIPPED_FALLBACK = LANGUAGES_FOLDER / "fallback.safetensors"
"""The n-gram model for languages that CLD2 lacks; `data_prep/corpus/langid/train_shipped.py` made it."""

CODE = "code"
"""The language of source code, whose lines and white space are left as they are."""


class LanguageProfile(WordLists):
    """What the cleaning knows of a language."""

    name: str
    """English name."""
    unspaced: bool = False
    """Written without spaces between words: characters count as words."""
    accept: list[str] = Field(default_factory=list)
    """Detectors' codes that count as this language (relatives that they mix up included); empty: not judged, and so
    where the run's detectors know none of them."""
    scripts: list[str] = Field(default_factory=list)
    """Unicode's names of the scripts that it is written in; empty: any."""
    thresholds: Thresholds = Thresholds()
    """Limits for this language."""
    origin: dict[str, str] = Field(default_factory=dict)
    """Where each threshold and each list of words comes from."""


@cache
def language_profiles() -> dict[str, LanguageProfile]:
    """All profiles by BLOOM code, `default` included. Raises ConfigError for a damaged file."""
    profiles = {}
    for path in sorted(LANGUAGES_FOLDER.glob("*.toml")):
        try:
            profiles[path.stem] = LanguageProfile.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
        except (tomllib.TOMLDecodeError, ValidationError) as error:
            raise ConfigError(f"not a language profile: {error}", where=str(path)) from error
    if "default" not in profiles:
        raise ConfigError("default.toml is missing", where=str(LANGUAGES_FOLDER))
    return profiles


def profile_of(language: str) -> LanguageProfile:
    """Profile of a BLOOM language code; unknown codes get the default one."""
    profiles = language_profiles()
    return profiles.get(language, profiles["default"])


def resolved_words(measure: MeasureConfig) -> dict[str, WordLists]:
    """Words that are counted per language, in order and each once: the profile's, then the run's."""
    resolved = {}
    for language in sorted({*language_profiles(), *measure.words}):
        sources = [language_profiles().get(language), measure.words.get(language)]
        lists = {
            name: list(dict.fromkeys(word for source in sources if source for word in getattr(source, name)))
            for name in WordLists.model_fields
        }
        if any(lists.values()):
            resolved[language] = WordLists.model_validate(lists)
    return resolved


@cache
def published_thresholds(preset: str) -> dict[str, Thresholds]:
    """Limits per language of `config/thresholds/<preset>.toml`, `default` included. Raises ConfigError as above."""
    path = THRESHOLDS_FOLDER / f"{preset}.toml"
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        # Where rows are complete, a limit that is not there is none; else the default's holds.
        base = tables["default"] if tables.pop("origin")["rows"] == "over default" else {}
        return {language: Thresholds.model_validate(base | values) for language, values in tables.items()}
    except (OSError, tomllib.TOMLDecodeError, ValidationError, KeyError) as error:
        raise ConfigError(f"not a table of thresholds: {error}", where=str(path)) from error


def _preset_thresholds(preset: str) -> dict[str, Thresholds]:
    """The limits of a preset per language; complete, so that no other row is looked at."""
    if preset == "none":
        return {}
    own = {language: profile.thresholds for language, profile in language_profiles().items()}
    return own if preset == "bloomery" else {"code": own["code"]} | published_thresholds(preset)


def resolved_thresholds(judge: JudgeConfig, recipe: str | None = None) -> dict[str, Thresholds]:
    """Thresholds in force per language, `default` included: the preset, the run's changes, then those of a recipe."""
    preset = _preset_thresholds(judge.preset)
    resolved = {}
    for language in sorted({"default", *preset, *judge.thresholds}):
        values: dict[str, Any] = {}
        limits = preset.get(language) or preset.get("default")
        if limits is not None:
            values |= limits.model_dump(exclude_unset=True)
        if language != "code" and "default" in judge.thresholds:
            values |= judge.thresholds["default"].model_dump(exclude_unset=True)
        if language in judge.thresholds:
            values |= judge.thresholds[language].model_dump(exclude_unset=True)
        if recipe is not None:
            values |= judge.recipes[recipe].model_dump(exclude_unset=True)
        resolved[language] = Thresholds(**values)
    return resolved
