"""Settings of the access to a Hub, read from the environment: the endpoint, the token and the timeout."""

from __future__ import annotations

import os

from bloomery.base.errors import ConfigError

TIMEOUT_VARIABLE = "BLOOMERY_HUB_TIMEOUT"
"""Environment variable that sets the timeout of a call to the Hub, in seconds. After this time without a response, the
call is aborted and retried."""
_TIMEOUT_SECONDS = 60.0


def find_token() -> str | None:
    """Return the token of HF_TOKEN or of `hf auth login`. Return None if there is no token."""
    from huggingface_hub import get_token

    token: str | None = get_token()
    return token


def is_offline() -> bool:
    """Return whether HF_HUB_OFFLINE forbids all calls."""
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)


def why_local(*, hub: bool) -> str | None:
    """Return the reason why nothing is published on a Hub, or None if a Hub is configured.

    `hub` is the configuration's `publish.hub`. HF_ENDPOINT must be set too: a cached token alone does not enable
    publishing.
    """
    if not hub:
        return "publish.hub is false"
    if "HF_ENDPOINT" not in os.environ:
        return "HF_ENDPOINT is not set"
    if is_offline():
        return "HF_HUB_OFFLINE is set"
    return "HF_TOKEN is not set" if find_token() is None else None


def read_timeout_seconds() -> float:
    """Return the value of BLOOMERY_HUB_TIMEOUT in seconds, or the default.

    Raises:
        ConfigError: the value is not a positive number.
    """
    text = os.environ.get(TIMEOUT_VARIABLE) or str(_TIMEOUT_SECONDS)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ConfigError(
            f"the value {text!r} is not valid", where=TIMEOUT_VARIABLE, expected="a number of seconds above 0"
        )
    return seconds
