"""Commands `bloomery logline`: parse training logs, and compare a log with its plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    no_args_is_help=True, help="Parse the iteration lines of a training log, or compare a log with the plan of its run."
)

Log = Annotated[
    Path, typer.Argument(help="Training log with one line per iteration, in Megatron's format, such as main_log.txt.")
]


Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON document on stdout.")]


@app.command()
def parse(log: Log, as_json: Json = False) -> None:
    """Print the log line of every iteration as a JSON object, one object per line.

    The formats of Bloomery, BigScience and Megatron-LM are parsed. NaN and infinite numbers are printed as null.
    Columns that a line does not have are left out.
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
        raise InputError(
            "the log contains no line of an iteration",
            where=str(log),
            expected="lines like ` iteration  1/  100 | ...`",
        )


@app.command()
def check(
    config: Annotated[Path, typer.Argument(help="YAML file with the configuration of the run.")],
    log: Log,
    gpus: Annotated[
        int | None,
        typer.Option(min=1, help="Number of GPUs that the run used (default: the GPUs of the configured layout)."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare a log with the plan of CONFIG, print the values that differ, and exit with code 1 if any differs."""
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
        raise InputError(
            "the log contains no line of an iteration",
            where=str(log),
            expected="lines like ` iteration  1/  100 | ...`",
        )
    found = list(departures(run, lines, gpus))
    if as_json:
        print(dump_json({"lines": len(lines), "departures": [asdict(each) for each in found]}), end="")
    elif found:
        rows = [(str(d.line), str(d.iteration), d.column, d.logged, d.planned) for d in found]
        print_table(("line", "iteration", "column", "logged", "planned"), rows)
    if found:
        say(f"{len(found)} values differ from the plan in {len(lines)} lines of the log")
        raise typer.Exit(1)
    if not as_json:
        print(f"all values in {len(lines)} lines of the log agree with the plan")
