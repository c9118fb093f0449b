"""`bloomery status`: show the status of a run on one screen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bloomery.base.visible_text import visible_text

if TYPE_CHECKING:
    from monitoring.status import Job, RunStatus
    from monitoring.training_progress import TrainingProgress

app = typer.Typer(help="Show the status of a run.", add_completion=False)

_BAR = 24


@app.command()
def status(
    run: Annotated[
        Path | None,
        typer.Option(help="Folder of the run, such as runs/sample (default: the most recently active run in --root)."),
    ] = None,
    root: Annotated[Path, typer.Option(help="Folder that contains the runs; used only without --run.")] = Path("runs"),
    every: Annotated[bool, typer.Option("--all", help="Show all segments of the training, not only the last.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the status as one JSON document on stdout.")] = False,
) -> None:
    """Show the status of a run: progress, time left, loss, speed, segments, goodput, queue, checkpoint, sync, disk."""
    from dataclasses import asdict

    from pydantic_core import to_jsonable_python

    from bloomery.base.atomic import dump_json
    from bloomery.base.errors import InputError
    from bloomery.base.print_table import print_table
    from bloomery.orchestration.prepare_run import check_run
    from monitoring.status import find_runs, gather_status
    from monitoring.training_progress import epoch_now

    others: list[Path] = []
    if run is None:
        runs = find_runs(root)
        if not runs:
            raise InputError(
                "no run in this folder",
                where=str(root),
                expected="`make run` to start a run, --run with a run's folder, or --root with the folder of all runs",
            )
        run, others = runs[0], runs[1:]
    check_run(run)
    found = gather_status(run, epoch_now())
    if as_json:
        # `asdict` does not convert the pydantic models of events and energy.
        facts = to_jsonable_python(asdict(found))
        print(dump_json({**facts, "others": [other.as_posix() for other in others]}), end="")
        return
    rows = lines(found, every=every)
    if others:
        rows.append(
            ("other runs", f"{', '.join(other.name for other in others)} (show one with --run {others[0].as_posix()})")
        )
    print_table(("", ""), rows, title=found.run, styles=[_style(*row) for row in rows])


def lines(found: RunStatus, *, every: bool = False) -> list[tuple[str, str]]:
    """Return the rows of the screen, one fact per row. With `every`, all segments are shown."""
    from bloomery.base.units import format_bytes
    from monitoring.shared_rows import rebuild_text, unreadable_text
    from monitoring.timeline_rows import goodput_text, timeline_rows

    rows = [("state", _state(found)), ("workflow", _workflow(found))]
    if found.data:
        counts = [f"{each.stage} {each.done:,}/{each.total:,}" for each in found.data]
        rows.append(("data", ", ".join(counts)))
    if found.progress:
        rows += _progress(found.progress)
    rows += timeline_rows(found.timeline, every=every)
    if found.timeline.goodput is not None:
        rows.append(("goodput", goodput_text(found.timeline.goodput)))
    if found.segments.damaged:
        names = ", ".join(found.segments.damaged)
        rows.append(("damaged", f"in train/segments: {names}; restore or delete these files, and start the run again"))
    rows += _queue(found)
    rows += _excluded(found)
    if checkpoint := found.checkpoint:
        age = _age(checkpoint.age_seconds)
        rows.append(("last checkpoint", f"{checkpoint.name}, {age}, {format_bytes(checkpoint.bytes)}"))
    older = {name: f" [OLDER THAN {than}]" for name, than in found.stale.items()}
    if found.models:
        models = ", ".join(f"{name}{older.get(f'model {name}', '')}" for name in found.models)
        rows.append(("exported", models + (", published" if found.published else ", not published")))
    if found.reports:
        pages = [f"{page}{older.get(f'report {name}', '')}" for name, page in found.reports.items()]
        rows.append(("reports", ", ".join(pages)))
    if found.unreadable:
        rows.append(("not compared", unreadable_text(found.unreadable)))
    if found.stale:
        how = rebuild_text(found.rebuild_command, found.rebuild_target)
        names = ", ".join(f"{name} (older than {than})" for name, than in found.stale.items())
        rows.append(("out of date", f"{names}; to build them again: {how}"))
    rows += [("sync", _sync(found)), ("disk", _disk(found)), ("next", next_command(found))]
    return rows


_ENDED = {
    "stopped": "by request",
    "time_limit": "at its time limit",
    "rolled_back": "with a roll-back to an earlier checkpoint",
    "crashed": "with a crash",
    "failed": "with a failed check",
    "finished": "at the end of the training",
}
"""Description of each status with which an attempt can end."""


def _state(found: RunStatus) -> str:
    from monitoring.status import RunState

    if found.state is RunState.STOPPED:
        said = "stopped"
        if last := found.segments.last_attempt:
            why = f": {_plain(last.message)}" if last.message else ""
            said += f"; the last attempt to train ended {_ENDED[last.status]} after iteration {last.iteration:,}{why}"
        unseen = found.workflow is not None and found.workflow.alive is None
        return f"{said}; the workflow may still run on another machine" if unseen else said
    held = found.trainer
    if held and found.state is RunState.TRAINING:
        job = f", SLURM job {held.job}" if held.job else ""
        return f"{found.state.value} (process {held.pid} on {held.host}{job})"
    return found.state.value


def _workflow(found: RunStatus) -> str:
    workflow = found.workflow
    if workflow is None:
        return "no workflow has run yet"
    who = f"process {workflow.pid} on {workflow.host}"
    if workflow.alive is None:
        return f"the last workflow was {who}; this machine cannot see whether it still runs"
    return f"{who} works on this run" if workflow.alive else f"no workflow runs; the last was {who}"


def _progress(progress: TrainingProgress) -> list[tuple[str, str]]:
    from bloomery.base.units import format_count, format_finite, format_seconds
    from bloomery.contracts.metrics_record import perplexity

    done = round(_BAR * progress.share)
    share = f"{100 * progress.share:.1f} %"
    rows = [
        ("progress", f"{'#' * done}{'.' * (_BAR - done)} {share}"),
        (
            "iteration",
            f"{progress.iteration:,} of {progress.total_iterations:,}, "
            f"{format_count(progress.consumed_tokens)} of {format_count(progress.tokens)} tokens, "
            f"last iteration {_age(progress.age_seconds)}",
        ),
    ]
    if progress.iteration < progress.total_iterations:
        days = f" ({progress.seconds_left / 86400:.1f} days)" if progress.seconds_left >= 2 * 86400 else ""
        rows.append(
            (
                "time left",
                f"{format_seconds(progress.seconds_left)}{days} of iterations, without starts, saves, validations and "
                "time in the queue",
            )
        )
    loss = f"{format_finite(progress.loss, '.4f')}, gradient norm {format_finite(progress.grad_norm, '.3f')}"
    rows.append(("last training loss", loss))
    if progress.validation_loss is not None:
        sets = f"{progress.validation_sets} set{'' if progress.validation_sets == 1 else 's'}"
        said = (
            f"{progress.validation_loss:.4f} after iteration {progress.validation_iteration:,}, mean over {sets} "
            f"(perplexity of the mean: {perplexity(progress.validation_loss):,.1f})"
        )
        rows.append(("validation loss", said))
    return [*rows, ("speed", _speed(progress)), *_watched(progress)]


def _speed(progress: TrainingProgress) -> str:
    said = f"{progress.tokens_per_second:,.0f} tokens/s, {progress.tflops_hardware:.4g} TFLOP/s per device"
    if progress.mfu is not None:
        said += f", {100 * progress.mfu:.1f} % MFU"
    count = progress.speed_iterations
    said += f" over the last {count} iterations" if count > 1 else " in the first iteration"
    said += f"; batches of {progress.global_batch_size:,} samples"
    if progress.slowest_rank is not None and progress.slowest_rank != progress.fastest_rank:
        said += (
            f"; slowest rank {progress.slowest_rank} ({progress.slowest_seconds:.3g} s of computation per iteration), "
            f"fastest rank {progress.fastest_rank} ({progress.fastest_seconds:.3g} s)"
        )
    return said


def _watched(progress: TrainingProgress) -> list[tuple[str, str]]:
    """Return rows about skipped updates and samples, events of guards, and energy; leave out what did not happen."""
    from bloomery.base.units import format_energy

    rows = []
    left_out = []
    if progress.skipped_updates:
        finite = f" ({progress.non_finite:,} with a loss or gradient that is not finite)" if progress.non_finite else ""
        left_out.append(f"{progress.skipped_updates:,} updates{finite}")
    if progress.skipped_samples:
        left_out.append(f"{progress.skipped_samples:,} samples")
    if left_out:
        rows.append(("skipped", ", ".join(left_out)))
    for event in progress.events:
        what, action = event.event.replace("_", " "), event.action.replace("_", " ")
        rows.append((what, f"iteration {event.iteration:,}: {_plain(event.message)} ({action})"))
    if energy := progress.energy:
        nodes = f"{energy.nodes} node{'s' if energy.nodes != 1 else ''}"
        said = format_energy(energy.energy_kwh, energy.co2_kg, energy.estimated_kwh)
        rows.append(("energy", f"{said} by segment {energy.segment} on {nodes}"))
    return rows


def _queue(found: RunStatus) -> list[tuple[str, str]]:
    from monitoring.status import jobs_by_rule, training_jobs

    queue = found.queue
    if queue.note:
        return [("queue", queue.note)]
    if not queue.jobs:
        return [("queue", "no job of this run is in the queue")]
    rows = [(f"job {job.job}", _job(job)) for job in training_jobs(queue.jobs)]
    for rule, states in jobs_by_rule(queue.jobs).items():
        rows.append(
            (f"{sum(states.values())} jobs", f"{rule}: " + ", ".join(f"{n} {s.lower()}" for s, n in states.items()))
        )
    return rows


def _excluded(found: RunStatus) -> list[tuple[str, str]]:
    if found.excluded is None:
        return [("excluded nodes", "train/excluded_nodes.json cannot be read; correct or delete it")]
    return [(f"excluded {each.host}", f"until {each.until}: {_plain(each.reason)}") for each in found.excluded]


def _job(job: Job) -> str:
    from bloomery.base.units import format_seconds

    nodes = f"{job.nodes} node{'s' if job.nodes != 1 else ''}"
    if job.state == "PENDING":
        start = f", expected to start {job.start}" if job.start else ""
        return f"{job.rule}: pending for {nodes} ({job.reason}){start}"
    left = f", {format_seconds(job.seconds_left)} left" if job.seconds_left is not None else ", no time limit"
    return f"{job.rule}: {job.state.lower()} on {job.reason or nodes}{left}"


def _sync(found: RunStatus) -> str:
    sync = found.sync
    if sync is None:
        return "the logs were never synced to a Hub"
    said = f"{_age(sync.age_seconds)} to {sync.repository}" if sync.age_seconds is not None else "never succeeded"
    if sync.failures:
        count = f"{sync.failures} failure{'s' if sync.failures > 1 else ''}"
        since = " since then" if sync.age_seconds is not None else ""
        said += f"; {count}{since}; last error: {_plain(sync.error or 'no reason given')}"
    return said


def _disk(found: RunStatus) -> str:
    from bloomery.base.units import format_bytes

    disk = found.disk
    fits = f"{disk.checkpoints_fit:,}" if disk.checkpoints_fit < 1000 else "more than 1,000"
    said = f"{format_bytes(disk.free_bytes)} free: room for {fits} checkpoints of {format_bytes(disk.checkpoint_bytes)}"
    return f"LOW: {said}" if disk.checkpoints_fit < 3 else said


def _plain(text: str) -> str:
    """Return another program's text on one line, with its control characters visible."""
    return visible_text(" ".join(text.split()))


def _style(name: str, text: str) -> str:
    """Return the colour of a row: red for a problem, yellow for waiting, green for a run that advances or is done."""
    if text.startswith(("LOW:", "never succeeded")):
        return "red"
    if name != "state":
        return ""
    if text.startswith("stopped"):
        return "red" if any(_ENDED[status] in text for status in ("crashed", "failed")) else "yellow"
    return "green" if text.startswith(("training", "finished")) else "yellow"


def _age(seconds: float | None) -> str:
    from bloomery.base.units import format_seconds

    if seconds is None:
        return "at an unknown time"
    return f"{seconds / 86400:.1f} days ago" if seconds >= 2 * 86400 else f"{format_seconds(seconds)} ago"


def next_command(found: RunStatus) -> str:
    """Return the command to type next."""
    from monitoring.status import RunState

    if found.state is RunState.FINISHED:
        return f"bloomery summary --run {found.run}"
    if found.state is RunState.STOPPED:
        return found.resume_command or "repeat the command that started the run, to resume the run"
    if found.progress is None:
        return f"bloomery status --run {found.run}, later"
    return f"tail -f {found.run}/train/logs/main_log.txt"
