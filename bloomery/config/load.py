"""Load YAML into a typed section. All problems are reported together, each with its key path, its value and what would
be right."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from bloomery.base.errors import ConfigError
from bloomery.config.keys import all_keys, models_in
from bloomery.config.replace_wrong_values import path_text, replace_wrong_value, touches
from bloomery.config.section import Contradiction, Problem

S = TypeVar("S", bound=BaseModel)
_MAX_DEPTH = 50
_MAX_VALUES = 1_000_000
_MEMBER = re.compile(r"(function-\w+|dict|list|constrained-\w+)\[")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class _UniqueKeyLoader(yaml.SafeLoader):
    """SafeLoader that rejects duplicate keys, which PyYAML would silently overwrite."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue  # the mapping may override keys that `<<: *anchor` merges
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                raise yaml.constructor.ConstructorError(
                    None, None, "a key must be a word, not a list or a mapping", key_node.start_mark
                )
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is written twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def read_yaml(path: Path) -> Any:
    """Parse a YAML file.

    Raises:
        ConfigError: the file is missing, unreadable or not YAML, contains a key twice, or is nested too deeply.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ConfigError("no such file", where=str(path), expected="a run's YAML, e.g. config/sample.yaml") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read ({error})", where=str(path)) from error
    try:
        value = yaml.load(text, Loader=_UniqueKeyLoader)
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # PyYAML raises these for impossible dates and numbers
        raise ConfigError(f"not valid YAML: {error}", where=str(path)) from error
    except RecursionError as error:
        raise _too_deep(str(path)) from error
    _refuse_endless(value, str(path))
    return value


def _too_deep(where: str) -> ConfigError:
    return ConfigError(
        f"nested deeper than {_MAX_DEPTH} levels, or an anchor that contains itself",
        where=where,
        expected="a run's YAML",
    )


def _refuse_endless(value: Any, where: str) -> None:
    """Raise ConfigError if aliases make the document endless or far larger than its text."""
    waiting, values = [(value, 0)], 0
    while waiting:
        item, depth = waiting.pop()
        values += 1
        if depth > _MAX_DEPTH:
            raise _too_deep(where)
        if values > _MAX_VALUES:
            raise ConfigError(f"more than {_MAX_VALUES:,} values after its aliases are expanded", where=where)
        inner = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
        waiting += [(each, depth + 1) for each in inner]


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
        where: the file, for error messages.
        example: what would be right, for error messages.
        checks: finds contradictions between sections.
        placed: replaces the location of a problem that is not in the YAML itself.

    Raises:
        ConfigError: lists every problem.
    """
    if not isinstance(raw, dict):
        raise ConfigError("is not a mapping of keys", where=where, expected=example)
    _refuse_endless(raw, where)
    missing: dict[str, Problem] = {}
    config, found = _validate(_expand(raw, "", missing), model, set(missing), checks)
    problems = list({str(problem): problem for problem in [*missing.values(), *found]}.values())
    if config is None or problems:
        raise listed_problems([placed(problem) for problem in problems] if placed else problems, where)
    return config


def listed_problems(problems: list[Problem], where: str) -> ConfigError:
    """Return one error that lists every problem, one on each line. `where` is the configuration's file."""
    listed = "\n".join(f"  {problem}" for problem in problems)
    count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"
    return ConfigError(f"{count}\n{listed}", where=where, problems=problems)


def _validate(
    raw: dict[str, Any], model: type[S], wrong: set[str], checks: Callable[[S], list[Contradiction]] | None
) -> tuple[S | None, list[Problem]]:
    """Return the configuration (None if any single value is wrong) and all problems.

    `wrong` holds the key paths that are already known to be wrong. pydantic compares keys with each other only if each
    key is valid by itself. Therefore wrong values are replaced in `raw` and the rest is validated again, until only
    contradictions remain. A contradiction that involves a replaced value is dropped.
    """
    problems: list[Problem] = []
    while True:
        contradictions: list[Contradiction] = []
        try:
            config = model.model_validate(raw, context=contradictions)
        except ValidationError as error:
            known, replaced = set(wrong), set[str]()
            for detail in error.errors():
                location = _without_tags(detail["loc"])
                path = path_text(location)
                if not touches(known, path):
                    problems.append(_explain(detail, model))
                if not touches(replaced, path):  # otherwise a section that contains it was replaced already
                    replaced.add(path_text(replace_wrong_value(raw, location)))
            wrong |= replaced
            if wrong == known:  # no wrong value can be replaced
                return None, problems
            continue
        contradictions += checks(config) if checks else []
        found = [each.problem for each in contradictions if not any(touches(wrong, key) for key in each.keys)]
        return (None if problems else config), problems + found


