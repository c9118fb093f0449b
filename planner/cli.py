"""Command `bloomery plan`: compute what a training will do, its cost and its risk, without running anything."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from bloomery.base.print_table import print_titled
from planner.plan_options import Gpu, load_planned
from planner.simulate_cli import simulate

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig
    from planner.planned_state import PlannedState, Speed


class _DefaultVerb(TyperGroup):
    """Command group whose default command is `show`, so that the first argument can be a configuration file."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert `show` if the first argument is not a command."""
        if args and args[0] not in {*self.commands, "--help"}:
            args = ["show", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_DefaultVerb,
    no_args_is_help=True,
    help="`bloomery plan CONFIG` (short for `bloomery plan show CONFIG`) prints the parameters, layout, memory, time, "
    "disk space and risk of failures of a run. It needs no GPU.",
)
app.command()(simulate)

File = Annotated[
    Path, typer.Argument(help="YAML file with the configuration of a run, such as config/models/tr11-176b.yaml.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON document on stdout.")]
Grid = Annotated[
    str | None,
    typer.Option(help="Electricity grid for the CO2 estimate, instead of plan.grid (see `bloomery plan grids`)."),
]
Size = Annotated[
    str | None, typer.Option("--disk", help="Disk space that the run may use, such as 40TB, instead of plan.disk.")
]
Failures = Annotated[
    float | None,
    typer.Option(
        "--days-between-failures", help="Mean days between two failures, instead of plan.faults.days_between_failures."
    ),
]


@app.command()
def show(
    file: File,
    as_json: Json = False,
    at: Annotated[
        str | None,
        typer.Option(
            help="Instead of the plan, print the state of the run at iteration=N, samples=N or tokens=N: iterations, "
            "samples and tokens so far, global batch size, sequence length and learning rate."
        ),
    ] = None,
    log_line: Annotated[
        bool, typer.Option("--log-line", help="With --at: print the line that the run logs for this iteration.")
    ] = False,
    seconds_per_iteration: Annotated[
        float | None,
        typer.Option(
            min=1e-9,
            max=1e18,
            help="With --at: duration of the iteration in seconds, from which the speed is computed.",
        ),
    ] = None,
    loss: Annotated[float | None, typer.Option(help="With --log-line: value of the loss in the printed line.")] = None,
    grad_norm: Annotated[
        float | None, typer.Option(help="With --log-line: value of the gradient norm in the printed line.")
    ] = None,
    suggest: Annotated[
        bool,
        typer.Option(
            "--suggest",
            help="Instead of the plan, rank possible layouts by estimated speed (see --gpus, --memory, --batch).",
        ),
    ] = False,
    gpus: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=10_000_000,
            help="With --suggest or --at: number of GPUs of the run (default: the GPUs of the configured layout).",
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            help="With --suggest: memory of one GPU, such as 80GiB (default: the value in `bloomery plan gpus`)."
        ),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=2**63,
            help="With --suggest: global batch size in samples (default: training.batch.global_batch_size).",
        ),
    ] = None,
    top: Annotated[
        int | None, typer.Option(min=1, help="With --suggest: number of layouts to print (default: 10).")
    ] = None,
    gpu: Gpu = None,
    grid: Grid = None,
    disk: Size = None,
    days_between_failures: Failures = None,
) -> None:
    """Print the plan of a run. If the plan is refused, print the keys to change and exit with code 1."""
    if not suggest and (memory is not None or batch is not None or top is not None):
        raise typer.BadParameter("--memory, --batch and --top need --suggest; add --suggest or remove them")
    if gpus is not None and not suggest and at is None:
        raise typer.BadParameter(
            "--gpus needs --suggest, or --at with --seconds-per-iteration. To change the layout, set training.parallel."
        )
    if suggest and (at is not None or log_line or seconds_per_iteration is not None):
        raise typer.BadParameter(
            "--suggest cannot be combined with --at, --log-line or --seconds-per-iteration; remove one of them"
        )
    config = load_planned(
        file, as_json=as_json, gpu=gpu, grid=grid, disk=disk, days_between_failures=days_between_failures
    )
    if at is not None:
        _show_state(config, at, seconds_per_iteration, gpus, (loss, grad_norm) if log_line else None, as_json=as_json)
    elif log_line or seconds_per_iteration is not None or loss is not None or grad_norm is not None:
        raise typer.BadParameter("--log-line, --seconds-per-iteration, --loss and --grad-norm need --at iteration=N")
    elif suggest:
        _show_layouts(config, gpus, memory, batch, top or 10, as_json=as_json)
    else:
        _show_plan(file, config, as_json=as_json)


