"""Compare the first rows of each source with the configuration (`bloomery config check --data`)."""

from __future__ import annotations

import difflib
from collections import Counter
from typing import Any

from bloomery.base.print_table import print_titled
from bloomery.base.progress import say
from bloomery.base.units import format_bytes
from bloomery.config.language_codes import meant_codes
from bloomery.config.languages import language_profiles
from bloomery.config.load import listed_problems
from bloomery.config.run import RunConfig
from bloomery.config.section import Problem
from bloomery.config.sources import Source
from bloomery.spec.text_size import bytes_per_token
from data_prep.corpus.estimate_text import estimate_documents, estimate_text_bytes
from data_prep.corpus.inspect_sources import COLUMNS, SourceSample, inspect_sources, table_rows

_ENOUGH_ROWS = 100
"""Ingest applies `max_bad_share` to a part of at least this many rows, and so does this check."""


def check_data(config: RunConfig, where: str, rows: int, *, show: bool = True) -> list[dict[str, Any]]:
    """Read the first `rows` rows of each source, check them, and return the counts of each source as JSON values.

    If `show` is true, a table of the sources is printed on stdout. Warnings are printed on stderr.

    Raises:
        ConfigError: the rows do not fit the configuration. The error lists every problem; `where` is the name of the
            configuration file.
    """
    samples = inspect_sources(config, rows)
    if show:
        print_titled(COLUMNS, table_rows(samples), f"first {rows:,} rows of each source")
        print(_text_estimate(config, samples))
    for warning in data_warnings(samples):
        say(f"warning: {warning}")
    if problems := data_problems(config, samples):
        raise listed_problems(problems, where)
    return [
        {
            "source": sample.name,
            "files": len(sample.files),
            "rows": sample.rows,
            "complete": sample.complete,
            "languages": dict(sorted(sample.languages.items())),
            "bad": dict(sorted(sample.bad.items())),
            "repeated_ids": sample.repeated_ids,
            "text_bytes": sample.text_bytes,
            "fields": dict(sample.fields),
        }
        for sample in samples
    ]


def _text_estimate(config: RunConfig, samples: list[SourceSample]) -> str:
    """Return a sentence with the estimated amount of text. Sources that are not made of files are left out."""
    known = [sample for sample in samples if sample.files or sample.complete]
    size = sum(estimate_text_bytes(sample) for sample in known)
    tokens = round(size / bytes_per_token(config.tokenizer.vocabulary_size))
    which = "all sources" if len(known) == len(samples) else f"{len(known)} of {len(samples)} sources"
    documents = sum(estimate_documents(sample) for sample in known)
    languages = len({code for sample in samples for code in sample.languages})
    return (
        f"estimated text of {which}: {format_bytes(size)}, about {tokens:,} tokens in {documents:,} documents and "
        f"{languages} language{'' if languages == 1 else 's'}, before cleaning (values for plan.corpus_tokens, "
        "plan.corpus_documents and plan.corpus_languages)"
    )


def data_problems(config: RunConfig, samples: list[SourceSample]) -> list[Problem]:
    """Return every problem that the rows show: unknown fields, bad rows, wrong codes, weights without text."""
    numbers = {source.name: number for number, source in enumerate(config.sources)}
    problems = []
    for source, sample in zip(config.text_sources, samples, strict=True):
        problems += _of_source(source, sample, f"sources[{numbers[source.name]}]")
    if not problems:
        problems += _of_weights(config, samples)
    return problems


def data_warnings(samples: list[SourceSample]) -> list[str]:
    """Return findings that do not stop a run: repeated ids, and languages without a profile."""
    found = []
    for sample in samples:
        if sample.repeated_ids:
            found.append(
                f"sources[{sample.name}]: {sample.repeated_ids} of {sample.rows} rows repeat the id of an earlier "
                "row; the search for duplicates gives each of them a new id"
            )
        plain = [code for code in sample.languages if code not in language_profiles() and not meant_codes(code)]
        if plain:
            found.append(
                f"sources[{sample.name}]: config/languages has no profile of {', '.join(sorted(plain))}, so "
                "the language labels of documents in these languages are not checked, and the limits of the profile "
                "`default` apply"
            )
    return found