def _expand(value: Any, path: str, missing: dict[str, Problem]) -> Any:
    """Replace `${NAME}` in strings by the environment variable, and collect the variables that are not set in
    `missing`."""
    if isinstance(value, dict):
        return {key: _expand(item, f"{path}.{key}" if path else str(key), missing) for key, item in value.items()}
    if isinstance(value, list):
        return [_expand(item, f"{path}[{number}]", missing) for number, item in enumerate(value)]
    if not isinstance(value, str):
        return value

    def replace(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in os.environ:
            reason = f"{path}: environment variable {name} is not set"
            missing[path] = Problem(path, value, reason, f"export {name}=...")
            return match.group(0)
        return os.environ[name]

    return _VARIABLE.sub(replace, value)


def expanded(text: str, key: str, where: str) -> str:
    """Return one value with its environment variables replaced.

    Raises:
        ConfigError: a variable is not set.
    """
    missing: dict[str, Problem] = {}
    value: str = _expand(text, key, missing)
    if missing:
        raise ConfigError(str(missing[key]), where=where, problems=list(missing.values()))
    return value


def _explain(detail: ErrorDetails, model: type[BaseModel]) -> Problem:
    location = _without_tags(detail["loc"])
    path = path_text(location)
    kind, value = detail["type"], detail.get("input")
    if kind == "extra_forbidden":
        near = _nearest(location, model)
        hint = f"; did you mean {near!r}?" if near else ""
        hint = "; only another kind of source has this key" if near == path else hint
        return Problem(path, value, f"{path}: unknown key (value {_short(value)}){hint}")
    if kind == "missing":
        return Problem(path, None, f"{path}: missing", "a value for this key")
    message = detail["msg"].removeprefix("Value error, ")
    return Problem(path, value, f"{path}: {_short(value)} is not right", f"{message[:1].lower()}{message[1:]}")


def _without_tags(location: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Drop pydantic's names of union members (`sources, 0, jsonl, paths` -> `sources, 0, paths`)."""
    location = tuple(part for part in location if not (isinstance(part, str) and _MEMBER.match(part)))
    if len(location) > 2 and location[0] == "sources" and isinstance(location[1], int):
        return (*location[:2], *location[3:])
    return location


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _nearest(location: tuple[int | str, ...], model: type[BaseModel]) -> str | None:
    """Return the known key that was probably meant: the same name in another section, then a similar name in the same
    section, then a similar name anywhere. Return None if there is no such key."""
    wrong, parent = str(location[-1]), ".".join(part for part in location[:-1] if isinstance(part, str))
    everywhere = {path.rsplit(".", 1)[-1]: path for path in all_keys(model)}
    if wrong in everywhere and everywhere[wrong].rpartition(".")[0] != parent:
        return everywhere[wrong]
    found = difflib.get_close_matches(wrong, _known_keys(model, location[:-1]), n=1, cutoff=0.5)
    if found:
        return path_text((*location[:-1], found[0]))
    found = difflib.get_close_matches(wrong, list(everywhere), n=1, cutoff=0.75)
    return everywhere[found[0]] if found else None


def _known_keys(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    models = [model]
    for part in location:
        inner = [m.model_fields[part].annotation for m in models if isinstance(part, str) and part in m.model_fields]
        models = [found for annotation in inner for found in models_in(annotation)] or models
    return sorted({name for m in models for name in m.model_fields})
