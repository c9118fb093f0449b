"""Find the files that a configuration names but that do not exist, for `bloomery config check` and `bloomery init`.

A plan or a rehearsal needs no files, so loading a configuration does not look for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from bloomery.base.errors import ConfigError, InputError
from bloomery.config.run import RunConfig
from bloomery.config.section import Problem
from bloomery.config.sources import HubSource
from bloomery.contracts.initial_checkpoint import initial_weights
from bloomery.orchestration.plan_parts import evaluation_files, plan_parts
from bloomery.orchestration.tokenizer_origin import local_files


def file_problems(config: RunConfig) -> list[Problem]:
    """Return a problem for each key whose file, folder or pattern matches nothing on this machine.

    Names that may also be a repository on a Hub (`owner/name`) are not checked.
    """
    problems = []
    for number, source in enumerate(config.sources):
        if isinstance(source, HubSource):
            continue
        if found := _raised(f"sources[{number}].paths", partial(plan_parts, source, config.corpus.ingest)):
            problems.append(found)
    if found := _raised("corpus.decontaminate.paths", partial(evaluation_files, config.corpus.decontaminate)):
        problems.append(found)
    existing = config.tokenizer.existing
    if existing is not None and (found := _raised("tokenizer.existing", partial(local_files, existing))):
        problems.append(found)
    if found := _raised("training.initial_checkpoint", partial(initial_weights, config)):
        problems.append(found)
    for key, value, right in _single_paths(config):
        if not Path(value).exists():
            problems.append(Problem(key, value, f"{key}: no file or folder {value!r}", right))
    return problems


def _single_paths(config: RunConfig) -> Iterator[tuple[str, str, str]]:
    """Yield (key, path, what would be right) for each key that holds one path."""
    language_id = config.corpus.language_id
    for name, path in (("fallback_model", language_id.fallback_model), ("fasttext_model", language_id.fasttext_model)):
        if path is not None:
            yield f"corpus.language_id.{name}", path, "the path of an existing model of language identification"
    if (parallel := config.tokenizer.report.parallel) is not None:
        yield (
            "tokenizer.report.parallel",
            parallel,
            "the path of a folder with files <language>.txt, or of a JSON Lines file",
        )
    for number, run in enumerate(config.corpus.dedup.against):
        yield f"corpus.dedup.against[{number}]", run, "the folder of an earlier run, such as runs/old"


def _raised(key: str, action: Callable[[], object]) -> Problem | None:
    """Return the error that `action` raises as a problem of `key`; None if it raises nothing."""
    try:
        action()
    except (ConfigError, InputError) as error:
        where = error.where if isinstance(error, ConfigError) else f"{key} {error.where}"
        return Problem(key, None, f"{where}: {error.what}", error.expected or "")
    return None
