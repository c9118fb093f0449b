"""`bloomery cluster`: describe a cluster once, then test a small copy of a run on two of the cluster's nodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from bloomery.config.site import JobTarget, Site
    from bloomery.orchestration.site_questions import Question

app = typer.Typer(
    no_args_is_help=True,
    help="Write the file that describes a SLURM cluster; test a small copy of a run on the cluster.",
)

Text = str | None
Number = int | None
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]


@app.command()
def init(
    output: Annotated[Path, typer.Option(help="File to write. It describes the cluster.")] = Path("site.yaml"),
    yes: Annotated[bool, typer.Option("--yes", help="Accept all detected values without asking.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing --output file.")] = False,
    account: Annotated[Text, typer.Option(help="SLURM account that is charged for the jobs.")] = None,
    partition: Annotated[Text, typer.Option(help="SLURM partition for all jobs except training.")] = None,
    training_partition: Annotated[Text, typer.Option(help="SLURM partition for training jobs.")] = None,
    qos: Annotated[Text, typer.Option(help="SLURM's quality of service (QoS) for training jobs.")] = None,
    constraint: Annotated[
        Text, typer.Option(help="SLURM feature that a training node must have, such as a GPU type.")
    ] = None,
    gpus_per_node: Annotated[
        Number, typer.Option(min=0, help="Number of GPUs of a training node. 0: train on CPUs.")
    ] = None,
    ranks_per_node: Annotated[
        Number, typer.Option(min=1, help="Number of processes on a training node. Default: one for each GPU.")
    ] = None,
    max_minutes: Annotated[Number, typer.Option(min=1, help="Time limit of one training job, in minutes.")] = None,
    cpus_per_node: Annotated[
        Number, typer.Option(min=1, help="Number of CPUs to request on each training node.")
    ] = None,
    memory_mb_per_node: Annotated[
        Number, typer.Option(min=1, help="Main memory to request on each training node, in MB.")
    ] = None,
    exclusive: Annotated[
        bool | None, typer.Option(help="Request whole nodes for training, or allow other jobs on them.")
    ] = None,
    internet_partition: Annotated[
        Text, typer.Option(help="SLURM partition whose nodes can reach the internet, for jobs that use the Hub.")
    ] = None,
    modules: Annotated[
        Text,
        typer.Option(
            help="Environment modules that each job loads, separated by commas. Default: the modules loaded now."
        ),
    ] = None,
    container: Annotated[
        Text, typer.Option(help="Apptainer image in which the jobs run. Default: no container.")
    ] = None,
    scratch: Annotated[
        Text, typer.Option(help="Fast folder for the temporary files of jobs. Default: ${SCRATCH} or ${WORK}, if set.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the file that describes a SLURM cluster from what SLURM reports.

    On a terminal, ask for the most important values and propose those that were detected.
    """
    import sys

    from bloomery.base.atomic import dump_json
    from bloomery.base.errors import ConfigError
    from bloomery.base.print_table import print_table
    from bloomery.base.progress import say
    from bloomery.orchestration import detect_cluster, site_questions
    from bloomery.orchestration.site_file import write_site

    if output.exists() and not force:
        raise ConfigError("the file exists", where=str(output), expected="--force to replace it, or another --output")
    options: dict[str, Any] = {
        "account": account,
        "jobs.partition": partition,
        "training.partition": training_partition,
        "training.qos": qos,
        "training.constraint": constraint,
        "training.gpus_per_node": gpus_per_node,
        "training.ranks_per_node": ranks_per_node,
        "training.max_minutes": max_minutes,
        "training.cpus_per_node": cpus_per_node,
        "training.memory_mb_per_node": memory_mb_per_node,
        "training.exclusive": exclusive,
        "internet.partition": internet_partition,
        "modules": None if modules is None else words(modules),
        "container": container,
        "scratch": scratch,
    }
    given = {key: value for key, value in options.items() if value is not None}
    cluster = detect_cluster.detect() if _has_sinfo() else None
    asks = sys.stdin.isatty() and not yes and not as_json and cluster is not None
    answers = site_questions.collect(
        cluster,
        given,
        modules=detect_cluster.loaded_modules(),
        scratch=detect_cluster.scratch_folder(),
        ask=_ask if asks else None,
    )
    doubts = site_questions.doubts(cluster, answers) if cluster else []
    values = site_questions.nested(answers)
    site = write_site(output, values, _notes(cluster.name if cluster else ""))
    command = next_command(output)
    if as_json:
        report = {"file": str(output), "site": site.model_dump(mode="json"), "warnings": doubts, "next": command}
        print(dump_json(report), end="")
        return
    print_table(("", ""), [*summary(site), ("next", command)], title=str(output))
    for doubt in doubts:
        say(f"warning: {doubt}")


