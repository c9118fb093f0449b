"""`bloomery watch`: the command line of `monitoring.watch`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Watch a run: push its logs to a Hub, raise alerts, and write PULSE lines.", add_completion=False
)


@app.command()
def watch(
    run: Annotated[Path, typer.Option(help="Folder of the run, such as runs/sample.")],
    every: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            help="Minutes from the start of one sync to the start of the next (default: publish.sync_minutes).",
        ),
    ] = None,
    retry_seconds: Annotated[
        float, typer.Option(min=0, help="Seconds for which calls to the Hub are retried while it is unavailable.")
    ] = 60.0,
    until_stopped: Annotated[
        bool, typer.Option(help="Continue after the run has ended, until a signal stops the command.")
    ] = False,
    once: Annotated[
        bool,
        typer.Option(
            "--once",
            help="Look once, send what is due, print the PULSE line, and end. Use this with cron. Logs are not pushed.",
        ),
    ] = False,
    submit: Annotated[
        bool,
        typer.Option(
            "--submit",
            help="Submit a small SLURM job that looks repeatedly and submits its successor, until the run has "
            "finished. The job cannot push logs, because it does not get the Hub's token.",
        ),
    ] = False,
    job_minutes: Annotated[
        float | None,
        typer.Option(min=0.01, max=10_000, help="Minutes for which each job of --submit looks (default: 60)."),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(help="Option of sbatch for the jobs of --submit, such as --option=--partition=small. Repeatable."),
    ] = None,
    in_job: Annotated[bool, typer.Option("--in-job", hidden=True)] = False,
) -> None:
    """Watch a run until it has finished. Every few minutes, push its logs to a Hub. Every `alerts.every_seconds`, look
    for conditions that need a person, and send alerts.

    After the signal TERM or INT, sync once more and end. Without a Hub, the command only sends alerts.
    """
    from bloomery.base.progress import say
    from bloomery.contracts.paths import RunPaths
    from bloomery.orchestration.prepare_run import check_run
    from monitoring.alerts.look import look_once
    from monitoring.alerts.slurm_watch import STOP_NAME, alive_jobs, watch_in_job
    from monitoring.alerts.slurm_watch import submit as submit_job
    from monitoring.training_progress import epoch_now
    from monitoring.watch import watch_run

    paths, options = RunPaths(run), option or []
    minutes = 60.0 if job_minutes is None else job_minutes
    if sum((once, submit, in_job)) > 1:
        raise typer.BadParameter("use only one of --once and --submit")
    if (options or job_minutes is not None) and not (submit or in_job):
        raise typer.BadParameter("--option and --job-minutes are for --submit, which is missing")
    if once:
        check_run(run)
        print(look_once(paths, epoch_now(), wait_seconds=30.0).pulse)
    elif submit:
        check_run(run)
        if alive := alive_jobs(paths):
            say(f"the job {alive[0].job} watches this run already")
            return
        print(submit_job(paths, minutes, options))
        say(f"the job looks at the run, but cannot push logs to a Hub. To end it: touch {paths.alerts / STOP_NAME}")
    elif in_job:
        watch_in_job(paths, minutes, options)
    else:
        if not until_stopped:
            # The workflow starts its watcher with that option, perhaps before the run is complete enough.
            check_run(run)
        every_seconds = None if every is None else 60 * every
        watch_run(paths, every_seconds, until_stopped=until_stopped, retry_seconds=retry_seconds)
