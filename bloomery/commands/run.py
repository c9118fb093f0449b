"""`bloomery run`: start the workflow of a run, or start it again after it was killed. Cron can call it repeatedly."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Start the workflow of a run, unless it already runs or has finished.", add_completion=False)

MOST_FAILURES = 3
"""Number of failed workflows in a row without progress, after which only `--resume` starts the next one."""


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def run(
    context: typer.Context,
    config: Annotated[Path, typer.Argument(help="YAML file of the run, such as config/sample.yaml.")],
    target: Annotated[
        str, typer.Option(help="Target of the workflow: all, corpus, tokenizer, index, train, export or publish.")
    ] = "all",
    profile: Annotated[
        str | None,
        typer.Option(help="Snakemake profile. Default: `slurm` if this machine has SLURM, otherwise the local one."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Also start a run that a person stopped or that failed repeatedly.")
    ] = False,
) -> None:
    """Start the workflow of a run. If the workflow was killed, resume it. Further arguments are passed to Snakemake.

    The command does nothing if a workflow of the run is alive or has finished, if a person stopped the run, or after 3
    failures in a row without progress. So cron can call it every few minutes. Call it in the folder of the repository.

    Exit codes: 0 if the workflow is alive or has finished, 1 if it failed, 2 on a configuration error, 75 if a person
    stopped the run.
    """
    from bloomery.base.errors import ConfigError
    from bloomery.base.progress import say
    from bloomery.checks.load_config import load_config
    from bloomery.contracts.paths import RunPaths
    from bloomery.orchestration.start_workflow import Decision, choose_profile, decide, start_workflow
    from bloomery.orchestration.stop_mark import forget_stop
    from bloomery.orchestration.workflow_command import TARGETS

    if target not in TARGETS:
        raise ConfigError(f"no target {target!r}", where="--target", expected=f"one of {', '.join(TARGETS)}")
    loaded = load_config(config)
    paths = RunPaths(Path(loaded.root) / loaded.name)
    decision = decide(paths, loaded, target, most_failures=MOST_FAILURES)
    if decision.needs_a_person and resume:
        forget_stop(paths)
        decision = Decision(start=True, reason="a person resumes the run")
    if not decision.start:
        hint = " (to start it anyway, add --resume)" if decision.needs_a_person else ""
        say(f"{paths.run}: {decision.reason}{hint}")
        raise typer.Exit(decision.exit_code)
    chosen = choose_profile(profile)
    say(f"{paths.run}: {decision.reason}")
    raise typer.Exit(start_workflow(config, target, chosen, context.args))
