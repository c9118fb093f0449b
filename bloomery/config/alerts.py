"""The section `alerts` of the configuration: what `bloomery watch` reports, who receives it, and the limits."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from bloomery.config.section import NotBool, Section, Share

Minutes = Annotated[float, Field(gt=0), NotBool]
"""A time in minutes."""


def _variable(value: str) -> str:
    # The message does not repeat the value, because a user may have written a URL with a secret here.
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        raise ValueError("the name of an environment variable (letters, digits, `_`), not the URL itself")
    return value


Variable = Annotated[str, AfterValidator(_variable)]
"""Name of an environment variable. Its value may be secret, so it is never part of the configuration."""


class AlertLimits(Section):
    """Limits beyond which a condition of a run is reported. The defaults suit most runs."""

    stall_minutes: Minutes = 30.0
    """A training that runs is reported if it completes no iteration for this many minutes and for 10 times its usual
    iteration. Choose more than the time of the longest start, save or validation."""
    slower_by: Share = 0.2
    """The training is reported as slow if its speed is lower by this share than its own best speed with the same batch
    size and sequence length. Speeds are medians over 64 iterations."""
    slow_rank_by: Annotated[float, Field(gt=0), NotBool] = 0.1
    """A rank is reported as slow if it is the slowest one in 90 % of 50 iterations, and the ratio of its time to that
    of the fastest rank has grown by this fraction. The ratio is compared with its lowest earlier value."""
    spike_iterations: Annotated[int, Field(ge=2, le=16), NotBool] = 3
    """A spike is reported if at least this many of 16 successive iterations have a gradient norm or a loss far above
    the usual values (`training.guards.spike`). Single outliers are not reported."""
    validation_rise: Annotated[float, Field(gt=0), NotBool] = 0.05
    """A validation set, such as a language, is reported if its loss is above its lowest loss by this fraction in two
    successive validations."""
    loss_scale_fall: Annotated[float, Field(gt=1), NotBool] = 64.0
    """The loss scale (fp16) is reported if it is smaller than its median over 512 iterations by this factor."""
    checkpoint_minutes: Minutes = 60.0
    """A checkpoint is reported as overdue if it is not complete this many minutes after the iteration in which it was
    due."""
    disk_days: Annotated[float, Field(ge=0), NotBool] = 3.0
    """The disk is reported if it will be full within this many days, and before the end of the training. The forecast
    uses the size of the checkpoints that are kept, their interval, the size of the logs, and the speed of the
    training."""
    sync_minutes: Minutes = 60.0
    """The logs on the Hub are reported if no sync has succeeded for this many minutes (at least 3 times
    `publish.sync_minutes`). Only runs that have synced before, or have tried to, are reported."""
    idle_minutes: Minutes = 10.0
    """A run that is neither finished nor stopped by a person is reported if it has been neither running nor queued for
    this many minutes."""
    queue_hours: Annotated[float, Field(gt=0), NotBool] = 24.0
    """A training job that has waited in the queue for this many hours is reported."""
    scheduler_minutes: Minutes = 15.0
    """A scheduler that does not answer for this many minutes is reported."""


class AlertsConfig(Section):
    """Alerts about a run that needs a person. `bloomery watch` looks at the run's files and at the queue, and sends a
    message when a condition begins and when it ends."""

    enabled: bool = True
    """If false, `bloomery watch` raises no alerts. PULSE lines and the heartbeat continue."""
    every_seconds: Annotated[float, Field(ge=0.05, le=86_400), NotBool] = 60.0
    """Seconds between two looks at the run."""
    urls_from: Annotated[list[Variable], Field(examples=[["BLOOMERY_ALERT_URLS", "TEAM_CHAT_URL"]])] = [
        "BLOOMERY_ALERT_URLS"
    ]
    """Names of environment variables. The value of each variable is a list of URLs of the package apprise, separated by
    spaces: `slack://...`, `discord://...`, `mailto://...`, `json://...` and many more. Each URL receives every message.
    A variable that is not set is ignored."""
    command: Annotated[list[str], Field(examples=[["/usr/local/bin/page-me", "--urgent"]])] = []
    """Program and arguments that are run for each message, without a shell. The program receives the message as JSON on
    its standard input. Default (an empty list): no program."""
    file: Annotated[str | None, Field(examples=["/shared/alerts/all-runs.jsonl"])] = None
    """Path of a file to which each message is appended as a line of JSON. Several runs may share the file. Default
    (null): only the run's own `alerts/alerts.jsonl` is written."""
    least_severity: Literal["info", "warning", "critical"] = "warning"
    """Least severity of the alerts that are sent. Alerts of all severities are recorded in `alerts/alerts.jsonl`."""
    cooldown_minutes: Annotated[float, Field(ge=0), NotBool] = 60.0
    """If an alert ends and begins again, it is sent only if it still holds this many minutes after its end. So a
    condition that comes and goes sends few messages."""
    repeat_hours: Annotated[float, Field(ge=0), NotBool] = 24.0
    """A critical alert that nobody acknowledged (`bloomery alerts ack`) is sent again after this many hours. 0: never
    again."""
    send_seconds: Annotated[float, Field(gt=0, le=600), NotBool] = 30.0
    """Time limit in seconds for sending one message to one receiver."""
    retry_minutes: Minutes = 1.0
    """Minutes until a message that a receiver did not accept is sent to it again. The time doubles with each failure,
    up to one hour. A message is dropped after 7 days."""
    heartbeat_file: Annotated[str | None, Field(examples=["/shared/heartbeats/my-run"])] = None
    """Path of a file that is written at each look. A monitor outside of Bloomery can report if the file becomes too
    old, because then no watcher looks at the run. Default (null): no file."""
    heartbeat_url_from: Variable | None = "BLOOMERY_HEARTBEAT_URL"
    """Name of the environment variable whose value is an HTTP(S) URL that is requested at each look. Use the URL of a
    service that reports missing requests. A variable that is not set is ignored. null: no request."""
    limits: AlertLimits = AlertLimits()
    """Limits beyond which a condition is reported."""

    @property
    def secret_variables(self) -> list[str]:
        """Names of the environment variables whose values are secret."""
        return [*self.urls_from, *([self.heartbeat_url_from] if self.heartbeat_url_from is not None else [])]
