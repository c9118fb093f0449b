"""Groups of languages. The treemap draws the languages of a group next to each other and in the same colour."""

from __future__ import annotations


def _codes(words: str) -> frozenset[str]:
    return frozenset(words.split())


GROUPS: dict[str, tuple[str, frozenset[str]]] = {
    "europe": ("European", _codes("ca en es eu fr pt")),
    "indic": ("Indo-Aryan", _codes("as bn gu hi mr ne or pa ur")),
    "dravidian": ("Dravidian", _codes("kn ml ta te")),
    "arabic": ("Arabic", _codes("ar")),
    "chinese": ("Chinese", _codes("zhs zht")),
    "southeast": ("Southeast Asian", _codes("id vi")),
    "africa": (
        "Niger-Congo",
        _codes("ak bm fon ig ki lg ln nso ny rn rw sn st sw tn ts tum tw wo xh yo zu"),
    ),
    "code": ("Source code", _codes("code")),
    "other": ("other", frozenset()),
}
"""Name of a group -> its label and its language codes. page.css has a colour variable of that name (`--arabic`)."""


def group_of(language: str) -> str:
    """Return the group of a language code, or `other` if no group has the code."""
    return next((name for name, (_, codes) in GROUPS.items() if language in codes), "other")
