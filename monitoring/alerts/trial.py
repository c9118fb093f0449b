"""Send a test message to every receiver of a run's alerts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bloomery.base.errors import BloomeryError
from bloomery.base.times import utc_now
from bloomery.config.alerts import AlertsConfig
from bloomery.contracts.paths import RunPaths
from monitoring.alerts.channels import channels, reason_of
from monitoring.alerts.facts import epoch
from monitoring.alerts.heartbeat import request
from monitoring.alerts.state import Message


@dataclass(frozen=True)
class Delivery:
    """Result of one delivery."""

    receiver: str
    error: str | None
    """Why the delivery failed, without secrets; None if it succeeded."""


def send_test(paths: RunPaths, settings: AlertsConfig, environment: Mapping[str, str]) -> list[Delivery]:
    """Send a test message to each receiver, and request the heartbeat's URL. Return the results.

    Args:
        paths: paths of the run.
        settings: settings of the alerts.
        environment: environment variables with the URLs of receivers.
    """
    time = utc_now()
    message = Message(
        id=0,
        event="test",
        key="test",
        severity="info",
        run=paths.run.as_posix(),
        time=time,
        at=epoch(time),
        title=f"[test] {paths.run.name}: a test message",
        text=f"This is a test message. You need not do anything.\nRun: {paths.run.as_posix()}",
    )
    found = []
    for name, channel in channels(paths, settings, environment).items():
        try:
            channel.send(message, settings.send_seconds)
        except BloomeryError as error:
            found.append(Delivery(name, reason_of(error)))
        else:
            found.append(Delivery(name, None))
    variable = settings.heartbeat_url_from
    if variable is not None and (url := environment.get(variable, "").strip()):
        found.append(Delivery(f"heartbeat ({variable})", request(url, settings.send_seconds)))
    return found
