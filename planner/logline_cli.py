"""`bloomery logline`: read training logs; compare one with its plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Read log lines; compare a log with its plan.")

Log = Annotated[Path, typer.Argument(help="A log with Megatron's lines, such as logs/main_log.txt.")]


Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


@app.command()
def parse(log: Log, as_json: Json = False) -> None:
    """Print every iteration's line as one JSON object, a line each: ours, BigScience's and Megatron-LM's.

    A number that is none (NaN, infinity) is null; a column that a line does not have is left out.
    """
    import json
    import math
    from dataclasses import asdict

    from bloomery.base.errors import InputError
    from bloomery.contracts.logline import read_log

    count = 0
    for number, line in read_log(log):
        values = {key: value for key, value in asdict(line).items() if value is not None and value != {}}
        for key, value in values.items():
            if isinstance(value, float) and not math.isfinite(value):
                values[key] = None
        text = json.dumps({"line": number, **values}, ensure_ascii=False, allow_nan=False)
        print(f"{',' if count else '['}\n{text}" if as_json else text, end="" if as_json else "\n")
        count += 1
    if count and as_json:
        print("\n]")
    if not count:
        raise InputError("no iteration's line in it", where=str(log), expected="lines like ` iteration  1/  100 | ...`")


@app.command()
def check(
    config: Annotated[Path, typer.Argument(help="The run's YAML.")],
    log: Log,
    gpus: Annotated[int | None, typer.Option(min=1, help="GPUs that it ran on, if not the layout's.")] = None,
    as_json: Json = False,
) -> None:
    """Say where a log departs from the plan of CONFIG (exit code 1)."""
    from dataclasses import asdict

    from bloomery.base.atomic import dump_json
    from bloomery.base.errors import InputError
    from bloomery.base.print_table import print_table
    from bloomery.base.progress import say
    from bloomery.checks.load_config import load_config
    from bloomery.contracts.logline import read_log
    from planner.logcheck import departures

    run = load_config(config)
    lines = list(read_log(log))
    if not lines:
        raise InputError("no iteration's line in it", where=str(log), expected="lines like ` iteration  1/  100 | ...`")
    found = list(departures(run, lines, gpus))
    if as_json:
        print(dump_json({"lines": len(lines), "departures": [asdict(each) for each in found]}), end="")
    elif found:
        rows = [(str(d.line), str(d.iteration), d.column, d.logged, d.planned) for d in found]
        print_table(("line", "iteration", "column", "logged", "planned"), rows)
    if found:
        say(f"{len(found)} departures from the plan in {len(lines)} lines")
        raise typer.Exit(1)
    if not as_json:
        print(f"{len(lines)} lines, as planned")
