"""Language profiles as data: one file per language, `config/languages/<code>.toml`, and `default.toml` for all
others."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from bloomery.base.errors import ConfigError
from bloomery.base.unreadable import why_unreadable
from bloomery.config.corpus import JudgeConfig, MeasureConfig, Thresholds
from bloomery.config.explain_value import wrong_values
from bloomery.config.words import WordLists

LANGUAGES_FOLDER = Path(__file__).resolve().parents[2] / "config" / "languages"
THRESHOLDS_FOLDER = LANGUAGES_FOLDER.parent / "thresholds"
SHIPPED_FALLBACK = LANGUAGES_FOLDER / "fallback.safetensors"
"""The n-gram model for languages that CLD2 lacks, trained by `data_prep/corpus/langid/train_shipped.py`."""

CODE = "code"
"""Language code of source code. Its lines and its white space are not changed."""


class LanguageProfile(WordLists):
    """Facts about a language that the cleaning stages use."""

    name: str
    """English name of the language."""
    unspaced: bool = False
    """Whether the language is written without spaces between words. Its characters then count as words."""
    accept: list[str] = Field(default_factory=list)
    """Detector codes that count as this language, including close relatives that detectors confuse with it. The
    language check is skipped if the list is empty, or if the run's detectors know none of the codes."""
    scripts: list[str] = Field(default_factory=list)
    """Unicode names of the scripts in which the language is written. Empty: any script."""
    thresholds: Thresholds = Thresholds()
    """Limits for documents of this language."""
    origin: dict[str, str] = Field(default_factory=dict)
    """Where each threshold and each word list comes from."""


@cache
def language_profiles() -> dict[str, LanguageProfile]:
    """Return all profiles by BLOOM language code, including `default`.

    Raises:
        ConfigError: a profile is damaged, or `default.toml` is missing.
    """
    profiles = {}
    for path in sorted(LANGUAGES_FOLDER.glob("*.toml")):
        try:
            profiles[path.stem] = LanguageProfile.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, ValidationError) as error:
            wrong = _reason(error, LanguageProfile)
            raise ConfigError(f"is not a valid language profile: {wrong}", where=str(path)) from error
    if "default" not in profiles:
        raise ConfigError("default.toml is missing", where=str(LANGUAGES_FOLDER))
    return profiles


def profile_of(language: str) -> LanguageProfile:
    """Return the profile of a BLOOM language code, or the default profile for an unknown code."""
    profiles = language_profiles()
    return profiles.get(language, profiles["default"])


def resolved_words(measure: MeasureConfig) -> dict[str, WordLists]:
    """Return the words that are counted, per language: first the profile's words, then those of the run, without
    duplicates."""
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
    """Return the limits per language in `config/thresholds/<preset>.toml`, including `default`.

    Raises:
        ConfigError: the table is missing or damaged.
    """
    path = THRESHOLDS_FOLDER / f"{preset}.toml"
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        # In a table of complete rows an absent limit means no limit; in other tables the default row's limit applies.
        base = tables["default"] if tables.pop("origin")["rows"] == "over default" else {}
        return {language: Thresholds.model_validate(base | values) for language, values in tables.items()}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, ValidationError, KeyError, TypeError) as error:
        wrong = _reason(error, Thresholds)
        raise ConfigError(f"is not a valid table of thresholds: {wrong}", where=str(path)) from error


def _reason(error: Exception, model: type[BaseModel]) -> str:
    """Return why a TOML file is not valid."""
    if isinstance(error, ValidationError):
        return wrong_values(error, model)
    if isinstance(error, tomllib.TOMLDecodeError | UnicodeDecodeError | OSError):
        return why_unreadable(error)
    return "a table `origin` with the key `rows`, or the table `default`, is missing"


def _preset_thresholds(preset: str) -> dict[str, Thresholds]:
    """Return the limits of a preset per language. Each row is complete: `default` is already merged where the preset
    asks for it."""
    if preset == "none":
        return {}
    own = {language: profile.thresholds for language, profile in language_profiles().items()}
    return own if preset == "bloomery" else {"code": own["code"]} | published_thresholds(preset)


def resolved_thresholds(judge: JudgeConfig, recipe: str | None = None) -> dict[str, Thresholds]:
    """Return the effective thresholds per language, including `default`.

    They are the limits of the preset, overridden by the run's thresholds, and then by those of `recipe`.
    """
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
