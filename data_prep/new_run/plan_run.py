"""Ask the questions of `bloomery init` in turn. Proposals follow from earlier answers and from the sources' rows."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

from bloomery.base.errors import ConfigError
from bloomery.base.print_table import print_titled
from bloomery.config.language_codes import meant_codes
from data_prep.corpus.estimate_text import estimate_documents, estimate_text_bytes
from data_prep.corpus.inspect_sources import COLUMNS, SourceSample, table_rows
from data_prep.new_run.choose_model import Limits, choose_model, vocabulary_for
from data_prep.new_run.guess_source import guess_source, named_languages, read_rows, states_language
from data_prep.new_run.machine import Machine
from data_prep.new_run.questions import Answers
from data_prep.new_run.render_run import NewRun

MINUTES = 60.0
"""Proposed time of the training, in minutes."""
_NAME = re.compile(r"[^A-Za-z0-9_-]+")


def plan_run(answers: Answers, machine: Machine, flops: float, *, show: bool) -> NewRun:
    """Return the new run.

    Args:
        answers: gives the answer to each question.
        machine: the machine of the training.
        flops: guessed operations per second of a training on this machine.
        show: whether to print the table of the sources on stdout.

    Raises:
        InputError: a path names no file, or rows have no text.
        ConfigError: an answer is wrong, or the language of some texts is unknown.
    """
    paths = answers.answer("source", None)
    if not paths:
        raise ConfigError(
            "no texts were given", where="--source", expected="files, a pattern in quotes, or a folder with your texts"
        )
    guessed = [guess_source(path, name) for path, name in zip(paths, source_names(paths), strict=True)]
    sources, samples = [keys for keys, _ in guessed], [sample for _, sample in guessed]
    if show:
        print_titled(COLUMNS, table_rows(samples), "first rows of each source")
    name = answers.answer("name", sources[0]["name"])
    for number, (keys, sample) in enumerate(zip(sources, samples, strict=True)):
        if not states_language(sample):
            language = answers.answer("language", None)
            if language is None:
                raise ConfigError(
                    f"rows and file names of {paths[number]} state no language",
                    where="--language",
                    expected="the language code of these texts (fr, sw, zhs, code, ...)",
                )
            keys["language"] = str(language)
            _refuse_other_codes([str(language)], "--language")
            samples[number] = read_rows(keys)
    found = sum((sample.languages for sample in samples), Counter[str]())
    languages = _wanted(answers.answer("languages", None), found)
    sources, samples = _only(languages, sources, samples)
    excluded = sorted({code for sample in samples for code in sample.languages} - languages)
    text_bytes = sum(_text_bytes(sample, languages) for sample in samples)
    limits = Limits(
        machine=machine,
        flops=flops,
        text_bytes=text_bytes,
        languages=len({code for sample in samples for code in sample.languages} & languages),
        vocabulary=answers.answer("vocabulary", vocabulary_for(text_bytes)),
        seconds=60.0 * answers.answer("minutes", MINUTES),
        epochs=answers.answer("epochs", None),
        parameters=answers.answer("parameters", None),
        sequence_length=answers.answer("sequence_length", None),
    )
    documents = max(1, sum(_documents(sample, languages) for sample in samples))
    return NewRun(name, sources, samples, excluded, limits, choose_model(limits), documents, frozenset(answers.asked))


def source_names(paths: list[str]) -> list[str]:
    """Return a different name for each path: the name of its file, or of its folder if the path is a pattern."""
    names: list[str] = []
    for path in paths:
        parts = [part for part in Path(path).absolute().parts if not set(part) & set("*?[")]
        base = _NAME.sub("-", parts[-1].split(".")[0] if parts else "").strip("-") or "texts"
        same = sum(name == base or name.startswith(f"{base}-") for name in names)
        names.append(f"{base}-{same + 1}" if same else base)
    return names


def _refuse_other_codes(codes: list[str], where: str) -> None:
    for code in codes:
        if meant := meant_codes(code):
            raise ConfigError(
                f"{code!r} is not one of Bloomery's language codes", where=where, expected=" or ".join(meant)
            )


def _wanted(asked: list[str] | None, found: Counter[str]) -> set[str]:
    """Return the languages to read: those that the user asked for, else all that the rows have."""
    if asked is None:
        return set(found)
    _refuse_other_codes(asked, "--languages")
    if absent := sorted(set(asked) - set(found)):
        raise ConfigError(
            f"these languages occur in none of the rows that were read: {', '.join(absent)}",
            where="--languages",
            expected=f"one or more languages of these rows: {', '.join(found)}",
        )
    return set(asked)


def _only(
    languages: set[str], sources: list[dict[str, Any]], samples: list[SourceSample]
) -> tuple[list[dict[str, Any]], list[SourceSample]]:
    """Return the sources with a document in one of the languages, without the files of other languages.

    Only files whose names begin with a language code can be left out.
    """
    kept = []
    for keys, sample in zip(sources, samples, strict=True):
        by_language = named_languages(sample)
        if set(sample.languages) <= languages:
            kept.append((keys, sample))
        elif by_language and set(by_language) & languages:
            files = [file for code in sorted(by_language) if code in languages for file in by_language[code]]
            smaller = keys | {"paths": files}
            kept.append((smaller, read_rows(smaller)))
        elif not by_language and set(sample.languages) & languages:
            kept.append((keys, sample))
    return [keys for keys, _ in kept], [sample for _, sample in kept]


def _text_bytes(sample: SourceSample, languages: set[str]) -> int:
    """Return the estimated bytes of text of a source in these languages."""
    own = sum(size for code, size in sample.language_bytes.items() if code in languages)
    return round(estimate_text_bytes(sample) * own / max(1, sample.text_bytes))


def _documents(sample: SourceSample, languages: set[str]) -> int:
    """Return the estimated number of documents of a source in these languages."""
    own = sum(rows for code, rows in sample.languages.items() if code in languages)
    return round(estimate_documents(sample) * own / max(1, sample.rows))
