"""`bloomery init`: write a commented configuration for your own texts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig
    from data_prep.new_run.render_run import NewRun

app = typer.Typer(
    help="Write a configuration for your own texts. The command asks questions, or takes the answers from options."
)

CONTROL = ("output", "force", "yes", "probe", "as_json")
"""Parameters that steer the command. Every other parameter answers a question of `new_run.questions`."""
_PROBES = 3
"""Maximum number of probes. After each one the model is chosen again with the measured speed."""


@app.command()
def init(
    source: Annotated[
        list[str] | None, typer.Option(help="Your texts: a file, a pattern in quotes or a folder. May be repeated.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the run, whose files are written to runs/NAME/.")] = None,
    language: Annotated[
        str | None, typer.Option(help="Language code of texts whose rows and file names state no language.")
    ] = None,
    languages: Annotated[
        str | None,
        typer.Option(
            help="Codes of the languages to train on, separated by commas. Default: all languages of the texts."
        ),
    ] = None,
    vocabulary: Annotated[
        int | None,
        typer.Option(
            min=292, help="Number of entries of the tokenizer's vocabulary. Default: chosen for the size of the text."
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(min=0.1, help="Time that the training may take on this machine, in minutes. Default: 60."),
    ] = None,
    epochs: Annotated[
        float | None,
        typer.Option(
            min=0.0001, help="How often the training reads the text. Default: as often as --minutes allows, at most 4."
        ),
    ] = None,
    parameters: Annotated[
        int | None,
        typer.Option(
            min=1, help="Approximate number of parameters of the model. Default: depends on the text and --minutes."
        ),
    ] = None,
    sequence_length: Annotated[
        int | None,
        typer.Option(min=8, help="Number of tokens in a training sample. Default: depends on the model's size."),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Configuration file to write. Default: NAME.yaml.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the configuration file if it exists.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Accept every proposed answer without asking.")] = False,
    probe: Annotated[
        bool,
        typer.Option(
            help="Measure how long training steps take on this machine, to choose a model that fits --minutes."
        ),
    ] = True,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as one JSON document on stdout. Ask no questions.")
    ] = False,
) -> None:
    """Read the first 1,000 rows of your texts and write a commented configuration that fits them and this machine.

    On a terminal, the command asks every question that no option answers.
    """
    import sys

    from bloomery.base.atomic import dump_json, write_text
    from bloomery.base.print_table import print_table
    from bloomery.base.progress import say
    from bloomery.base.units import format_seconds
    from data_prep.new_run.machine import guess_flops, this_machine
    from data_prep.new_run.plan_run import plan_run
    from data_prep.new_run.questions import Answers, ask_on_terminal
    from data_prep.new_run.render_run import render_run

    _refuse_existing(output, force)
    given: dict[str, Any] = {
        "source": source,
        "name": name,
        "language": language,
        "languages": None if languages is None else languages.replace(",", " ").split(),
        "vocabulary": vocabulary,
        "minutes": minutes,
        "epochs": epochs,
        "parameters": parameters,
        "sequence_length": sequence_length,
    }
    asks = sys.stdin.isatty() and not yes and not as_json
    machine = this_machine()
    say(f"this machine: {machine}")
    answers = Answers(given, ask_on_terminal if asks else None)
    run = plan_run(answers, machine, guess_flops(machine), show=not as_json)
    target = output or Path(f"{run.name}.yaml")
    _refuse_existing(target, force)
    run, seconds = _fit(run, probe)
    estimate = f"Estimated training time on this machine: {format_seconds(seconds)}" + (
        ", from steps of this model that were timed here."
        if probe
        else ". No step was timed, so this guess may be wrong."
    )
    text = render_run(run, estimate)
    config = _checked(text, str(target), run)
    write_text(target, text)
    training = config.training
    report = {
        "file": str(target),
        "parameters": run.choice.parameters,
        "train_samples": training.train_samples,
        "tokens": training.train_samples * config.model.sequence_length,
        "epochs": training.train_epochs or run.choice.epochs,
        "seconds": seconds,
    }
    if as_json:
        print(dump_json(report), end="")
        return
    if seconds > 1.3 * run.limits.seconds:
        limit = format_seconds(run.limits.seconds)
        say(
            f"warning: the training takes about {format_seconds(seconds)}, more than the {limit} of --minutes. Choose "
            "fewer --epochs or --parameters, or more --minutes"
        )
    rows = [
        ("parameters", f"{run.choice.parameters:,}"),
        ("tokens", f"{report['tokens']:,}, about {run.choice.epochs:.2g} epochs"),
        ("training", f"about {format_seconds(seconds)} on this machine"),
        ("check it", f"bloomery config check --data {target}"),
        ("run it", f"snakemake --profile workflow/profiles/local --configfile {target.absolute()}"),
    ]
    print_table(("", ""), rows, title=str(target))


def _refuse_existing(path: Path | None, force: bool) -> None:
    from bloomery.base.errors import ConfigError

    if path is not None and path.exists() and not force:
        raise ConfigError("the file exists", where=str(path), expected="--force to replace it, or another --output")


def _fit(run: NewRun, probe: bool) -> tuple[NewRun, float]:
    """Return the run with a model that fits the measured speed, and the estimated seconds of its training."""
    from dataclasses import replace

    from bloomery.base.progress import say
    from bloomery.checks.load_config import validate_config
    from data_prep.new_run.choose_model import VALIDATION_SHARE, choice_of, choose_model
    from data_prep.new_run.estimate_duration import run_probe, training_seconds

    if not probe:
        return run, run.choice.seconds
    for number in range(_PROBES):
        config = validate_config(run.values(), where="bloomery init")
        say(f"timing training steps of a model with {run.choice.parameters:,} parameters")
        found = run_probe(config)
        run = replace(run, limits=replace(run.limits, flops=found.flops(config)))
        # The start of the processes and the validations take a part of the time.
        rest = run.limits.seconds / (1 + VALIDATION_SHARE) - found.start_seconds
        limits = replace(run.limits, seconds=max(rest, 0.2 * run.limits.seconds))
        choice = choose_model(limits)
        if choice.shape != run.choice.shape and number + 1 < _PROBES:
            run = replace(run, choice=choice)
            continue
        # The last probe timed this shape, so only the length of the training may still change.
        run = replace(run, choice=choice_of(limits, run.choice.shape))
        break
    config = validate_config(run.values(), where="bloomery init")
    return run, training_seconds(config, found, run.limits.languages)


def _checked(text: str, where: str, run: NewRun) -> RunConfig:
    """Return the configuration in `text` after the checks of `bloomery config check --data`.

    Raises:
        ConfigError: a check found a problem.
    """
    import yaml

    from bloomery.checks.load_config import validate_config
    from bloomery.config.load import listed_problems
    from bloomery.orchestration.check_files import file_problems
    from data_prep.corpus.check_data import data_problems

    config = validate_config(yaml.safe_load(text), where=where)
    if problems := [*file_problems(config), *data_problems(config, run.samples)]:
        raise listed_problems(problems, where)
    return config
