"""`bloomery publish`: thin verbs over `export.publish`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Push the model to a Hub or a folder.")


@app.callback()
def _root() -> None:
    """Keep `run` a verb of its own though it is the only one."""


@app.command("run")
def run(
    config: Annotated[
        Path, typer.Option(help="The publishing's part of the configuration (runs/<name>/config/publish.json).")
    ],
    run: Annotated[Path, typer.Option(help="Folder of the run.")],
    output: Annotated[Path, typer.Option(help="publish.json; without a Hub the copy lies beside it.")],
) -> None:
    """Publish the verified model; a second time there is nothing to do. The logs: `bloomery sync`."""
    from bloomery.config.stages import PublishStage, read_stage
    from bloomery.contracts.paths import RunPaths
    from export.publish import publish_run

    publish_run(read_stage(config, PublishStage), RunPaths(run), output)
    print(output)
