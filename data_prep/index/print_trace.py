"""Print the result of `bloomery trace` for people: one line per sample, then two lines and the text per document."""

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
    """Return a console as wide as the terminal, but at most `_WIDEST` columns, so that lines stay readable."""
    from rich.console import Console

    made = Console(highlight=False)
    made.width = min(made.width, _WIDEST)
    return made


def said_of(selection: Selection) -> Iterator[str]:
    """Yield lines that describe what is traced: iteration, skipped samples, rank and notes."""
    if batch := selection.batch:
        loss = f", loss {batch.loss:.4f}" if batch.loss is not None else ""
        yield f"iteration {batch.iteration:,}: {batch.samples:,} samples from sample {batch.first_sample:,} on{loss}"
        yield from (f"skipped: samples {first:,} to {end - 1:,}" for first, end in _between(batch.spans))
    if reader := selection.reader:
        place, count = reader.place, len(selection.samples)
        where = f"rank {reader.rank}: pipeline stage {place.pipeline}, replica {place.data}, tensor rank {place.tensor}"
        if reader.holds_data:
            yield f"{where}; the rank reads the {count:,} samples of its replica"
        else:
            yield f"{where}; the rank receives activations, not tokens; its replica reads these {count:,} samples"
    yield from (f"note: {note}" for note in selection.notes)


def _between(spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the gaps between consecutive spans as (first sample, first sample after the gap)."""
    for (_, first), (end, _) in pairwise(spans):
        yield first, end


def said_of_datasets(datasets: dict[str, int]) -> str:
    """Return a line with the number of samples per dataset, largest first."""
    ordered = sorted(datasets.items(), key=lambda item: (-item[1], item[0]))
    return "datasets: " + ", ".join(f"{name} {count:,}" for name, count in ordered)


def shortened(text: str) -> str:
    """Return `text`, without the middle if the text is long."""
    left_out = len(text) - _HEAD_CHARACTERS - _TAIL_CHARACTERS
    if left_out < _TAIL_CHARACTERS:
        return text
    return f"{text[:_HEAD_CHARACTERS]} […{left_out:,} characters…] {text[-_TAIL_CHARACTERS:]}"


def show(samples: Iterable[TracedSample], target: Console, *, whole: bool) -> None:
    """Print samples one by one. If `whole` is true, texts are not shortened."""
    for sample in samples:
        target.print()
        for indent, text in _sample(sample, whole):
            for line in text.wrap(target, target.width - indent):
                target.print(" " * indent, line, sep="", soft_wrap=True)


Lines = Iterator[tuple[int, "Text"]]
"""Paragraphs, each with its indent in columns."""


def _sample(sample: TracedSample, whole: bool) -> Lines:
    from rich.text import Text

    facts = [f"sample {sample.dataset_sample:,} of the dataset {visible(sample.dataset)}"]
    if sample.iteration is not None:
        facts.append(f"iteration {sample.iteration:,}, replica {sample.replica}")
    tokens = sum(document.end - document.begin for document in sample.documents)
    count = len(sample.documents)
    facts.append(f"{tokens:,} tokens of {count} document{'s' if count != 1 else ''}")
    yield 0, Text.assemble((f"sample {sample.sample:,}", "bold"), f": {'; '.join(facts)}")
    for number, document in enumerate(sample.documents, start=1):
        yield from _document(number, document, whole)


_MATCHES = {True: ", same text as in the shard", False: ", DIFFERS FROM THE SHARD", None: ""}


def _document(number: int, document: TracedDocument, whole: bool) -> Lines:
    from rich.text import Text

    # Names come from untrusted sources too, so control characters are made visible.
    names = visible(f"{document.language}  {document.source}  {document.shard} row {document.row:,}  {document.id}")
    yield 2, Text(f"{number}. {names}", style="cyan")
    facts = f"tokens {document.begin:,} to {document.end - 1:,} of {document.tokens:,}"
    if (document.begin, document.end) == (0, document.tokens):
        facts = f"all {document.tokens:,} tokens"
    if document.epoch is not None:
        facts += f", epoch {document.epoch}"
    style = "bold red" if document.text_matches_shard is False else "dim"
    yield 5, Text(facts + _MATCHES[document.text_matches_shard], style=style)
    if document.text is not None:
        text = document.text if whole else shortened(document.text)
        yield 5, Text(visible(text, newlines=whole) or "(only the end-of-document token)")
