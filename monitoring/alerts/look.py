"""Look at a run once: gather the facts, raise and end alerts, deliver messages, and write PULSE line and heartbeat."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from bloomery.base.atomic import known_error
from bloomery.base.errors import BloomeryError
from bloomery.config.alerts import AlertsConfig
from bloomery.contracts.paths import RunPaths
from bloomery.detect.finding import Finding
from monitoring.alerts.advice import Advice, advise
from monitoring.alerts.channels import Channel, channels
from monitoring.alerts.deliver import deliver
from monitoring.alerts.facts import RunFacts, gather_facts, read_settings
from monitoring.alerts.heartbeat import beat
from monitoring.alerts.ledger import advance, register
from monitoring.alerts.observe import Look, observe, unreadable
from monitoring.alerts.pulse import append_pulse, pulse_line, time_text, unknown_pulse
from monitoring.alerts.state import AlertState, alert_lock, read_alert_state, write_alert_state
from monitoring.status import RunState


@dataclass(frozen=True)
class Looked:
    """Result of a look."""

    pulse: str
    """The PULSE line."""
    finished: bool
    """Whether the run has finished, so that no more looks are needed."""


def look_once(
    paths: RunPaths,
    now: float,
    *,
    of_workflow: bool = False,
    environment: Mapping[str, str] = os.environ,
    wait_seconds: float = 0.0,
) -> Looked:
    """Look at a run at the time `now`, in seconds of the Unix epoch.

    If the files of the run cannot be read, this is reported as a condition.

    Args:
        paths: paths of the run.
        now: the time.
        of_workflow: whether a workflow started this watcher. The watcher then ends with the workflow, so its looks show
            that the workflow lives.
        environment: environment variables with the URLs of receivers.
        wait_seconds: maximum time to wait for another watcher that looks at the run now.

    Raises:
        TryAgainError: another watcher looks at the run now, or the file server does not respond.
        ResourceError: the run's folder cannot be written.
    """
    with alert_lock(paths, wait_seconds):
        state = read_alert_state(paths)
        facts, settings, look = _observe(paths, now, state)
        ways: dict[str, Channel] = channels(paths, settings, environment)
        time = time_text(now)

        def complete(finding: Finding) -> Advice:
            return advise(finding, facts) if facts is not None else Advice("", "", f"bloomery status --run {paths.run}")

        if settings.enabled:
            register(state, ways, now)
            advance(state, look, settings, now=now, run=paths.run.as_posix(), time=time, advise=complete)
        state.looked = now
        state.workflow_looked = now if of_workflow else state.workflow_looked
        write_alert_state(paths, state)
        line = _line(paths, facts, look, time, active_keys(state))
        append_pulse(paths, line)
        beat(settings, line, environment)
        if settings.enabled:
            deliver(state, ways, settings, now=now, save=lambda: write_alert_state(paths, state))
            write_alert_state(paths, state)
    return Looked(line, facts is not None and facts.status.state is RunState.FINISHED)


def active_keys(state: AlertState) -> list[str]:
    """Return the keys of the alerts that hold now and were sent."""
    return sorted(key for key, alert in state.alerts.items() if alert.sent is not None)


def _observe(paths: RunPaths, now: float, state: AlertState) -> tuple[RunFacts | None, AlertsConfig, Look]:
    """Return the facts about the run, None if they cannot be read; the settings; and the conditions that hold."""
    try:
        settings = read_settings(paths).alerts
    except BloomeryError:
        settings = AlertsConfig()
    try:
        facts = gather_facts(paths, now, workflow_look=state.workflow_looked)
    except (BloomeryError, OSError) as error:
        known = known_error(error)
        if known is None:
            raise
        return None, settings, unreadable(str(known))
    return facts, settings, observe(facts)


def _line(paths: RunPaths, facts: RunFacts | None, look: Look, time: str, active: list[str]) -> str:
    if facts is None:
        return unknown_pulse(paths.run.name, time, look.findings[0].what)
    return pulse_line(facts.status, time, active)
