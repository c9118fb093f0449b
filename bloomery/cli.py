"""`bloomery VERB`: a table of verbs; a room is imported only when its verb is called, so that help answers at once."""

from __future__ import annotations

import signal
import sys
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from bloomery.base.atomic import known_error
from bloomery.base.errors import BloomeryError
from bloomery.base.follow_parent import follow_parent

VERBS: dict[str, tuple[str, str]] = {
    "doctor": ("bloomery.commands.doctor", "What this machine can do."),
    "config": ("bloomery.commands.config", "Check, show and document configurations."),
    "plan": ("planner.cli", "What a training will do, cost and risk, before it starts."),
    "logline": ("planner.logline_cli", "Read training logs; compare one with its plan."),
    "cluster": ("bloomery.commands.cluster", "Describe a SLURM cluster; rehearse a run there."),
    "status": ("monitoring.status_cli", "How a run stands: progress, loss, queue, checkpoint, disk."),
    "summary": ("monitoring.summary_cli", "What a run made: sizes, losses, parity, next command."),
    "corpus": ("data_prep.corpus.cli", "Ingest, measure, judge, deduplicate, clean, mix."),
    "tokenizer": ("data_prep.tokenizer.cli", "Count, train, import, report, check."),
    "encode": ("data_prep.index.encode_cli", "Shards to Megatron token files."),
    "index": ("data_prep.index.cli", "Build, verify, show; adopt existing token files."),
    "trace": ("data_prep.index.trace_cli", "The documents and texts behind training samples."),
    "report": ("data_prep.report.cli", "Pages about the corpus."),
    "train": ("training.cli", "Train in segments."),
    "export": ("export.cli", "Merge a checkpoint into a transformers model and prove it."),
    "publish": ("export.publish_cli", "Push the model to a Hub or a folder."),
    "sync": ("monitoring.sync_cli", "Push a run's logs to a Hub, once."),
    "watch": ("monitoring.watch_cli", "Push a run's logs to a Hub every few minutes."),
    "tail": ("monitoring.tail_cli", "The end of a log, on disk or on a Hub."),
    "monitor": ("monitoring.cli", "Plots of a training."),
}
"""Verb -> (module whose `app` is its Typer application, one line of help)."""


class LazyVerbs(TyperGroup):
    """A group whose members are stand-ins with a line of help until one of them is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Import the verb that is called, and only that one."""
        name, stand_in, rest = super().resolve_command(ctx, args)
        return name, stand_in if name is None else load_verb(name), rest


def load_verb(verb: str) -> Any:
    """The command of a verb: its module's application, or that application's only command when it bears the name."""
    application: typer.Typer = import_module(VERBS[verb][0]).app
    names = [getattr(command.callback, "__name__", "") for command in application.registered_commands]
    command = get_command(application) if names == [verb] else get_group(application)
    command.name = verb
    return command


def _stand_in() -> None:
    """Hold a verb's place in the help."""


app = typer.Typer(
    cls=LazyVerbs,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Bloomery: raw multilingual text to a published transformers model, as one Snakemake workflow.",
)
for _verb, (_, _summary) in VERBS.items():
    app.command(_verb, help=_summary)(_stand_in)


def main() -> int:
    """Run the command line; an error of ours, or of the disk, is one readable message and its exit code."""
    # The rule of a training ignores it for its shell's sake, and programs inherit that.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    follow_parent()
    try:
        app(prog_name="bloomery")
    except (BloomeryError, OSError) as error:
        known = known_error(error)
        if known is None:
            raise
        print(f"error: {known}", file=sys.stderr)
        return known.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
