"""`bloomery trace`: print the documents and texts of training samples."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from data_prep.index.trace import TracedSample, Tracer
    from data_prep.index.trace_batch import Selection, Training

app = typer.Typer(help="Print the documents of training samples.", add_completion=False)

SHOWN = 16
"""Number of samples printed without --limit and --json."""


class TextMode(StrEnum):
    """How much of each text is shown."""

    NONE = "none"
    EXCERPT = "excerpt"
    FULL = "full"


@app.command()
def trace(
    run: Annotated[Path, typer.Argument(help="Folder of the run, such as runs/sample.")],
    iteration: Annotated[
        int | None, typer.Option(help="Show the samples of this iteration, counted from 1 as in the log.")
    ] = None,
    rank: Annotated[
        int | None, typer.Option(help="With --iteration: show only the samples that the replica of this rank reads.")
    ] = None,
    samples: Annotated[
        str | None,
        typer.Option(help="Show sample N, or with A:B the samples A to B - 1. The first sample is 0."),
    ] = None,
    validation: Annotated[
        str | None,
        typer.Option(help="Name of a validation set (a language code). Show its samples, not training samples."),
    ] = None,
    text: Annotated[
        TextMode | None,
        typer.Option(
            help="How much of each document's text to show. With `none`, the command is faster, but does not compare "
            "the tokens with the text in the shard.",
            show_default="excerpt; with --json: full",
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Maximum number of samples to show.", show_default=f"{SHOWN}; with --json: all"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document to stdout.")] = False,
) -> None:
    """Print the documents, languages, sources and texts of training samples.

    For example, to see what the training read at a loss spike: bloomery trace runs/sample --iteration 40 --rank 1.
    """
    from dataclasses import replace

    from bloomery.base.errors import ConfigError
    from bloomery.contracts.paths import RunPaths
    from bloomery.orchestration.prepare_run import check_run
    from data_prep.index.trace import Tracer
    from data_prep.index.trace_batch import Selection, Training

    right = (
        validation is None and (iteration is None) != (samples is None) and (rank is None or iteration is not None)
    ) or (validation is not None and iteration is None and rank is None)
    if not right:
        raise ConfigError(
            "the options do not select samples",
            where="bloomery trace",
            expected="--iteration N, --iteration N --rank R, --samples A:B, or --validation NAME --samples A:B",
        )
    check_run(run)
    wanted = text or (TextMode.FULL if as_json else TextMode.EXCERPT)
    tracer, training = Tracer(RunPaths(run), texts=wanted is not TextMode.NONE), Training.of(RunPaths(run))
    if iteration is not None:
        selection = training.select(iteration, rank)
    elif validation is not None:
        held = tracer.reader.validation_samples(validation)
        selection = Selection(_range(samples, held, f"validation set {validation}"), validation)
    else:
        selection = Selection(_range(samples, tracer.reader.train_samples, "the training"))
    if validation is None:
        changes = training.changes(tracer.reader.manifest)
        selection = replace(selection, notes=(*selection.notes, *changes))
    count = len(selection.samples)
    shown = selection.samples[: limit or (count if as_json else SHOWN)]
    found = _traced(tracer, training, selection, shown)
    if as_json:
        _print_json(run, tracer, selection, found, wanted)
    else:
        _print(tracer, selection, found, wanted)
        if len(shown) < count:
            print(f"\n{count - len(shown):,} more samples are not shown. --limit {count} shows all samples")


def _range(text: str | None, held: int, what: str) -> Sequence[int]:
    """Parse `A:B` or `N`, or return all `held` samples if `text` is None.

    Raises:
        ConfigError: the text is neither a number nor a range.
        SampleRangeError: the range is empty or outside of the `held` samples.
    """
    from bloomery.base.errors import ConfigError
    from bloomery.contracts.sample_reader import SampleRangeError

    if text is None:
        return range(held)
    first, colon, behind = text.partition(":")
    if not (first.isdecimal() and (behind.isdecimal() or not colon)):
        raise ConfigError(
            f"the value is {text!r}", where="--samples", expected="a number N or a range A:B, counted from 0"
        )
    begin = int(first)
    end = int(behind) if colon else begin + 1
    if not begin < end <= held:
        raise SampleRangeError(
            f"{begin}:{end} is not a range within the samples of {what}",
            where="--samples",
            expected=f"A:B with A less than B, and B at most {held}",
        )
    return range(begin, end)


def _traced(tracer: Tracer, training: Training, of: Selection, samples: Sequence[int]) -> Iterator[TracedSample]:
    for sample in samples:
        if of.validation is not None:
            yield tracer.validation(of.validation, sample)
        else:
            yield tracer.train(sample, training.read_by(sample, of.batch))


def _datasets(tracer: Tracer, selection: Selection) -> dict[str, int]:
    """Return the number of selected samples per dataset."""
    from collections import Counter

    if selection.validation is not None:
        return {selection.validation: len(selection.samples)}
    names = tracer.reader.train_names
    return dict(sorted(Counter(names[tracer.reader.locate(sample)[0]] for sample in selection.samples).items()))


def _print_json(
    run: Path, tracer: Tracer, selection: Selection, samples: Iterator[TracedSample], text: TextMode
) -> None:
    """Print one JSON object, sample by sample, so that a batch of thousands of samples is never held in memory."""
    from dataclasses import asdict

    from data_prep.index.print_trace import shortened

    def dump(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)

    batch, reader = selection.batch, selection.reader
    header = {
        "run": run.as_posix(),
        "index": tracer.reader.manifest.digest,
        "iteration": None if batch is None else {**asdict(batch), "agrees": batch.agrees},
        "rank": None if reader is None else asdict(reader),
        "validation": selection.validation,
        "notes": selection.notes,
        "count": len(selection.samples),
        "datasets": _datasets(tracer, selection),
    }
    lines = (f"{dump(key)}: {dump(value)}" for key, value in header.items())
    sys.stdout.write("{\n" + ",\n".join(lines) + ',\n"samples": [')
    for number, sample in enumerate(samples):
        value = asdict(sample)
        for document in value["documents"] if text is TextMode.EXCERPT else ():
            document["text"] = shortened(document["text"])
        sys.stdout.write(("," if number else "") + "\n" + dump(value))
    sys.stdout.write("\n]\n}\n")


def _print(tracer: Tracer, selection: Selection, samples: Iterator[TracedSample], text: TextMode) -> None:
    from data_prep.index import print_trace

    console = print_trace.console()
    for line in (*print_trace.said_of(selection), print_trace.said_of_datasets(_datasets(tracer, selection))):
        console.print(line, markup=False)
    print_trace.show(samples, console, whole=text is TextMode.FULL)
