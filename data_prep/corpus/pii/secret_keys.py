"""Find keys and tokens: tokens with a known prefix, blocks of private keys, and values assigned to names of secrets."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator

from data_prep.corpus.pii.passage import Passage
from data_prep.corpus.pii.spans import Span

_TOKENS = [
    # Each entry has a string that every such token contains, which is fast to search for, and the token's pattern.
    ("AKIA", r"AKIA[A-Z2-7]{16}"),  # AWS
    ("ASIA", r"ASIA[A-Z2-7]{16}"),
    ("ghp_", r"ghp_[A-Za-z0-9]{36,255}"),  # GitHub
    ("gho_", r"gho_[A-Za-z0-9]{36,255}"),
    ("ghu_", r"ghu_[A-Za-z0-9]{36,255}"),
    ("ghs_", r"ghs_[A-Za-z0-9]{36,255}"),
    ("ghr_", r"ghr_[A-Za-z0-9]{36,255}"),
    ("github_pat_", r"github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"),
    ("glpat-", r"glpat-[A-Za-z0-9_\-]{20,64}"),  # GitLab
    ("hf_", r"hf_[A-Za-z0-9]{34,64}"),  # Hugging Face
    ("npm_", r"npm_[A-Za-z0-9]{36}"),
    ("pypi-", r"pypi-[A-Za-z0-9_\-]{85,255}"),
    ("xox", r"xox[abeoprs]-[0-9A-Za-z\-]{10,255}"),  # Slack
    ("hooks.slack.com/", r"(?<=hooks\.slack\.com/services/)T[A-Z0-9]{8,12}/B[A-Z0-9]{8,12}/[A-Za-z0-9]{20,32}"),
    ("AIza", r"AIza[0-9A-Za-z_\-]{35}"),  # Google
    ("GOCSPX-", r"GOCSPX-[0-9A-Za-z_\-]{28}"),
    ("sk-", r"sk-(?=[A-Za-z_\-]{0,64}[0-9])[A-Za-z0-9_\-]{32,255}"),
    ("_live_", r"[sr]k_live_[0-9A-Za-z]{24,255}"),  # Stripe
    ("SG.", r"SG\.[A-Za-z0-9_\-]{22}\.[A-Za-z0-9_\-]{43}"),  # SendGrid
    ("dop_v1_", r"dop_v1_[a-f0-9]{64}"),  # DigitalOcean
    (":AA", r"[0-9]{8,10}:AA[A-Za-z0-9_\-]{33}"),  # Telegram
    ("eyJ", r"eyJ[A-Za-z0-9_\-]{10,4096}+\.eyJ[A-Za-z0-9_\-]{10,8192}+\.[A-Za-z0-9_\-]{10,2048}+"),  # JWT
]
# Searching every text for every string of `_TOKENS` would take most of the time of `find_keys`. So a text is first
# searched for characters that are rare: `_`, and the characters of this pattern.
_RARE = re.compile(r"K(?<=AK)IA|SIA(?<=ASIA)|x(?<=xox)|z(?<=AIz)a|X(?<=GOCSPX)-|G(?<=SG)\.|k(?<=sk)-|J(?<=eyJ)")
_READY = [(mark, re.compile(rf"(?<![A-Za-z0-9_\-]){form}(?![A-Za-z0-9_\-])")) for mark, form in _TOKENS]

_RARE_MARKS = frozenset(["AKIA", "ASIA", "xox", "AIza", "GOCSPX-", "SG.", "sk-", "eyJ"])

_BLOCK = re.compile(r"-----(BEGIN|END) (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_BLOCK_CHARACTERS = 16384
"""Maximum number of characters of a key block. An RSA key of 16,384 bits takes 12,800 characters."""
# The outer group is not possessive: before Python 3.11.5, a possessive group can lose the end of its last repetition.
_BLOCK_LINES = re.compile(r"(?:[ \t]*+\r?\n[ \t]*+[A-Za-z0-9+/=]{32,}+)+")

# A quoted value, or one before white space as in `.env` files. The name before the value is checked separately.
_CHARACTERS = r"[A-Za-z0-9+/_.\-]"
_QUOTED = rf"[ \t]{{0,4}}[\"']({_CHARACTERS}{{16,255}}+={{0,2}})[\"']"
_VALUES = [re.compile(rf"={_QUOTED}|=({_CHARACTERS}{{20,255}}+={{0,2}})(?=\s|\Z)"), re.compile(f":{_QUOTED}")]
_NAME = re.compile(
    r"(?:api|access|secret|private|auth|account|encryption|signing|client|app|consumer)[_\-.]?(?:key|token|secret)"
    r"(?:[_\-.]?(?:id|base64|value))?[\"'\])]{0,2}[ \t:]{0,4}\Z"
    r"|(?:secret|token|password|passwd|pwd)[\"'\])]{0,2}[ \t:]{0,4}\Z",
    re.IGNORECASE,
)
_NAME_CHARACTERS = 40
_LEAST_ENTROPY = 3.5
"""Least entropy of a secret, in bits per character. Names and words stay below 3.3. In 32 characters, random
hexadecimal digits reach 3.6 and base64 reaches 4.5."""


def find_keys(passage: Passage) -> Iterator[Span]:
    """Yield keys and tokens. For `api_key = "value"`, the span is the value alone."""
    text = passage.text
    underscored, rare = "_" in text, bool(_RARE.search(text))
    for mark, form in _READY:
        if (rare if mark in _RARE_MARKS else underscored or "_" not in mark) and mark in text:
            for match in form.finditer(text):
                yield Span(*match.span(), "key")
    if "-----BEGIN" in text:
        yield from _blocks(text)
    for values in _VALUES:
        for match in values.finditer(text):
            value = match.lastindex or 0
            name = text[max(0, match.start() - _NAME_CHARACTERS) : match.start()]
            if _NAME.search(name) and _is_random(match.group(value)):
                yield Span(*match.span(value), "key")


def _blocks(text: str) -> Iterator[Span]:
    """Yield blocks of private keys from BEGIN to END. If END is missing, the span ends after the lines of the key."""
    began: re.Match[str] | None = None
    for mark in [*_BLOCK.finditer(text), None]:
        if began:
            lines = _BLOCK_LINES.match(text, began.end())
            if mark and mark.group(1) == "END" and 32 <= mark.start() - began.end() <= _BLOCK_CHARACTERS:
                yield Span(began.start(), mark.end(), "key")
            elif lines:
                yield Span(began.start(), lines.end(), "key")
        began = mark if mark and mark.group(1) == "BEGIN" else None


def _is_random(value: str) -> bool:
    """Return whether a value looks random. Names, paths, versions and `your_key_here` do not."""
    digits = sum(map(str.isdigit, value))
    if digits < 3 or digits == len(value) or value.count(".") > 1 or value.count("/") > 3:
        return False
    counts = Counter(value).values()
    return -sum(count / len(value) * math.log2(count / len(value)) for count in counts) >= _LEAST_ENTROPY
