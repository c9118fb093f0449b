"""`bloomery watch`: the command line of `monitoring.sync_loop`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Push the logs of a run to a Hub every few minutes.", add_completion=False)


@app.command()
def watch(
    run: Annotated[Path, typer.Option(help="Folder of the run, such as runs/sample.")],
    every: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            help="Minutes from the start of one sync to the start of the next (default: publish.sync_minutes).",
        ),
    ] = None,
    retry_seconds: Annotated[
        float, typer.Option(min=0, help="Seconds for which calls to the Hub are retried while it is unavailable.")
    ] = 60.0,
    until_stopped: Annotated[
        bool, typer.Option(help="Continue to sync after the training has ended, until a signal stops the command.")
    ] = False,
) -> None:
    """Push the logs of a run to a Hub every few minutes, until the training has ended and all its logs are pushed.

    After the signal TERM or INT, sync once more and end.
    """
    from bloomery.base.errors import ConfigError
    from bloomery.base.hub_access import why_local
    from bloomery.contracts.paths import RunPaths
    from monitoring.sync_loop import SyncLoop
    from monitoring.sync_run import read_publish_stage

    paths = RunPaths(run)
    reason = why_local(hub=read_publish_stage(paths).publish.hub)
    if reason is not None:
        raise ConfigError(
            f"no Hub is configured: {reason}",
            where=str(run),
            expected="publish.hub: true, and an endpoint and a token of a Hub, as docs/how-to/export.md describes",
        )
    every_seconds = None if every is None else 60 * every
    SyncLoop(paths, every_seconds, until_stopped=until_stopped, retry_seconds=retry_seconds).run()
