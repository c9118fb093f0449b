"""Language profiles. A language has a file `config/languages/<code>.toml`; all others use `default.toml`."""

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
"""Language code of source code. The lines and the white space of such documents are not changed."""


class LanguageProfile(WordLists):
    """Facts about a language that the cleaning stages use."""

    name: str
    """English name of the language."""
    unspaced: bool = False
    """True if the language is written without spaces between words. Each character then counts as a word."""
    accept: list[str] = Field(default_factory=list)
    """Detector codes that count as this language, including the codes of closely related languages that detectors
    confuse with it. If the list is empty, or the run's detectors know none of the codes, the language check is
    skipped."""
    scripts: list[str] = Field(default_factory=list)
    """Unicode names of the scripts in which the language is written. If the list is empty, any script is accepted."""
    thresholds: Thresholds = Thresholds()
    """Limits on the measures of documents in this language, such as a minimum number of words."""
    origin: dict[str, str] = Field(default_factory=dict)
    """Name of a threshold or word list of this profile -> a note that states where the value comes from."""


@cache
def language_profiles() -> dict[str, LanguageProfile]:
    """Return all profiles by BLOOM language code, including `default`.

    Raises:
        ConfigError: a profile cannot be read or is not valid, or `default.toml` is missing.
    """
    profiles = {}
    for path in sorted(LANGUAGES_FOLDER.glob("*.toml")):
        try:
            profiles[path.stem] = LanguageProfile.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, ValidationError) as error:
            wrong = _reason(error, LanguageProfile)
            raise ConfigError(
                f"is not a valid language profile: {wrong}",
                where=str(path),
                expected="keys as in config/languages/default.toml; correct the file or restore it from the repository",
            ) from error
    if "default" not in profiles:
        raise ConfigError(
            "the file default.toml is missing",
            where=str(LANGUAGES_FOLDER),
            expected="the profile for languages without their own profile; restore config/languages/default.toml from "
            "the repository",
        )
    return profiles


def profile_of(language: str) -> LanguageProfile:
    """Return the profile of a BLOOM language code. A code without its own profile has the profile `default`."""
    profiles = language_profiles()
    return profiles.get(language, profiles["default"])


def resolved_words(measure: MeasureConfig) -> dict[str, WordLists]:
    """Return the words that are counted in the documents of each language.

    The words of the language's profile come first, then those of the run. Each word is listed once.
    """
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
        ConfigError: the table is missing or not valid.
    """
    path = THRESHOLDS_FOLDER / f"{preset}.toml"
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        # If `rows` is "over default", the row `default` gives the limits that a language's row lacks. If `rows` is
        # "complete", a limit that a row lacks does not apply.
        base = tables["default"] if tables.pop("origin")["rows"] == "over default" else {}
        return {language: Thresholds.model_validate(base | values) for language, values in tables.items()}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, ValidationError, KeyError, TypeError) as error:
        wrong = _reason(error, Thresholds)
        raise ConfigError(
            f"is not a valid table of thresholds: {wrong}",
            where=str(path),
            expected="tables as in config/thresholds/gopher.toml; correct the file or restore it from the repository",
        ) from error


def _reason(error: Exception, model: type[BaseModel]) -> str:
    """Return why a TOML file could not be read as `model`."""
    if isinstance(error, ValidationError):
        return wrong_values(error, model)
    if isinstance(error, tomllib.TOMLDecodeError | UnicodeDecodeError | OSError):
        return why_unreadable(error)
    return "the file must have a table `origin` with the key `rows`, and a table `default`"


def _preset_thresholds(preset: str) -> dict[str, Thresholds]:
    """Return the limits of a preset per language.

    If the other rows of the preset's table state only changes to its row `default`, the limits of `default` are already
    merged into them.
    """
    if preset == "none":
        return {}
    own = {language: profile.thresholds for language, profile in language_profiles().items()}
    return own if preset == "bloomery" else {"code": own["code"]} | published_thresholds(preset)


def resolved_thresholds(judge: JudgeConfig, recipe: str | None = None) -> dict[str, Thresholds]:
    """Return the effective thresholds per language, including `default`.

    The run's `thresholds` override the limits of the preset. The limits of `recipe` override both.
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
