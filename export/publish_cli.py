"""`bloomery publish`: the command line of `export.publish`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Publish the exported model of a run to a Hub or to a local folder.")


@app.callback()
def _root() -> None:
    """Make Typer require the subcommand `run`, although there is no other subcommand."""


@app.command("run")
def run(
    config: Annotated[Path, typer.Option(help="Configuration of publishing (runs/<name>/config/publish.json).")],
    run: Annotated[Path, typer.Option(help="Folder of the run, such as runs/<name>.")],
    output: Annotated[
        Path,
        typer.Option(
            help="JSON file to write the list of published files to (runs/<name>/published/publish.json). Without a "
            "Hub, the model is copied to the folder of this file."
        ),
    ],
) -> None:
    """Publish the exported and verified model. A second call changes nothing. `bloomery sync` publishes the logs."""
    from bloomery.config.stages import PublishStage, read_stage
    from bloomery.contracts.paths import RunPaths
    from export.publish import publish_run

    publish_run(read_stage(config, PublishStage), RunPaths(run), output)
    print(output)
