"""`bloomery cluster`: describe a cluster once, then rehearse a run on two of its nodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from bloomery.config.site import JobTarget, Site
    from bloomery.orchestration.site_questions import Question

app = typer.Typer(no_args_is_help=True, help="Describe a cluster; rehearse a run there.")

Text = str | None
Number = int | None
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


@app.command()
def init(
    output: Annotated[Path, typer.Option(help="The file to write.")] = Path("site.yaml"),
    yes: Annotated[bool, typer.Option("--yes", help="Take what is detected, ask nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    account: Annotated[Text, typer.Option(help="Account that is charged.")] = None,
    partition: Annotated[Text, typer.Option(help="Partition of the data jobs.")] = None,
    training_partition: Annotated[Text, typer.Option(help="Partition of the training.")] = None,
    qos: Annotated[Text, typer.Option(help="Quality of service of the training.")] = None,
    constraint: Annotated[Text, typer.Option(help="Feature that a training node must have.")] = None,
    gpus_per_node: Annotated[Number, typer.Option(min=0, help="GPUs of a training node; 0: train on CPUs.")] = None,
    ranks_per_node: Annotated[Number, typer.Option(min=1, help="Processes of a training node; default: GPUs.")] = None,
    max_minutes: Annotated[Number, typer.Option(min=1, help="Longest training job, minutes.")] = None,
    cpus_per_node: Annotated[Number, typer.Option(min=1, help="CPUs to ask for on a training node.")] = None,
    memory_mb_per_node: Annotated[Number, typer.Option(min=1, help="Memory to ask for on a training node, MB.")] = None,
    exclusive: Annotated[bool | None, typer.Option(help="Ask for whole training nodes.")] = None,
    internet_partition: Annotated[Text, typer.Option(help="Partition whose nodes reach the Hub.")] = None,
    modules: Annotated[Text, typer.Option(help="Environment modules, by commas; default: those loaded now.")] = None,
    container: Annotated[Text, typer.Option(help="Apptainer image of the jobs.")] = None,
    scratch: Annotated[Text, typer.Option(help="Fast folder for temporary files; default: ${SCRATCH}.")] = None,
    as_json: Json = False,
) -> None:
    """Write the site's file: detect what SLURM says, and ask for the rest on a terminal."""
    import sys

    from bloomery.base.atomic import dump_json
    from bloomery.base.errors import ConfigError
    from bloomery.base.print_table import print_table
    from bloomery.base.progress import say
    from bloomery.orchestration import detect_cluster, site_questions
    from bloomery.orchestration.site_file import write_site

    if output.exists() and not force:
        raise ConfigError("the file is there", where=str(output), expected="--force to replace it, or another --output")
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
    if cluster and (
        problem := detect_cluster.job_age_problem(cluster.min_job_age_seconds, detect_cluster.poll_seconds())
    ):
        doubts.append(problem)
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
    """What to type next; a file that is not looked for by itself must be named first."""
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
        f"The cluster{where}: facts that every run shares. Written by `bloomery cluster init`; edit it freely.",
        "Looked for in BLOOMERY_SITE, here where the workflow starts, then in ~/.config/bloomery/site.yaml.",
    ]


def words(text: str) -> list[str]:
    """Words between commas or spaces."""
    return text.replace(",", " ").split()


def _ask(question: Question, proposed: Any) -> Any:
    """Ask on the terminal until the answer is one that the site's file may hold; `-` is no answer."""
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
            validate(nested({question.key: answer}), Site, where="that answer", example="a value")
        except ConfigError as error:
            say(str(error))
            continue
        return answer


