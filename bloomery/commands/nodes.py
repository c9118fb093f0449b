"""`bloomery nodes`: the nodes of the cluster that the next training segments of a run exclude."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from datetime import datetime

    from bloomery.contracts.excluded_nodes import ExcludedNode

app = typer.Typer(
    no_args_is_help=True, help="List, exclude or include nodes of the cluster for the next training segments of a run."
)

Run = Annotated[Path, typer.Option(help="Folder of the run, such as runs/<name>.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]


@app.command("list")
def list_nodes(run: Run, as_json: Json = False) -> None:
    """List the nodes that the next training segments exclude, and why."""
    from bloomery.base.progress import say
    from bloomery.contracts.excluded_nodes import read_excluded
    from bloomery.contracts.paths import RunPaths
    from bloomery.orchestration.prepare_run import check_run

    check_run(run)
    found = read_excluded(RunPaths(run), _now())
    if not found and not as_json:
        say("no node is excluded")
        return
    _show(found, as_json)


@app.command()
def exclude(
    run: Run,
    nodes: Annotated[list[str], typer.Argument(help="SLURM's names of the nodes, such as node07.")],
    hours: Annotated[
        float, typer.Option(min=0.01, max=8760.0, help="Time in hours after which the exclusion ends.")
    ] = 24.0,
    reason: Annotated[str, typer.Option(help="Reason for the exclusion.")] = "requested by a person",
    as_json: Json = False,
) -> None:
    """Exclude nodes from the next training segments of a run. The segment that runs now continues."""
    from bloomery.base import slurm
    from bloomery.base.errors import InputError
    from bloomery.contracts.excluded_nodes import check_node_name, exclude_node
    from bloomery.contracts.paths import RunPaths
    from bloomery.orchestration.prepare_run import check_run

    check_run(run)
    for node in nodes:
        check_node_name(node)
    if slurm.has_slurm():
        known = {node.name for node in slurm.cluster_nodes()}
        if unknown := [node for node in nodes if node not in known]:
            raise InputError(
                "SLURM knows no node of this name",
                where=", ".join(unknown),
                expected="names of nodes as `sinfo --Node` shows them",
            )
    _show([exclude_node(RunPaths(run), node, reason, hours, "person", _now()) for node in nodes], as_json)


@app.command()
def include(
    run: Run,
    nodes: Annotated[list[str], typer.Argument(help="SLURM's names of the nodes, such as node07.")],
    as_json: Json = False,
) -> None:
    """End the exclusion of nodes. The next training segments may run on them again."""
    from bloomery.base.errors import InputError
    from bloomery.contracts.excluded_nodes import include_node, read_excluded
    from bloomery.contracts.paths import RunPaths
    from bloomery.orchestration.prepare_run import check_run

    check_run(run)
    paths, now = RunPaths(run), _now()
    excluded = [node.host for node in read_excluded(paths, now)]
    if absent := [node for node in nodes if node not in excluded]:
        raise InputError(
            "this node is not excluded" if len(absent) == 1 else "these nodes are not excluded",
            where=", ".join(absent),
            expected=f"one of {', '.join(excluded)}"
            if excluded
            else "the name of an excluded node; no node of this run is excluded",
        )
    ended = [include_node(paths, node, now) for node in nodes]
    _show([node for node in ended if node is not None], as_json)


def _now() -> datetime:
    from datetime import UTC, datetime

    return datetime.now(UTC)


def _show(nodes: list[ExcludedNode], as_json: bool) -> None:
    """Print exclusions as a table or as JSON."""
    from bloomery.base.atomic import dump_json
    from bloomery.base.print_table import print_table

    rows = [node.model_dump(mode="json") for node in nodes]
    if as_json:
        print(dump_json(rows), end="")
        return
    keys = ("host", "until", "by", "reason")
    print_table(("node", "excluded until", "by", "reason"), [tuple(str(row[key]) for key in keys) for row in rows])
