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
    result: Annotated[
        Path,
        typer.Option(
            help="File that records the publication (runs/<name>/results/publish/<model>.json). The list of published "
            "files is then in runs/<name>/published/publish.json. Without a Hub, a copy of the model is beside this "
            "list."
        ),
    ],
) -> None:
    """Publish the exported and verified model. A second call changes nothing. `bloomery sync` publishes the logs."""
    from bloomery.config.stages import PublishStage, read_stage
    from bloomery.contracts.paths import RunPaths
    from bloomery.contracts.result import Place
    from export.publish import REPORT_NAME, publish_run

    place = Place.of(result)
    publish_run(read_stage(config, PublishStage), RunPaths(run), place)
    print(place.shown / REPORT_NAME)
