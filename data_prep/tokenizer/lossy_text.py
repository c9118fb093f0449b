"""Find kinds of text that an imported tokenizer does not restore after encoding and decoding, and possible causes.

Byte-level BPE without a normaliser restores every text. Other tokenizers fold case, strip accents, add a space at the
beginning, or lack characters. A model trained with such a tokenizer never sees what the tokenizer drops.
"""

from __future__ import annotations

from typing import Any

HOSTILE = {
    "capital letters": "Straße ABC Déjà İIıi",
    "accents": "naïve café Ünïcödé Việt Nam",
    "combining marks": "e\u0301 n\u0303 नमस्ते தமிழ் וָו",
    "compatibility forms": "ﬁn ①½㎏ ＡＢＣ ﷺ",
    "spaces at the ends": "  two before, one behind ",
    "runs of spaces": "a   b      c",
    "line breaks and tabs": "a\nb\r\n\tc\u2028d",
    "other spaces": "a\u00a0b\u2009c\u3000d\ufeff",
    "control characters": "a\x00b\x07c\x1b[0m\x85",
    "bidirectional marks": "a\u200fb\u202ec\u2066d",
    "Arabic": "أَهْلًا وَسَهْلًا ۱۲۳",
    "Chinese and Japanese": "人人生而自由，ひらがな カタカナ",
    "emoji": "👩🏽‍🚀 🇰🇪 ☕️",
    "rare characters": "\U0001f9ff \U00020000 𐎠 \ue000 \U0010ffff",
    "digits and signs": "1234567 3.14 ,;:!? #{}[]()<>|\\~^`",
    "code": "if x:\n        return 'don''t'  # </s>",
}
"""One test text per kind. Encoding and decoding must restore each text exactly."""


def lossy_kinds(tokenizer: Any) -> list[str]:
    """Return the kinds of `HOSTILE` whose texts change when they are encoded and decoded.

    The tokenizer must encode special tokens as text (`encode_special_tokens`).
    """
    lost = []
    for kind, text in HOSTILE.items():
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        if tokenizer.decode(ids, skip_special_tokens=False) != text:
            lost.append(kind)
    return lost


def suspects(description: dict[str, Any]) -> list[str]:
    """Describe the settings of a tokenizer.json that can change text. `description` is the parsed file."""
    found = [f"normaliser {kind}" for kind in _types(description.get("normalizer"))]
    for part in _parts(description.get("pre_tokenizer")):
        if part.get("add_prefix_space") or part.get("prepend_scheme") in ("always", "first"):
            found.append(f"the pre-tokenizer {part.get('type')!r} adds a space at the beginning of a text")
        elif part.get("type") in ("Whitespace", "WhitespaceSplit", "BertPreTokenizer"):
            found.append(f"the pre-tokenizer {part['type']!r} drops spaces")
        elif part.get("type") == "Split" and part.get("behavior") == "Removed":
            found.append("the pre-tokenizer 'Split' drops the separators between pre-tokens")
    model = description.get("model") or {}
    if model.get("unk_token") is not None and not model.get("byte_fallback"):
        found.append(f"the token {model['unk_token']!r} replaces text that the vocabulary does not cover")
    return found


def _parts(stage: Any) -> list[dict[str, Any]]:
    """Return the steps of a normaliser or pre-tokenizer.

    The steps of a `Sequence` are its members, including the members of nested sequences. Any other `stage` is a single
    step.
    """
    if not isinstance(stage, dict):
        return []
    members = [member for key in ("normalizers", "pretokenizers") for member in stage.get(key) or ()]
    return [part for member in members for part in _parts(member)] if stage.get("type") == "Sequence" else [stage]


def _types(stage: Any) -> list[str]:
    return [str(part.get("type")) for part in _parts(stage)]
