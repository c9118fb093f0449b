"""`bloomery doctor`: report what works on this machine, and how to fix what does not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Check whether this machine has all that Bloomery needs.", add_completion=False)


@app.command()
def doctor(
    runs: Annotated[
        Path, typer.Option(help="Folder that contains all runs. The command checks the free disk space there.")
    ] = Path("runs"),
    online: Annotated[
        bool, typer.Option("--online", help="Verify the Hub token by asking the Hub for the token's user.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Check Python, cores, memory, disk, PyTorch, GPUs, DeepSpeed, apex, C++ kernels, SLURM, Hub and npm.

    The exit code is 1 if something that Bloomery needs is missing.
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
        colours = {FindingState.OK: "green", FindingState.WARN: "yellow", FindingState.MISSING: "red"}
        print_table(("", "what", "found", "what to do"), rows, styles=[colours[f.state] for f in findings])
    if any(finding.state is FindingState.MISSING for finding in findings):
        raise typer.Exit(1)