@app.command()
def page(
    files: Annotated[list[Path], typer.Argument(help="YAML files with the configurations of the runs.")],
    output: Annotated[Path, typer.Option(help="Folder in which the pages are written.")] = Path("docs/models"),
) -> None:
    """For each run, write a Markdown page with its plan and a figure. Write a README.md with a table of all runs."""
    import os

    from bloomery.base.atomic import write_if_changed
    from bloomery.base.progress import say
    from bloomery.checks.load_config import load_config
    from planner.answers import answers
    from planner.plan_figure import figure
    from planner.plan_page import index_page, page

    doubles = sorted({file.stem for file in files if [each.stem for each in files].count(file.stem) > 1})
    if doubles:
        raise typer.BadParameter(
            f"two files would write the same page: {', '.join(doubles)}; rename one of the files", param_hint="FILES"
        )
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise typer.BadParameter(f"{output}: {error.strerror}", param_hint="--output") from error
    plans = []
    for file in files:
        config = load_config(file)
        plan = answers(config)
        source = Path(os.path.relpath(file, output)).as_posix()
        write_if_changed(output / f"{file.stem}.md", page(file.stem, source, config, plan))
        write_if_changed(output / f"{file.stem}.svg", figure(config, plan))
        plans.append((file.stem, plan))
    write_if_changed(output / "README.md", index_page(plans))
    say(f"wrote {len(plans)} pages to {output}")


@app.command("gpus")
def list_gpus(as_json: Json = False) -> None:
    """List the types of GPUs that --gpu and plan.gpu accept, with their memory, speed and power."""
    from bloomery.spec.hardware import gpus

    columns = ("name", "memory GiB", "peak TFLOP/s", "watts", "source")
    rows = [(name, f"{g.memory_gib:g}", f"{g.peak_tflops:g}", f"{g.watts:g}", g.source) for name, g in gpus().items()]
    _print_rows(gpus(), columns, rows, as_json=as_json)


@app.command("grids")
def list_grids(as_json: Json = False) -> None:
    """List the electricity grids that --grid and plan.grid accept, with the CO2 per kWh of each grid."""
    from bloomery.spec.hardware import grids

    rows = [(name, f"{grid.grams_per_kwh:g}", grid.source) for name, grid in grids().items()]
    _print_rows(grids(), ("name", "g CO2 / kWh", "source"), rows, as_json=as_json)


def _print_rows(table: dict[str, Any], columns: tuple[str, ...], rows: list[Any], *, as_json: bool) -> None:
    from dataclasses import asdict

    from bloomery.base.atomic import dump_json
    from bloomery.base.print_table import print_table

    if as_json:
        print(dump_json({name: asdict(row) for name, row in table.items()}), end="")
    else:
        print_table(columns, rows)


def _show_plan(file: Path, config: RunConfig, *, as_json: bool) -> None:
    from dataclasses import asdict

    from bloomery.base.atomic import dump_json
    from bloomery.base.progress import say
    from planner.answers import answers
    from planner.report import tables

    plan = answers(config)
    if as_json:
        print(dump_json(asdict(plan) | {"days": plan.days, "node_hours": plan.node_hours}), end="")
        return
    for table in tables(plan):
        print_titled(table.columns, table.rows, table.title)
    for note in plan.notes:
        say(f"note: {note}")
    simulated = " --days-between-failures 14" if config.plan.faults.days_between_failures is None else ""
    say(
        f"next: bloomery plan {file} --at iteration={plan.iterations // 2}, or bloomery plan simulate {file}{simulated}"
    )


def _show_state(
    config: RunConfig,
    at: str,
    seconds: float | None,
    gpu_count: int | None,
    line: tuple[float | None, float | None] | None,
    *,
    as_json: bool,
) -> None:
    from dataclasses import asdict

    from bloomery.base.atomic import dump_json
    from bloomery.base.print_table import print_table
    from planner.planned_state import speed_at, state_at

    unit, equals, number = at.partition("=")
    digits = number.replace("_", "")
    if unit not in ("iteration", "samples", "tokens") or not equals or not digits.isdecimal():
        raise typer.BadParameter(
            f"{at!r} is not a position; expected: iteration=N, samples=N or tokens=N", param_hint="--at"
        )
    try:
        state = state_at(config, **{unit: int(digits)})
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--at") from error
    speed = None
    if seconds is not None and state.iteration:
        speed = speed_at(config, state, seconds, gpu_count)
    if line is not None:
        text = _log_line(state, speed, *line)
        print(dump_json({**asdict(state), **(asdict(speed) if speed else {}), "log_line": text}) if as_json else text)
        return
    values = asdict(state) | (asdict(speed) if speed else {})
    if as_json:
        print(dump_json(values), end="")
        return
    rows = [(key.replace("_", " "), _number(key, value)) for key, value in values.items()]
    print_table(("", ""), rows)


