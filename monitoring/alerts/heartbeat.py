"""Show a monitor outside of Bloomery that a watcher still looks at a run (a dead-man's switch).

Each look writes a file or requests a URL. If the looks end, for example because the login node died, the outside
monitor notices that the file is too old or that the requests are missing.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from bloomery.base.atomic import write_text
from bloomery.base.errors import BloomeryError
from bloomery.base.progress import say
from bloomery.base.times import utc_now
from bloomery.config.alerts import AlertsConfig


def beat(settings: AlertsConfig, line: str, environment: Mapping[str, str]) -> None:
    """Write the heartbeat's file and request its URL. Failures are only reported, without the URL.

    Args:
        settings: settings of the alerts.
        line: content of the file, such as the PULSE line.
        environment: environment variables, one of which may contain the URL.
    """
    if settings.heartbeat_file is not None:
        try:
            write_text(Path(settings.heartbeat_file), line + "\n")
        except BloomeryError as error:
            say(f"{utc_now()} the heartbeat's file was not written: {error}")
    variable = settings.heartbeat_url_from
    url = environment.get(variable, "").strip() if variable is not None else ""
    if url:
        reason = request(url, settings.send_seconds)
        if reason is not None:
            say(f"{utc_now()} the heartbeat's URL ({variable}) was not reached: {reason}")


def request(url: str, seconds: float) -> str | None:
    """Request an HTTP or HTTPS URL. Return None if the answer is a success, otherwise the reason without the URL."""
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        return "it is not an HTTP or HTTPS URL"
    try:
        with urllib.request.urlopen(url, timeout=seconds) as answer:
            answer.read(1024)
    except urllib.error.HTTPError as error:
        return f"HTTP status {error.code}"
    except (OSError, ValueError, http.client.HTTPException) as error:
        # The message of an error may contain parts of the URL.
        return type(getattr(error, "reason", error)).__name__
    return None
