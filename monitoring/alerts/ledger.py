"""Turn the conditions that hold now into messages: when an alert begins, worsens, repeats and ends.

The functions change an `AlertState`, and read no clock and no file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

from bloomery.base.units import format_seconds
from bloomery.config.alerts import AlertsConfig
from bloomery.detect.finding import Finding, Severity
from monitoring.alerts.advice import PAGE, Advice, title_of
from monitoring.alerts.observe import Look
from monitoring.alerts.state import Alert, AlertState, Message, Receiver

LOG_RECEIVER = "alerts.jsonl"
"""Name of the receiver of every message: the run's own list of messages."""
_FORGOTTEN_SECONDS = 7 * 86_400.0
"""Time after which an undelivered message is dropped. A receiver that no watcher had for this long is forgotten."""

Event = Literal["alert", "worse", "repeat", "recovery", "test"]


def register(state: AlertState, receivers: Iterable[str], now: float) -> None:
    """Record that these receivers exist, and forget those that no watcher had for 7 days."""
    for name in (LOG_RECEIVER, *receivers):
        state.receivers.setdefault(name, Receiver(seen=now)).seen = now
    forgotten = [name for name, each in state.receivers.items() if now - each.seen > _FORGOTTEN_SECONDS]
    for name in forgotten:
        del state.receivers[name]


def advance(
    state: AlertState,
    look: Look,
    settings: AlertsConfig,
    *,
    now: float,
    run: str,
    time: str,
    advise: Callable[[Finding], Advice],
) -> None:
    """Add the messages that follow from a look to the state.

    Args:
        state: state that is changed.
        look: conditions that hold now.
        settings: settings of the alerts.
        now: time of the look in seconds of the Unix epoch. It is also the time of the messages.
        run: folder of the run.
        time: the same time as UTC text.
        advise: function that completes a finding for people.
    """

    def send(event: Event, key: str, alert: Alert, ended: str = "") -> None:
        state.count += 1
        loud = Severity(alert.severity).rank >= Severity(settings.least_severity).rank
        message = Message(
            id=state.count,
            event=event,
            key=key,
            severity=alert.severity,
            run=run,
            time=time,
            at=now,
            title=_title(event, run, alert),
            text=_text(event, run, alert, ended=ended, now=now),
            pending=[*state.receivers] if loud else [LOG_RECEIVER],
        )
        state.messages.append(message)

    for finding in look.findings:
        _hold(state, finding, advise(finding), settings, now, send)
    held = {finding.key for finding in look.findings}
    for key, alert in list(state.alerts.items()):
        if key in held or alert.kind in look.unknown:
            continue
        if alert.sent is not None:
            send("recovery", key, alert, look.ended)
            alert.ended = now
        alert.since = alert.sent = alert.acknowledged = None
        if alert.ended is None or now - alert.ended >= 60 * settings.cooldown_minutes:
            del state.alerts[key]
    state.messages = [each for each in state.messages if now - each.at < _FORGOTTEN_SECONDS]


def _hold(
    state: AlertState,
    finding: Finding,
    advice: Advice,
    settings: AlertsConfig,
    now: float,
    send: Callable[[Event, str, Alert], None],
) -> None:
    """Update the alert of a condition that holds now, and send a message if one is due."""
    key = finding.key
    alert = state.alerts.setdefault(key, Alert(kind=finding.kind, severity=finding.severity.value, what=finding.what))
    worse = finding.severity.rank > Severity(alert.severity).rank
    alert.since = now if alert.since is None else alert.since
    alert.severity, alert.what = finding.severity.value, finding.what
    alert.where, alert.done, alert.command = advice.where, advice.done, advice.command
    if alert.sent is None:
        cooled = alert.ended is None or now - alert.ended >= 60 * settings.cooldown_minutes
        if cooled and now - alert.since >= finding.hold_seconds:
            send("alert", key, alert)
            alert.sent = now
    elif worse:
        send("worse", key, alert)
        alert.sent, alert.acknowledged = now, None
    elif (
        finding.severity is Severity.CRITICAL
        and alert.acknowledged is None
        and 0 < 3600 * settings.repeat_hours <= now - alert.sent
    ):
        send("repeat", key, alert)
        alert.sent = now


def acknowledge(state: AlertState, key: str, who: str) -> bool:
    """Record that a person knows of an alert. Return false if no such alert holds now."""
    alert = state.alerts.get(key)
    if alert is None or alert.since is None:
        return False
    alert.acknowledged = who
    return True


_PREFIXES = {"worse": "worse: ", "repeat": "still: ", "recovery": "ended: "}


def _title(event: Event, run: str, alert: Alert) -> str:
    name = run.rstrip("/").rsplit("/", 1)[-1]
    severity = "ok" if event == "recovery" else alert.severity
    return f"[{severity}] {name}: {_PREFIXES.get(event, '')}{title_of(alert.kind)}"


def _text(event: Event, run: str, alert: Alert, *, ended: str, now: float) -> str:
    """Return the text of a message, with one fact in each line."""
    if event == "recovery":
        lasted = format_seconds(now - alert.since) if alert.since is not None else "some time"
        lines = [f"Ended: {ended or 'the condition does not hold any more.'}"]
        lines += [f"It lasted {lasted}. The alert was: {alert.what}", f"Run: {run}"]
        return "\n".join(lines)
    lines = [f"What happened: {alert.what}"]
    lines += [f"Where: {alert.where}"] if alert.where else []
    lines += [f"What was done: {alert.done}"] if alert.done else []
    lines += [f"What to type: {alert.command}"] if alert.command else []
    lines += [f"Run: {run}", f"More: {PAGE}#{alert.kind}"]
    return "\n".join(lines)
