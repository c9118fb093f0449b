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
    "init": (
        "data_prep.init_cli",
        "Write a configuration for your own texts. The command asks questions, or takes the answers from options.",
    ),
    "doctor": ("bloomery.commands.doctor", "Check whether this machine has all that Bloomery needs."),
    "config": ("bloomery.commands.config", "Check or print a run's configuration, or print the reference of all keys."),
    "run": ("bloomery.commands.run", "Start the workflow of a run, or bring back one that was killed."),
    "stop": ("bloomery.commands.stop", "Let the training of a run save and end, and end the run's workflow."),
    "plan": ("planner.cli", "Predict the course, cost and risks of a training before it starts."),
    "logline": ("planner.logline_cli", "Parse a training log, or compare it with the plan of its run."),
    "cluster": (
        "bloomery.commands.cluster",
        "Write the file that describes a SLURM cluster; test a small copy of a run on the cluster.",
    ),
    "nodes": (
        "bloomery.commands.nodes",
        "List, exclude or include nodes of the cluster for the next training segments of a run.",
    ),
    "status": (
        "monitoring.status_cli",
        "Show the state of a run: progress, loss, SLURM jobs, newest checkpoint, disk space.",
    ),
    "summary": (
        "monitoring.summary_cli",
        "Summarise the results of a run: sizes, losses, comparison of the exported model with the trained one.",
    ),
    "verify": (
        "monitoring.verify_cli",
        "Verify every file of a run, from the published model back to the sources.",
    ),
    "corpus": ("data_prep.corpus.cli", "Build the corpus: ingest, measure, filter, deduplicate, clean and mix text."),
    "tokenizer": (
        "data_prep.tokenizer.cli",
        "Count pre-tokens, train or import a tokenizer, and report on the tokenizer.",
    ),
    "encode": ("data_prep.index.encode_cli", "Encode shards of documents as Megatron token files (.bin and .idx)."),
    "index": (
        "data_prep.index.cli",
        "Build, verify or show the index of training samples; prepare existing token files for the index.",
    ),
    "trace": ("data_prep.index.trace_cli", "Show which documents and texts the training samples contain."),
    "report": ("data_prep.report.cli", "Write the report on the documents that the corpus keeps and removes."),
    "train": ("training.cli", "Train a model in segments, such as SLURM jobs, that resume from checkpoints."),
    "checkpoint": ("training.checkpoint.cli", "Inspect a checkpoint, write it for another layout, or repair it."),
    "import": ("export.import_cli", "Import a transformers model as a checkpoint, to train it further."),
    "export": ("export.cli", "Export a checkpoint as a transformers model, and verify the model."),
    "publish": ("export.publish_cli", "Publish the exported model on a Hub or in a local folder."),
    "sync": ("monitoring.sync_cli", "Upload the logs of a run to a Hub once."),
    "watch": ("monitoring.watch_cli", "Watch a run: upload its logs to a Hub every few minutes, and raise alerts."),
    "alerts": ("monitoring.alerts.cli", "List and acknowledge the alerts of a run, and test where they are sent."),
    "tail": ("monitoring.tail_cli", "Show the last lines of a run's log, on this machine or on a Hub."),
    "monitor": ("monitoring.cli", "Plot the loss and other values of a training."),
}
"""Map from each verb to (module whose `app` is the verb's Typer application, one line of help)."""


_INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells report it: 128 plus the number of SIGINT."""


ACTIONS: dict[str, tuple[str, str]] = {
    "check_data": ("data_prep.corpus.check_data", "check_data"),
}
"""Map from an action's name to (module, function). A verb of the frame (`bloomery/`) needs the action, but only a room
provides it. The verb takes it from `obj` of the Typer context, because the frame may not import a room."""


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
        """Run the verb. If an option's value is wrong, replace the message of pydantic by one of Bloomery's."""
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
        bool,
        typer.Option(
            "--version", help="Print the version of Bloomery and exit.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Train a language model on raw multilingual text and publish it, as one Snakemake workflow."""


def _print_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the traceback of an unexpected error, without values of the configuration's environment variables."""
    sys.stderr.write(as_written("".join(traceback.format_exception(kind, error, trace))))


def main() -> int:
    """Run the command line. A Bloomery error or a disk error is printed as one readable message, with its exit code.

    Ctrl-C ends the command without a traceback, with exit code 130.
    """
    # The shell of the training rule ignores SIGTERM, and this process inherits that, so restore the default.
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
