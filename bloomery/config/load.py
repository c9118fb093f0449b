"""Validate a YAML document and turn it into a typed section.

All problems are reported together. Each one has its key path, the wrong value and a description of valid values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from bloomery.base.errors import ConfigError
from bloomery.base.written_values import as_written, expand, tree_as_written
from bloomery.config.explain_value import location_of, most_specific, right_value, shown
from bloomery.config.replace_wrong_values import Location, path_text, replace_wrong_value, touches
from bloomery.config.section import Contradiction, Problem
from bloomery.config.suggest_key import suggestion
from bloomery.config.yaml_text import refuse_endless

S = TypeVar("S", bound=BaseModel)

_INSTEAD = {
    "training.train_samples": ", or the key training.train_epochs instead",
    "training.optimizer.learning_rate": ", or the section training.batch_scaling instead",
}
"""Missing key -> end of the error message, which names another key that may be stated instead."""


def validate(
    raw: Any,
    model: type[S],
    *,
    where: str,
    example: str,
    checks: Callable[[S], list[Contradiction]] | None = None,
    placed: Callable[[Problem], Problem] | None = None,
) -> S:
    """Validate a parsed YAML document against `model`.

    Args:
        raw: the parsed document.
        model: the section that the document must describe.
        where: path of the file, for error messages.
        example: description of a valid document, for error messages.
        checks: function that finds contradictions between sections.
        placed: function that replaces the location of a problem whose value does not come from the YAML itself.

    Raises:
        ConfigError: the document is not valid. The error lists every problem.
    """
    if not isinstance(raw, dict):
        raise ConfigError("is not a mapping of keys to values", where=where, expected=example)
    refuse_endless(raw, where)
    missing: dict[str, Problem] = {}
    config, found = _validate(_expand(raw, "", missing), raw, model, set(missing), checks)
    problems = list({str(problem): problem for problem in map(_as_written, [*missing.values(), *found])}.values())
    if config is None or problems:
        raise listed_problems([placed(problem) for problem in problems] if placed else problems, where)
    return config


def listed_problems(problems: list[Problem], where: str) -> ConfigError:
    """Return one error that lists all problems, each on its own line. `where` is the path of the configuration."""
    listed = "\n".join(f"  {problem}" for problem in problems)
    count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"
    return ConfigError(f"{count}\n{listed}", where=where, problems=problems)


def _validate(
    raw: dict[str, Any],
    written: Any,
    model: type[S],
    wrong: set[str],
    checks: Callable[[S], list[Contradiction]] | None,
) -> tuple[S | None, list[Problem]]:
    """Return the configuration and all problems. The configuration is None if any single value is wrong.

    pydantic compares keys with each other only if each key is valid by itself. Therefore wrong values are replaced in
    `raw` and the document is validated again, until only contradictions between keys remain. A contradiction that
    involves a replaced value is dropped.

    Args:
        raw: the document with environment variables replaced. It is changed.
        written: the document before environment variables were replaced, for messages.
        model: the section that the document must describe.
        wrong: paths of the keys that are already known to be wrong. It is extended.
        checks: function that finds contradictions between sections.
    """
    problems: list[Problem] = []
    while True:
        contradictions: list[Contradiction] = []
        try:
            config = model.model_validate(raw, context=contradictions)
        except ValidationError as error:
            known, replaced = set(wrong), set[str]()
            for detail in most_specific(error):
                location = location_of(detail)
                path = path_text(location)
                # A replaced value may cause an error of the section or list that contains it. Such errors are ignored.
                if not touches(known, path) and not any(touches({path}, inside) for inside in known):
                    problems.append(_explain(detail, model, written))
                if not touches(replaced, path):  # a section that contains the value may be replaced already
                    replaced.add(path_text(replace_wrong_value(raw, location)))
            wrong |= replaced
            if wrong == known:  # no further wrong value can be replaced
                return None, problems
            continue
        contradictions += checks(config) if checks else []
        found = [each.problem for each in contradictions if not any(touches(wrong, key) for key in each.keys)]
        return (None if problems else config), problems + found


def _as_written(problem: Problem) -> Problem:
    reason, right = as_written(problem.reason), as_written(problem.suggestion)
    return replace(problem, value=tree_as_written(problem.value), reason=reason, suggestion=right)


def _expand(value: Any, path: str, missing: dict[str, Problem]) -> Any:
    """Replace `${NAME}` in strings by the value of the environment variable.

    Variables that are not set are added to `missing` as problems, by key path.
    """
    if isinstance(value, dict):
        return {key: _expand(item, f"{path}.{key}" if path else str(key), missing) for key, item in value.items()}
    if isinstance(value, list):
        return [_expand(item, f"{path}[{number}]", missing) for number, item in enumerate(value)]
    if not isinstance(value, str):
        return value

    def absent(name: str) -> None:
        reason = f"{path}: environment variable {name} is not set"
        missing[path] = Problem(path, value, reason, f"a value for {name}, set by `export {name}=...`")

    return expand(value, absent)


def expanded(text: str, key: str, where: str) -> str:
    """Return the value of one key with its environment variables replaced.

    Raises:
        ConfigError: an environment variable in the value is not set.
    """
    missing: dict[str, Problem] = {}
    value: str = _expand(text, key, missing)
    if missing:
        raise ConfigError(str(missing[key]), where=where, problems=list(missing.values()))
    return value


def _explain(detail: ErrorDetails, model: type[BaseModel], written: Any) -> Problem:
    """Describe one pydantic error. The message shows values as in `written`, the document with `${NAME}`."""
    location = location_of(detail)
    path, kind = path_text(location), detail["type"]
    value = _value_at(written, location, detail.get("input"))
    if kind == "extra_forbidden":
        hint = suggestion(location, model, value)
        return Problem(path, value, f"{path}: unknown key (value {shown(value)}){hint}")
    if kind == "missing":
        return Problem(path, None, f"{path}: missing", right_value(detail, model, location) + _INSTEAD.get(path, ""))
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        path, value = f"{path}.kind", value.get("kind") if isinstance(value, dict) else value
        if value is None:
            return Problem(path, None, f"{path}: missing", right_value(detail, model, location))
    return Problem(path, value, f"{path}: {shown(value)} is not valid", right_value(detail, model, location))


def _value_at(written: Any, location: Location, otherwise: Any) -> Any:
    """Return the value at `location` of the document as written. Return `otherwise` if the document lacks it."""
    for part in location:
        if isinstance(written, dict):
            found = [key for key in written if str(key) == str(part)]
            if not found:
                return otherwise
            written = written[found[0]]
        elif isinstance(written, list) and isinstance(part, int) and part < len(written):
            written = written[part]
        else:
            return otherwise
    return written
