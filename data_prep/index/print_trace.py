"""What `bloomery trace` shows to a person: a line a sample, two a document, its text below them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from data_prep.index.trace import TracedDocument, TracedSample
from data_prep.index.trace_batch import Selection
from data_prep.index.visible import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_HEAD_CHARACTERS, _TAIL_CHARACTERS = 240, 120
_WIDEST = 120


def console() -> Console:
    """Of the terminal's width, but no wider than a line is read well."""
    from rich.console import Console

    made = Console(highlight=False)
    made.width = min(made.width, _WIDEST)
    return made


def said_of(selection: Selection) -> Iterator[str]:
    """What is traced, a line a fact."""
    if batch := selection.batch:
        loss = f", loss {batch.loss:.4f}" if batch.loss is not None else ""
        yield f"iteration {batch.iteration:,}: {batch.samples:,} samples from {batch.first_sample:,}{loss}"
        yield from (f"skipped: samples {first:,} to {end - 1:,}" for first, end in _between(batch.spans))
    if reader := selection.reader:
        place, count = reader.place, len(selection.samples)
        where = f"rank {reader.rank}: pipeline stage {place.pipeline}, replica {place.data}, tensor rank {place.tensor}"
        if reader.holds_data:
            yield f"{where}; reads the {count:,} samples of its replica"
        else:
            yield f"{where}; is fed activations, no tokens: its replica reads these {count:,} samples"
    yield from (f"note: {note}" for note in selection.notes)


def _between(spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """What lies between spans, as they: the first, and the first behind."""
    for (_, first), (end, _) in pairwise(spans):
        yield first, end


def said_of_datasets(datasets: dict[str, int]) -> str:
    """One line about where samples come from, the greatest dataset first."""
    ordered = sorted(datasets.items(), key=lambda item: (-item[1], item[0]))
    return "datasets: " + ", ".join(f"{name} {count:,}" for name, count in ordered)


def shortened(text: str) -> str:
    """`text`, its middle left out where it is long."""
    left_out = len(text) - _HEAD_CHARACTERS - _TAIL_CHARACTERS
    if left_out < _TAIL_CHARACTERS:
        return text
    return f"{text[:_HEAD_CHARACTERS]} […{left_out:,} characters…] {text[-_TAIL_CHARACTERS:]}"


def show(samples: Iterable[TracedSample], target: Console, *, whole: bool) -> None:
    """Print samples as they come; `whole`: texts are not shortened."""
    for sample in samples:
        target.print()
        for indent, text in _sample(sample, whole):
            for line in text.wrap(target, target.width - indent):
                target.print(" " * indent, line, sep="", soft_wrap=True)


Lines = Iterator[tuple[int, "Text"]]
"""Indent and text of paragraphs."""


def _sample(sample: TracedSample, whole: bool) -> Lines:
    from rich.text import Text

    facts = [f"sample {sample.dataset_sample:,} of {visible(sample.dataset)}"]
    if sample.iteration is not None:
        facts.append(f"iteration {sample.iteration:,}, replica {sample.replica}")
    tokens = sum(document.end - document.begin for document in sample.documents)
    count = len(sample.documents)
    facts.append(f"{tokens:,} tokens of {count} document{'s' if count != 1 else ''}")
    yield 0, Text.assemble((f"sample {sample.sample:,}", "bold"), f": {'; '.join(facts)}")
    for number, document in enumerate(sample.documents, start=1):
        yield from _document(number, document, whole)


_MATCHES = {True: ", as in the shard", False: ", DIFFERS FROM THE SHARD", None: ""}


def _document(number: int, document: TracedDocument, whole: bool) -> Lines:
    from rich.text import Text

    # Names come from sources, too.
    names = visible(f"{document.language}  {document.source}  {document.shard} row {document.row:,}  {document.id}")
    yield 2, Text(f"{number}. {names}", style="cyan")
    facts = f"tokens {document.begin:,} to {document.end:,} of {document.tokens:,}"
    if (document.begin, document.end) == (0, document.tokens):
        facts = f"all {document.tokens:,} tokens"
    if document.epoch is not None:
        facts += f", epoch {document.epoch}"
    style = "bold red" if document.text_matches_shard is False else "dim"
    yield 5, Text(facts + _MATCHES[document.text_matches_shard], style=style)
    if document.text is not None:
        text = document.text if whole else shortened(document.text)
        yield 5, Text(visible(text, newlines=whole) or "(its end)")
