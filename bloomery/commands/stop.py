"""`bloomery stop`: let the training of a run save and end, and end the run's workflow."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Let the training save and end, and end the workflow of a run.", add_completion=False)


@app.command()
def stop(
    run: Annotated[Path, typer.Argument(help="Folder of the run, such as runs/sample.")],
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait until the training and the workflow have ended.")
    ] = True,
) -> None:
    """Stop a run. A training saves a checkpoint after its current iteration and ends. Then the workflow ends too.

    To resume the run, use `bloomery run CONFIG --resume`. Without --resume, that command starts nothing after a stop.
    So a cron job does not start a stopped run again.
    """
    from bloomery.base.progress import say
    from bloomery.contracts.paths import RunPaths
    from bloomery.orchestration.prepare_run import check_run
    from bloomery.orchestration.stop_run import ask_to_stop, wait_until_stopped

    check_run(run)
    paths = RunPaths(run)
    for line in ask_to_stop(paths):
        say(line)
    if wait:
        wait_until_stopped(paths)
        say(f"{run}: stopped; resume it with `bloomery run CONFIG --resume`")