def _number(key: str, value: float | None) -> str:
    if value is None:
        return "unknown"
    if key == "learning_rate":
        return f"{value:.3E}"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"


def _log_line(state: PlannedState, speed: Speed | None, loss: float | None, grad_norm: float | None) -> str:
    from bloomery.contracts.logline import LogLine, render_line

    if speed is None or loss is None or grad_norm is None:
        raise typer.BadParameter(
            "--log-line needs --seconds-per-iteration, --loss, --grad-norm, and an iteration of at least 1 in --at"
        )
    return render_line(
        LogLine(
            iteration=state.iteration,
            total_iterations=state.total_iterations,
            consumed_samples=state.consumed_samples,
            consumed_tokens=state.consumed_tokens,
            seconds=speed.seconds_per_iteration,
            learning_rate=state.learning_rate,
            global_batch_size=state.global_batch_size,
            loss=loss,
            grad_norm=grad_norm,
            samples_per_second=speed.samples_per_second,
            tflops=speed.tflops_hardware,
        )
    )


def _show_layouts(
    config: RunConfig, gpu_count: int | None, memory: str | None, batch: int | None, top: int, *, as_json: bool
) -> None:
    import re
    from dataclasses import asdict

    from bloomery.base.atomic import dump_json
    from bloomery.base.progress import say
    from bloomery.base.units import parse_bytes
    from bloomery.spec.hardware import gpus
    from planner.suggest import suggest

    if config.plan.gpu is None:
        raise typer.BadParameter(
            "--suggest needs a type of GPU, such as --gpu a100-80gb (`bloomery plan gpus` lists the types)"
        )
    try:
        room = parse_bytes(memory) if memory is not None else gpus()[config.plan.gpu].memory_bytes
    except ValueError as error:
        raise typer.BadParameter(f"{memory!r} is not a size; expected: {error}", param_hint="--memory") from error
    count = gpu_count or config.training.parallel.world_size
    found = suggest(config, count, room, batch or config.training.batch.global_batch_size)
    fits = [each for each in found if each.reason is None]
    rejected = found[len(fits) :]
    if as_json:
        value = {"layouts": [asdict(each) for each in fits], "rejected": [asdict(each) for each in rejected]}
        print(dump_json(value), end="")
    else:
        # The column names are short so that the table fits into 80 columns.
        columns = ("TP", "PP", "DP", "MBS", "recompute", "s/iter", "model", "hardware", "GiB", "bubble")
        rows = [
            (
                *(str(size) for size in (each.tensor, each.pipeline, each.data, each.micro_batch_size)),
                each.activation_checkpointing,
                f"{each.seconds_per_iteration:.2f}",
                f"{each.tflops_model:.1f}",
                f"{each.tflops_hardware:.1f}",
                f"{each.memory_bytes / 2**30:.1f}",
                f"{each.bubble_fraction:.1%}",
            )
            for each in fits[:top]
        ]
        print_titled(
            columns,
            rows,
            f"{len(fits)} possible layouts of {count} {config.plan.gpu} GPUs "
            "(estimates; columns `model` and `hardware`: TFLOP/s per GPU)",
        )
        # Reasons that differ only in their numbers are grouped. The first reason of each group is printed as an
        # example.
        alike: dict[str, list[str]] = {}
        for each in rejected:
            reason = each.reason or ""
            alike.setdefault(re.sub(r"[0-9.,]+( [A-Z]?i?B)?", "", reason), []).append(reason)
        groups = sorted(alike.values(), key=len, reverse=True)
        reasons = [(str(len(group)), group[0]) for group in groups]
        print_titled(("layouts", "example of the reason"), reasons, f"{len(rejected)} rejected layouts")
        say("add --json to print every rejected layout with its own reason")
    if not fits:
        say(f"no layout of {count} {config.plan.gpu} GPUs is possible; change --gpus, --batch or --gpu")
        raise typer.Exit(1)
