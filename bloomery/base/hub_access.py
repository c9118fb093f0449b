"""Whether a Hub may be used, by what token, and how long it may be silent: what the environment says."""

from __future__ import annotations

import os

from bloomery.base.errors import ConfigError

TIMEOUT_VARIABLE = "BLOOMERY_HUB_TIMEOUT"
"""Seconds of silence after which a call is given up and tried again."""
_TIMEOUT_SECONDS = 60.0


def find_token() -> str | None:
    """The token of HF_TOKEN or of `hf auth login`; None when there is none."""
    from huggingface_hub import get_token

    token: str | None = get_token()
    return token


def is_offline() -> bool:
    """Whether HF_HUB_OFFLINE forbids any call."""
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)


def why_local(*, hub: bool) -> str | None:
    """Why nothing goes to a Hub; None when one is configured. `hub` is the configuration's `publish.hub`.

    The endpoint must be named too: a token that lies in a home folder is no wish to publish.
    """
    if not hub:
        return "publish.hub is false"
    if "HF_ENDPOINT" not in os.environ:
        return "HF_ENDPOINT is not set"
    if is_offline():
        return "HF_HUB_OFFLINE is set"
    return "HF_TOKEN is not set" if find_token() is None else None


def read_timeout_seconds() -> float:
    """BLOOMERY_HUB_TIMEOUT, or the default. Raises ConfigError when it is no positive number."""
    text = os.environ.get(TIMEOUT_VARIABLE) or str(_TIMEOUT_SECONDS)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ConfigError(f"is {text!r}", where=TIMEOUT_VARIABLE, expected="a number of seconds above 0")
    return seconds
