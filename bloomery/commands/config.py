"""`bloomery config`: check and show a run's YAML, and print the reference and the schema of all keys."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    no_args_is_help=True, help="Check or print a run's configuration, or print the reference of all keys."
)

File = Annotated[Path, typer.Argument(help="YAML file of a run, such as config/sample.yaml.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]


@app.command()
def check(
    context: typer.Context,
    file: File,
    data: Annotated[
        bool, typer.Option("--data", help="Also read the first rows of each source of the corpus, and check them.")
    ] = False,
    rows: Annotated[int, typer.Option(min=1, help="Number of rows that --data reads from each source.")] = 1000,
    as_json: Json = False,
) -> None:
    """Validate a run's YAML, report all problems at once (exit code 2), and summarise the run.

    Files and folders that the YAML names must exist. With --data, the first rows of each source
    must fit the configuration too.
    """
    from dataclasses import asdict

    from bloomery.base.atomic import dump_json
    from bloomery.base.print_table import print_table
    from bloomery.base.units import format_bytes
    from bloomery.base.written_values import as_written
    from bloomery.checks.load_config import load_config
    from bloomery.config.load import listed_problems
    from bloomery.orchestration.check_files import file_problems
    from bloomery.spec.batch import describe_batches
    from bloomery.spec.overview import overview

    config = load_config(file)
    if problems := file_problems(config):
        raise listed_problems(problems, str(file))
    found = {}
    if data:
        # The reader of sources belongs to the room data_prep, so `bloomery/cli.py` provides it.
        found = {"data": context.obj("check_data")(config, str(file), rows, show=not as_json)}
    figures = overview(config)
    if as_json:
        print(dump_json({"name": as_written(config.name), **asdict(figures), **found}), end="")
        return
    parallel = config.training.parallel
    layout = f"tensor {parallel.tensor} x pipeline {parallel.pipeline} x data {parallel.data}"
    lines = [
        ("run", f"{config.name}, in {config.root}/"),
        ("sources", ", ".join(f"{source.name} ({source.kind})" for source in config.sources)),
        ("parameters", f"{figures.parameters:,} with {figures.vocabulary_rows:,} embedding rows"),
        ("processes", f"{figures.world_size} = {layout}"),
        ("pipeline stages", " ".join(f"[{stage}]" for stage in figures.stages)),
        ("iterations", f"{figures.iterations:,} ({figures.samples:,} samples, {figures.tokens:,} tokens)"),
        ("global batch", describe_batches(figures.batches)),
        ("model FLOPs", f"{figures.model_flops:.3g}"),
        ("checkpoint", format_bytes(figures.checkpoint_bytes)),
    ]
    print_table(("", ""), [(name, as_written(value)) for name, value in lines])


@app.command()
def show(
    file: File,
    deepspeed: Annotated[
        bool,
        typer.Option(
            "--deepspeed",
            help="Instead of the run's configuration, print the DeepSpeed configuration that is generated from it.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Print a run's configuration with every default, as YAML. Environment variables appear as `${NAME}`."""
    import yaml

    from bloomery.base.atomic import dump_json
    from bloomery.checks.load_config import load_config, written_values

    if deepspeed:
        from bloomery.spec.deepspeed_json import deepspeed_json

        print(dump_json(deepspeed_json(load_config(file).training)), end="")
        return
    value = written_values(file)
    print(dump_json(value) if as_json else yaml.safe_dump(value, sort_keys=False, allow_unicode=True), end="")


@app.command()
def schema() -> None:
    """Print the JSON schema of a run's YAML file, which editors use to check and complete keys."""
    from bloomery.base.atomic import dump_json
    from bloomery.config.key_reference import json_schema

    print(dump_json(json_schema()), end="")


@app.command()
def reference(
    output: Annotated[Path | None, typer.Option(help="Markdown file to write. Default: print the page.")] = None,
) -> None:
    """Print or write the reference of all configuration keys (the page config/README.md)."""
    from bloomery.base.atomic import write_if_changed
    from bloomery.config.key_reference import reference_page

    if output is None:
        print(reference_page(), end="")
    else:
        write_if_changed(output, reference_page())
