"""`bloomery doctor`: what this machine can do, and what to do about what it cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="What this machine can do.", add_completion=False)


@app.command()
def doctor(
    runs: Annotated[Path, typer.Option(help="Folder where runs will lie.")] = Path("runs"),
    online: Annotated[bool, typer.Option("--online", help="Ask the Hub who the token belongs to.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Look at Python, cores, memory, disk, PyTorch, GPUs, DeepSpeed, apex, C++ kernels, SLURM, Hub, npm.

    Exit code 1 when something is missing that Bloomery cannot work without.
    """
    from dataclasses import asdict

    from bloomery.base.atomic import dump_json
    from bloomery.base.print_table import print_table
    from bloomery.commands.doctor_checks import FindingState, examine

    findings = examine(runs, online=online)
    if as_json:
        print(dump_json([asdict(finding) for finding in findings]), end="")
    else:
        rows = [(f.state.value, f.name, f.found, f.advice) for f in findings]
        print_table(("", "what", "found", "what to do"), rows)
    if any(finding.state is FindingState.MISSING for finding in findings):
        raise typer.Exit(1)
