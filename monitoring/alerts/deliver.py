"""Deliver the pending messages of a run. A receiver that fails is tried again later, and does not block the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bloomery.base.errors import BloomeryError
from bloomery.base.progress import say
from bloomery.base.times import utc_now
from bloomery.config.alerts import AlertsConfig
from monitoring.alerts.channels import Channel, reason_of
from monitoring.alerts.state import AlertState, Receiver

_LONGEST_WAIT_SECONDS = 3600.0


def deliver(
    state: AlertState,
    ways: Mapping[str, Channel],
    settings: AlertsConfig,
    *,
    now: float,
    save: Callable[[], None],
) -> None:
    """Send each pending message to those of its receivers that this process can reach, oldest first.

    A receiver gets its messages in order: after a failure, its later messages wait too.

    Args:
        state: state that is changed.
        ways: channels of the receivers that this process can reach, by name.
        settings: settings of the alerts.
        now: time of the look in seconds of the Unix epoch.
        save: function that writes the state. It is called after each delivery and each failure.
    """
    for message in state.messages:
        for name in [name for name in message.pending if name in ways]:
            receiver = state.receivers.setdefault(name, Receiver(seen=now))
            if receiver.next_try > now:
                continue
            try:
                ways[name].send(message, settings.send_seconds)
            except BloomeryError as error:
                receiver.failures += 1
                receiver.error = reason_of(error)
                wait = 60 * settings.retry_minutes * 2.0 ** min(receiver.failures - 1, 20)
                receiver.next_try = now + min(_LONGEST_WAIT_SECONDS, wait)
                say(f"{utc_now()} message {message.id} was not delivered to {name}: {receiver.error}")
            else:
                message.pending.remove(name)
                receiver.failures, receiver.next_try, receiver.error = 0, 0.0, ""
            save()
    known = state.receivers.keys()
    state.messages = [message for message in state.messages if set(message.pending) & known]
