"""Send one message with apprise: `python -m monitoring.alerts.send_service`, with the message and the URL as JSON on
its standard input.

The URL is a secret. It is neither an argument nor an environment variable of this process, and no output contains it.
"""

from __future__ import annotations

import json
import logging
import re
import sys

_KINDS = {"info": "info", "warning": "warning", "critical": "failure"}


class _Reasons(logging.Handler):
    """Collect why a service refused a message: HTTP codes and names of errors. Texts are dropped, because they may
    contain parts of the URL."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the codes of one line."""
        text = record.getMessage()
        self.found += [f"HTTP status {code}" for code in re.findall(r"error[ =:(]+([1-5]\d\d)\b", text)]
        self.found += re.findall(r"\b(?:[A-Z][A-Za-z]+(?:Error|Timeout|Refused)|Connection refused|timed out)\b", text)


def main() -> int:
    """Send the message. Return 0 if the service accepted it."""
    value = json.load(sys.stdin)
    try:
        import apprise
    except ImportError:
        print("the package apprise is not installed (pip install apprise)", file=sys.stderr)
        return 1
    reasons = _Reasons()
    logger = logging.getLogger("apprise")
    logger.handlers, logger.propagate = [reasons], False
    logger.setLevel(logging.DEBUG)
    # Other packages, such as that of HTTP, log the addresses that they call.
    logging.getLogger().handlers = [logging.NullHandler()]
    kind = "success" if value["event"] == "recovery" else _KINDS[value["severity"]]
    try:
        service = apprise.Apprise(asset=apprise.AppriseAsset(app_id="Bloomery", secure_logging=True))
        if not service.add(value["url"]):
            print("apprise does not understand the URL", file=sys.stderr)
            return 1
        sent = service.notify(title=value["title"], body=value["text"], notify_type=kind, body_format="text")
    except Exception as error:
        # The message of an exception may contain the URL.
        print(type(error).__name__, file=sys.stderr)
        return 1
    if not sent:
        print(", ".join(dict.fromkeys(reasons.found)) or "the service refused the message", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