def summary(site: Site) -> list[tuple[str, str]]:
    """What jobs and training will ask for, a line each."""
    from bloomery.base.units import format_bytes, format_seconds

    training = site.training
    ranks = training.ranks_per_node or training.gpus_per_node
    node = [
        training.gres or f"gpu:{training.gpus_per_node}" if training.gpus_per_node else "no GPU",
        f"{ranks} processes" if ranks else "all processes on one node",
        f"{training.cpus_per_node} CPUs" if training.cpus_per_node else "CPUs as the run asks",
        format_bytes(training.memory_mb_per_node * 1e6)
        if training.memory_mb_per_node
        else "memory by the model's size",
        *(["whole nodes"] if training.exclusive else []),
    ]
    segments = f"jobs of {format_seconds(60.0 * training.max_minutes)}, one after another"
    return [
        ("data jobs", _place(site, site.jobs)),
        ("training", f"{_place(site, training, limit=False)}; {segments}"),
        ("a training node", ", ".join(node)),
        ("Hub", _place(site, site.internet) if site.internet else "beside the workflow, on the login node"),
        ("modules", " ".join(site.modules) or "none"),
        ("container", site.container or "none"),
        ("temporary files", site.scratch or "each node's own"),
    ]


def _place(site: Site, place: JobTarget, *, limit: bool = True) -> str:
    from bloomery.base.units import format_seconds

    asked = site.job_resources(place)
    parts = [
        f"partition {asked['slurm_partition']}" if "slurm_partition" in asked else "the default partition",
        f"account {asked['slurm_account']}" if "slurm_account" in asked else "the default account",
        *(f"{key} {asked[key]}" for key in ("qos", "constraint") if key in asked),
        *([f"at most {format_seconds(60.0 * place.max_minutes)}"] if limit and place.max_minutes else []),
    ]
    return ", ".join(parts)


REHEARSAL_MINUTES = 20
"""Time that a rehearsal's training jobs ask for: short jobs start early."""


@app.command()
def rehearse(
    config: Annotated[Path, typer.Argument(help="A run's YAML, such as config/sample.yaml.")],
    output: Annotated[Path | None, typer.Option(help="The file to write; default: CONFIG.rehearsal.yaml.")] = None,
    nodes: Annotated[int, typer.Option(min=1, help="Nodes that the training fills.")] = 2,
    submit: Annotated[bool, typer.Option("--submit", help="Start it, too.")] = False,
    as_json: Json = False,
) -> None:
    """Write a small copy of a run that goes the same way on a few nodes, to try a change before the real thing."""
    from bloomery.base.atomic import dump_json, write_text
    from bloomery.base.errors import ConfigError
    from bloomery.base.print_table import print_table
    from bloomery.checks.load_config import load_config
    from bloomery.config.site import load_site
    from bloomery.orchestration.rehearsal import rehearsal
    from bloomery.orchestration.rehearsal_file import HEADER, render
    from bloomery.spec.overview import overview

    original, site = load_config(config), load_site()
    target = output or Path(f"{config.stem}.rehearsal.yaml")
    if target.exists() and not target.read_text(encoding="utf-8", errors="replace").startswith(HEADER):
        raise ConfigError("is no rehearsal and would be replaced", where=str(target), expected="another --output")
    values = rehearsal(original, site, nodes)
    command = ["snakemake", "--profile", "slurm", "--configfile", str(target)]
    if site.training.max_minutes > REHEARSAL_MINUTES:
        command += ["--set-resources", f"train_segment:runtime={REHEARSAL_MINUTES}"]
    text = render(values, original.model_dump(mode="json"), str(config), nodes, _typed(command))
    write_text(target, text)
    small = load_config(target)
    figures, parallel = overview(small), small.training.parallel
    if as_json:
        report = {"file": str(target), "name": small.name, "nodes": nodes, "world_size": parallel.world_size}
        print(dump_json({**report, "iterations": figures.iterations, "command": _typed(command)}), end="")
    else:
        layout = f"tensor {parallel.tensor} x pipeline {parallel.pipeline} x data {parallel.data}"
        rows = [
            ("run", f"{small.name}, below {small.root}/"),
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
    """Run the workflow here; returns its exit code."""
    import subprocess
    import sys

    from bloomery.base.errors import ResourceError

    if not Path("Snakefile").is_file() or not Path("slurm").is_dir():
        raise ResourceError(
            "no Snakefile and profile `slurm` here", where=str(Path.cwd()), expected="Bloomery's folder"
        )
    return subprocess.run([sys.executable, "-m", *command], check=False).returncode