def _of_source(source: Source, sample: SourceSample, key: str) -> list[Problem]:
    if sample.error is not None:
        error = sample.error
        return [Problem(key, None, f"{key}: {error.where}: {error.what}", error.expected or "")]
    if not sample.rows:
        right = "at least one row in the files of the source; check these files, or remove the source"
        return [Problem(key, None, f"{key}: the source {source.name!r} has no row", right)]
    if unknown := _unknown_fields(source, sample, key):
        return unknown
    problems = []
    first = sample.first_bad
    bad = sample.bad.total()
    if first and (bad == sample.rows or (sample.rows >= _ENOUGH_ROWS and bad > source.max_bad_share * sample.rows)):
        reason = f"{first.reason}: {first.detail}" if first.detail else first.reason
        message = f"{key}: {bad} of {sample.rows} rows are bad; the first is {first.place}: {reason}"
        right = "rows with a text and a language code, or a higher `max_bad_share`"
        if first.reason == "no language":
            right = (
                "the key `language` or `language_field`, or files whose names begin with a language code (fr.jsonl.zst)"
            )
        elif first.reason == "damaged file":
            right = f"undamaged files of the kind `{source.kind}`; copy the file again, or correct `kind`"
        problems.append(Problem(key, None, message, right))
    field = getattr(source, "language_field", None)
    for code, count in sorted(sample.languages.items()):
        # The configuration's own checks report a wrong `language`.
        if code != source.language and (meant := meant_codes(code)):
            at = f"{key}.language_field" if field else key
            message = (
                f"{at}: {count} of {sample.rows} rows have the language {code!r}, which is not a language code that "
                "Bloomery uses"
            )
            right = f"the language code {' or '.join(map(repr, meant))} in these rows"
            problems.append(Problem(at, field, message, right))
    return problems


def _unknown_fields(source: Source, sample: SourceSample, key: str) -> list[Problem]:
    """Return a problem for each configured field that no row has."""
    problems = []
    for role in ("text_field", "language_field", "id_field", "licence_field"):
        name = getattr(source, role, None)
        if name is None or not sample.fields or sample.fields[name]:
            continue
        near = difflib.get_close_matches(name, sample.fields, n=1, cutoff=0.5)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        message = f"{key}.{role}: none of the {sample.rows} rows has a field {name!r}{hint}"
        problems.append(
            Problem(f"{key}.{role}", name, message, f"one of the fields of the rows: {', '.join(sample.fields)}")
        )
    return problems


def _of_weights(config: RunConfig, samples: list[SourceSample]) -> list[Problem]:
    """Return a problem for each weight whose language no row has, and one if the method `explicit` lacks weights."""
    found = sum((sample.languages for sample in samples), Counter[str]())
    for adopted in config.adopted_sources:
        found[adopted.language] += 1
    mixture, key = config.corpus.mixture, "corpus.mixture.weights"
    rows = sum(sample.rows for sample in samples)
    right = f"a weight only for the languages of the rows: {', '.join(sorted(found))}"
    if not all(sample.complete for sample in samples):
        right += "; if the language comes later in a source, read more rows with --rows"
    problems = [
        Problem(f"{key}.{code}", weight, f"{key}.{code}: none of the {rows} rows has the language {code!r}", right)
        for code, weight in mixture.weights.items()
        if weight > 0 and not found[code]
    ]
    absent = sorted(set(found) - set(mixture.weights))
    if mixture.method == "explicit" and absent:
        message = f"{key}: corpus.mixture.method is 'explicit', but there is no weight for {', '.join(absent)}"
        problems.append(
            Problem(key, None, message, "a weight for every language of the corpus (a weight of 0 excludes a language)")
        )
    return problems
