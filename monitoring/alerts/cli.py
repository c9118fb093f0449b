"""`bloomery alerts`: list and acknowledge the alerts of a run, and test the receivers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="List and acknowledge the alerts of a run, and test the receivers.", no_args_is_help=True)

Run = Annotated[Path, typer.Option(help="Folder of the run, such as runs/sample.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]


@app.command("list")
def list_alerts(run: Run, as_json: AsJson = False) -> None:
    """List the alerts that hold now, and the receivers that failed."""
    from bloomery.base.atomic import dump_json
    from bloomery.base.print_table import print_table
    from bloomery.contracts.paths import RunPaths
    from bloomery.orchestration.prepare_run import check_run
    from monitoring.alerts.pulse import time_text
    from monitoring.alerts.state import read_alert_state

    check_run(run)
    state = read_alert_state(RunPaths(run))
    active = {key: alert for key, alert in sorted(state.alerts.items()) if alert.sent is not None}
    failing = {name: each for name, each in sorted(state.receivers.items()) if each.failures}
    looked = time_text(state.looked) if state.looked else None
    if as_json:
        alerts = [{"key": key, **alert.model_dump(mode="json", exclude={"ended"})} for key, alert in active.items()]
        receivers = {name: {"failures": each.failures, "error": each.error} for name, each in failing.items()}
        document = {"run": run.as_posix(), "looked": looked, "alerts": alerts, "failing_receivers": receivers}
        print(dump_json(document), end="")
        return
    rows = [("last look", looked or "never; start a workflow, or type: bloomery watch --run " + run.as_posix())]
    rows += [("alerts", "none")] if not active else []
    for key, alert in active.items():
        since = f"since {time_text(alert.since)}" if alert.since is not None else ""
        known = f", acknowledged by {alert.acknowledged}" if alert.acknowledged else ""
        place = f" Where: {alert.where}." if alert.where else ""
        rows.append((key, f"{alert.severity} {since}{known}: {alert.what}{place}"))
    for name, each in failing.items():
        rows.append((name, f"this receiver failed {each.failures} times: {each.error}"))
    print_table(("", ""), rows, title=run.as_posix())


@app.command()
def ack(
    run: Run,
    keys: Annotated[
        list[str], typer.Argument(metavar="KEY...", help="Keys of alerts, as `bloomery alerts list` shows them.")
    ],
    by: Annotated[str | None, typer.Option(help="Name of the acknowledging person. Default: the user's name.")] = None,
    as_json: AsJson = False,
) -> None:
    """Acknowledge alerts, so that they are not sent again while they hold. A message is still sent when they end."""
    import getpass

    from bloomery.base.atomic import dump_json
    from bloomery.base.errors import InputError
    from bloomery.contracts.paths import RunPaths
    from bloomery.orchestration.prepare_run import check_run
    from monitoring.alerts.ledger import acknowledge
    from monitoring.alerts.look import active_keys
    from monitoring.alerts.state import alert_lock, read_alert_state, write_alert_state

    check_run(run)
    paths, who = RunPaths(run), by or getpass.getuser()
    with alert_lock(paths, wait_seconds=120.0):
        state = read_alert_state(paths)
        unknown = [key for key in keys if not acknowledge(state, key, who)]
        if unknown:
            held = ", ".join(active_keys(state))
            raise InputError(
                f"no such alert holds now: {', '.join(unknown)}",
                where=run.as_posix(),
                expected=f"one of the alerts that hold: {held}"
                if held
                else "a key that `bloomery alerts list` shows; it shows none",
            )
        write_alert_state(paths, state)
    if as_json:
        print(dump_json({"acknowledged": keys, "by": who}), end="")
    else:
        print(f"acknowledged by {who}: {', '.join(keys)}")


@app.command("test")
def send_test_message(run: Run, as_json: AsJson = False) -> None:
    """Send a test message to every receiver, and request the heartbeat's URL. Report each result.

    The exit code is 1 if a receiver failed.
    """
    import os

    from bloomery.base.atomic import dump_json
    from bloomery.base.print_table import print_table
    from bloomery.contracts.paths import RunPaths
    from bloomery.orchestration.prepare_run import check_run
    from monitoring.alerts.facts import read_settings
    from monitoring.alerts.trial import send_test

    check_run(run)
    paths = RunPaths(run)
    results = send_test(paths, read_settings(paths).alerts, os.environ)
    if as_json:
        rows = [{"receiver": each.receiver, "delivered": each.error is None, "error": each.error} for each in results]
        print(dump_json({"run": run.as_posix(), "receivers": rows}), end="")
    else:
        print_table(
            ("receiver", "result"),
            [(each.receiver, "delivered" if each.error is None else f"failed: {each.error}") for each in results],
        )
    if any(each.error is not None for each in results):
        raise typer.Exit(1)
