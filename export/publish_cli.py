"""`bloomery publish`: the command line of `export.publish` and `export.publish_checkpoints`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bloomery.base.errors import ConfigError
from export.cli import shard_bytes

app = typer.Typer(
    no_args_is_help=True,
    help="Publish the exported model of a run, and its checkpoints, to a Hub or to a local folder.",
)


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


@app.command("model")
def model(
    run: Annotated[Path, typer.Option(help="Folder of the run, such as runs/<name>.")],
    every: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Also publish the kept checkpoints whose iteration is a multiple of this number. Each one is "
            "exported, proved, and tagged with its name, such as step00001000, on the branch `checkpoints`. The branch "
            "`main` holds the final model.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Print what would be published, where, and who could see it. Nothing is written, here or on the Hub.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --dry-run, print one JSON document on stdout.")] = False,
    max_shard_size: Annotated[
        str, typer.Option(help="Maximum size of a weight file of an exported checkpoint, such as 5GB.")
    ] = "5GB",
) -> None:
    """Publish the exported model, and with --every also checkpoints of the training. A second call sends only what is
    missing or differs, by digest."""
    from bloomery.base.atomic import dump_json
    from bloomery.config.stages import ExportStage, PublishStage, read_stage
    from bloomery.contracts.paths import RunPaths
    from bloomery.contracts.result import RESULTS, Place
    from export.model_bundle import model_bundle
    from export.publication_plan import plan_lines, plan_publication
    from export.publish import REPORT_NAME, publish_bundle, refuse_stale
    from export.publish_checkpoints import publish_checkpoints
    from export.publish_target import find_target
    from export.published_checkpoint import choose_every

    limit = shard_bytes(max_shard_size)
    if as_json and not dry_run:
        raise ConfigError("--json is given without --dry-run", expected="--dry-run --json, or no --json")
    paths = RunPaths(run)
    publish = read_stage(paths.config / "publish.json", PublishStage)
    export = read_stage(paths.config / "export.json", ExportStage)
    refuse_stale(publish, paths)
    bundle, parity = model_bundle(paths.export / publish.model_name, publish.model_repository)
    checkpoints = [] if every is None else choose_every(paths, export.model_name, every, parity.checkpoint)
    target = find_target(publish, bundle)
    if dry_run:
        plan = plan_publication(export, publish, paths, bundle, parity.checkpoint, checkpoints, target)
        print(dump_json(plan.model_dump(mode="json")) if as_json else "\n".join(plan_lines(plan)))
        return
    place = Place.of(paths.run / RESULTS / "publish" / f"{publish.model_name}.json")
    publish_bundle(publish, place, bundle, parity, target)
    print(place.shown / REPORT_NAME)
    found = publish_checkpoints(export, publish, paths, checkpoints, target, max_shard_bytes=limit)
    for name, where in found.items():
        print(f"{name}\t{where}")