def next_command(output: Path) -> str:
    """Return the command to type next. It exports BLOOMERY_SITE if the file is not where the workflow searches for
    it."""
    import shlex

    from bloomery.config.site import SITE_VARIABLE, site_path

    command = "bloomery cluster rehearse config/sample.yaml"
    path = site_path()
    if path is not None and path.resolve() == output.resolve():
        return command
    return f"export {SITE_VARIABLE}={shlex.quote(str(output.resolve()))}; {command}"


def _has_sinfo() -> bool:
    import shutil

    return shutil.which("sinfo") is not None


def _notes(name: str) -> list[str]:
    where = f" {name}" if name else ""
    return [
        f"Properties of the cluster{where}, for all runs. Written by `bloomery cluster init`; you may edit this file.",
        "Bloomery reads the first of these files that exists: the path in BLOOMERY_SITE, site.yaml in the folder where",
        "the workflow starts, ~/.config/bloomery/site.yaml.",
    ]


def words(text: str) -> list[str]:
    """Return the words of a text that commas or spaces separate."""
    return text.replace(",", " ").split()


def _ask(question: Question, proposed: Any) -> Any:
    """Ask on the terminal until the answer is valid in the site's file. The answer `-` means no value."""
    from bloomery.base.errors import ConfigError
    from bloomery.base.progress import say
    from bloomery.config.load import validate
    from bloomery.config.site import Site
    from bloomery.orchestration.site_questions import nested

    shown = " ".join(proposed) if isinstance(proposed, list) else proposed
    default = "-" if shown in (None, "") else str(shown)
    while True:
        said: str = typer.prompt(f"{question.text} (- for none)", default=default, err=True).strip()
        answer: Any = None if said == "-" else said
        if question.kind == "list":
            answer = words(said) if answer else []
        elif question.kind == "number" and said.isdigit():
            answer = int(said)
        try:
            validate(nested({question.key: answer}), Site, where="your answer", example="a valid value")
        except ConfigError as error:
            say(str(error))
            continue
        return answer


def summary(site: Site) -> list[tuple[str, str]]:
    """Return (label, text) rows that describe what jobs and training will request."""
    from bloomery.base.units import format_bytes, format_seconds

    training = site.training
    ranks = training.ranks_per_node or training.gpus_per_node
    node = [
        training.gres or f"gpu:{training.gpus_per_node}" if training.gpus_per_node else "no GPU",
        f"{ranks} processes" if ranks else "all processes on one node",
        f"{training.cpus_per_node} CPUs" if training.cpus_per_node else "as many CPUs as the run requests",
        format_bytes(training.memory_mb_per_node * 1e6)
        if training.memory_mb_per_node
        else "memory estimated from the model",
        *(["whole nodes"] if training.exclusive else []),
    ]
    segments = f"jobs of at most {format_seconds(60.0 * training.max_minutes)}, one after another"
    return [
        ("data jobs", _place(site, site.jobs)),
        ("training", f"{_place(site, training, limit=False)}; {segments}"),
        ("a training node", ", ".join(node)),
        ("jobs that use the Hub", _place(site, site.internet) if site.internet else "on the workflow's own machine"),
        ("modules", " ".join(site.modules) or "none"),
        ("container", site.container or "none"),
        ("temporary files", site.scratch or "each node's own temporary folder"),
    ]


