"""`bloomery publish`: the command line of `export.publish`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Publish the model to a Hub or a folder.")


@app.callback()
def _root() -> None:
    """Keep `run` as a subcommand, although it is the only one."""


@app.command("run")
def run(
    config: Annotated[
        Path, typer.Option(help="The section of the configuration on publishing (runs/<name>/config/publish.json).")
    ],
    run: Annotated[Path, typer.Option(help="Folder of the run.")],
    output: Annotated[
        Path, typer.Option(help="Report to write (publish.json). Without a Hub, the model is copied beside it.")
    ],
) -> None:
    """Publish the verified model. A second call changes nothing. `bloomery sync` publishes the logs."""
    from bloomery.config.stages import PublishStage, read_stage
    from bloomery.contracts.paths import RunPaths
    from export.publish import publish_run

    publish_run(read_stage(config, PublishStage), RunPaths(run), output)
    print(output)
