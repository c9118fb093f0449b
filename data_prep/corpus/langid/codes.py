"""Convert labels of other detectors (`__label__fra_Latn`, `__label__fr`) to CLD2's codes, which accept sets use."""

from __future__ import annotations

from bloomery.config.language_codes import ISO_TABLE

_WORDS = ISO_TABLE.split()
_OF_ISO = {iso: (code, script) for code, iso, script in zip(*[iter(_WORDS)] * 3, strict=True)}
_SCRIPTS = dict(_OF_ISO.values())
_CHINESE = {"zh", "zho", "cmn"}

CHINESE = "zh"
TRADITIONAL_CHINESE = "zh-Hant"
ANY_CHINESE = "zh-Hani"
"""Code for Chinese from a detector that does not distinguish the two scripts."""
CODES = frozenset({*_SCRIPTS, CHINESE, TRADITIONAL_CHINESE})
"""Every code that an accept set may contain."""


def code_of(label: str) -> str:
    """Return the code of a label, which is ISO 639-1 or -3 with or without a script.

    A label of another language is returned without `__label__`. A language in an unusual script (`hin_Latn`) becomes
    `hi-Latn`, which no accept set contains.
    """
    name = label.removeprefix("__label__")
    language, _, script = name.replace("-", "_").partition("_")
    if language in _CHINESE:
        return {"Hans": CHINESE, "Hant": TRADITIONAL_CHINESE}.get(script, ANY_CHINESE)
    code, own = _OF_ISO.get(language, (language, _SCRIPTS.get(language, script)))
    if code not in _SCRIPTS:
        return name
    return f"{code}-{script}" if script and script != own else code