def _place(site: Site, place: JobTarget, *, limit: bool = True) -> str:
    from bloomery.base.units import format_seconds

    asked = site.job_resources(place)
    parts = [
        f"partition {asked['slurm_partition']}" if "slurm_partition" in asked else "the default partition",
        f"account {asked['slurm_account']}" if "slurm_account" in asked else "the default account",
        *(f"{key} {asked[key]}" for key in ("qos", "constraint") if key in asked),
        *([f"at most {format_seconds(60.0 * place.max_minutes)} per job"] if limit and place.max_minutes else []),
    ]
    return ", ".join(parts)


REHEARSAL_MINUTES = 20
"""Time limit of a rehearsal's training jobs, in minutes. Short jobs start early."""


@app.command()
def rehearse(
    config: Annotated[Path, typer.Argument(help="YAML file of a run, such as config/sample.yaml.")],
    output: Annotated[
        Path | None,
        typer.Option(
            help="File to which the configuration of the small copy is written. Default: the name of CONFIG with the "
            "ending .rehearsal.yaml, in the current folder."
        ),
    ] = None,
    nodes: Annotated[int, typer.Option(min=1, help="Number of nodes on which the small copy is trained.")] = 2,
    submit: Annotated[bool, typer.Option("--submit", help="Also start the workflow of the small copy.")] = False,
    as_json: Json = False,
) -> None:
    """Write the configuration of a small copy of a run, to test all steps on a few nodes before the full run."""
    from bloomery.base.atomic import dump_json, write_text
    from bloomery.base.errors import ConfigError
    from bloomery.base.print_table import print_table
    from bloomery.base.written_values import as_written, tree_as_written
    from bloomery.checks.load_config import load_config
    from bloomery.config.site import load_site
    from bloomery.orchestration.rehearsal import rehearsal
    from bloomery.orchestration.rehearsal_file import HEADER, render
    from bloomery.spec.overview import overview

    original, site = load_config(config), load_site()
    target = output or Path(f"{config.stem}.rehearsal.yaml")
    if target.exists() and not target.read_text(encoding="utf-8", errors="replace").startswith(HEADER):
        raise ConfigError(
            "the file exists and was not written by this command", where=str(target), expected="another --output"
        )
    values = rehearsal(original, site, nodes)
    command = ["snakemake", "--profile", "slurm", "--configfile", str(target)]
    if site.training.max_minutes > REHEARSAL_MINUTES:
        command += ["--set-resources", f"train_segment:runtime={REHEARSAL_MINUTES}"]
    # The file is read like the original, so it holds `${NAME}` instead of the values of environment variables.
    full = tree_as_written(original.model_dump(mode="json"))
    text = render(tree_as_written(values), full, str(config), nodes, _typed(command))
    write_text(target, text)
    small = load_config(target)
    figures, parallel = overview(small), small.training.parallel
    if as_json:
        report = {
            "file": str(target),
            "name": as_written(small.name),
            "nodes": nodes,
            "world_size": parallel.world_size,
        }
        print(dump_json({**report, "iterations": figures.iterations, "command": _typed(command)}), end="")
    else:
        layout = f"tensor {parallel.tensor} x pipeline {parallel.pipeline} x data {parallel.data}"
        rows = [
            ("run", as_written(f"{small.name}, in {small.root}/")),
            ("processes", f"{parallel.world_size} = {layout}, on {nodes} node{'s' if nodes > 1 else ''}"),
            ("parameters", f"{figures.parameters:,}"),
            ("iterations", f"{figures.iterations:,}"),
            ("start it" if not submit else "starting", _typed(command)),
        ]
        print_table(("", ""), rows, title=str(target))
    if submit:
        raise typer.Exit(_start(command))


def _typed(command: list[str]) -> str:
    import shlex

    return shlex.join(command)


def _start(command: list[str]) -> int:
    """Run the workflow in the current folder and return its exit code."""
    import subprocess
    import sys

    from bloomery.base.errors import ResourceError

    if not Path("Snakefile").is_file() or not Path("slurm").is_dir():
        raise ResourceError(
            "this folder lacks the file `Snakefile` or the profile folder `slurm`",
            where=str(Path.cwd()),
            expected="the folder of Bloomery's repository; change to that folder and run the command again",
        )
    return subprocess.run([sys.executable, "-m", *command], check=False).returncode
