"""The command line `bloomery VERB`. The module of a verb is imported only when the verb is called, so that help is
printed quickly."""

from __future__ import annotations

import signal
import sys
import traceback
from importlib import import_module
from types import TracebackType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from bloomery.base.atomic import known_error
from bloomery.base.errors import BloomeryError
from bloomery.base.follow_parent import follow_parent
from bloomery.base.written_values import as_written

VERBS: dict[str, tuple[str, str]] = {
    "init": ("data_prep.init_cli", "Write a configuration for your own texts: asks, or takes options."),
    "doctor": ("bloomery.commands.doctor", "Check what works on this machine."),
    "config": ("bloomery.commands.config", "Check, show and document configurations."),
    "plan": ("planner.cli", "Predict the course, cost and risks of a training before it starts."),
    "logline": ("planner.logline_cli", "Read training logs; compare one with its plan."),
    "cluster": ("bloomery.commands.cluster", "Describe a SLURM cluster; rehearse a run on it."),
    "status": ("monitoring.status_cli", "Show the state of a run: progress, loss, queue, checkpoint, disk."),
    "summary": ("monitoring.summary_cli", "Summarise the results of a run: sizes, losses, parity, next command."),
    "corpus": ("data_prep.corpus.cli", "Ingest, measure, judge, deduplicate, clean and mix text."),
    "tokenizer": (
        "data_prep.tokenizer.cli",
        "Count pre-tokens; train or import a tokenizer; report on it and check it.",
    ),
    "encode": ("data_prep.index.encode_cli", "Encode shards as Megatron token files."),
    "index": ("data_prep.index.cli", "Build, verify and show a token index; adopt existing token files."),
    "trace": ("data_prep.index.trace_cli", "Show the documents and texts of training samples."),
    "report": ("data_prep.report.cli", "Write pages about the corpus."),
    "train": ("training.cli", "Train a model in segments."),
    "export": ("export.cli", "Export a checkpoint as a transformers model and verify it."),
    "publish": ("export.publish_cli", "Publish the model on a Hub or in a folder."),
    "sync": ("monitoring.sync_cli", "Push a run's logs to a Hub once."),
    "watch": ("monitoring.watch_cli", "Push a run's logs to a Hub every few minutes."),
    "tail": ("monitoring.tail_cli", "Show the end of a log, on disk or on a Hub."),
    "monitor": ("monitoring.cli", "Plot the curves of a training."),
}
"""Verb -> (module whose `app` is its Typer application, one line of help)."""


_INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells report it: 128 and the number of SIGINT."""


ACTIONS: dict[str, tuple[str, str]] = {
    "check_data": ("data_prep.corpus.check_data", "check_data"),
}
"""Name of an action of a room that a verb of the frame needs -> (module, function). The verb takes it from the
context's `obj`, because a module of the frame may not import a room."""


def load_action(name: str) -> Any:
    """Return the function of an action. Its module is imported now."""
    module, function = ACTIONS[name]
    return getattr(import_module(module), function)


class LazyVerbs(TyperGroup):
    """A group whose members are placeholders with a line of help until one of them is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Import the verb that is called, and only that one."""
        ctx.obj = load_action
        name, stand_in, rest = super().resolve_command(ctx, args)
        return name, stand_in if name is None else load_verb(name), rest

    def invoke(self, ctx: Any) -> Any:
        """Run the verb. The error of a wrong option is in our own words, because Typer's are those of pydantic."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            if error.__cause__ is not None:
                from pydantic import ValidationError

                from bloomery.config.explain_value import wrong_option

                if isinstance(error.__cause__, ValidationError):
                    error.message = wrong_option(error.__cause__)
            raise


def load_verb(verb: str) -> Any:
    """Return the command of a verb: its module's application, or the only command of that application if it has the
    verb's name."""
    application: typer.Typer = import_module(VERBS[verb][0]).app
    names = [getattr(command.callback, "__name__", "") for command in application.registered_commands]
    command = get_command(application) if names == [verb] else get_group(application)
    command.name = verb
    return command


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"bloomery {version('bloomery')}")
        raise typer.Exit


def _stand_in() -> None:
    """Serve as a placeholder for a verb in the help."""


app = typer.Typer(
    cls=LazyVerbs,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for _verb, (_, _summary) in VERBS.items():
    app.command(_verb, help=_summary)(_stand_in)


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Raw multilingual text to a published transformers model, as one Snakemake workflow."""


def _print_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the traceback of an unexpected error, without values of the configuration's environment variables."""
    sys.stderr.write(as_written("".join(traceback.format_exception(kind, error, trace))))


def main() -> int:
    """Run the command line. A Bloomery error or a disk error is printed as one readable message, with its exit code.

    Ctrl-C ends the command without a traceback, with exit code 130.
    """
    # The training rule's shell ignores SIGTERM, and its child processes inherit that.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.excepthook = _print_traceback
    follow_parent()
    try:
        app(prog_name="bloomery")
    except (BloomeryError, OSError) as error:
        known = known_error(error)
        if known is None:
            raise
        print(f"error: {known}", file=sys.stderr)
        return known.exit_code
    except KeyboardInterrupt:
        return _INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
