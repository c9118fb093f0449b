"""Record the generated files and the plan of every shipped configuration, with DeepSpeed's JSON."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import adapter
from command_line import CommandLine, normalised
from folders import VARIABLES, empty_folder, name_of

_STATES = ("iteration=0", "iteration=1", "iteration=250", "iteration=60000", "samples=1000", "tokens=50_000_000_000")
_LINE = ("--log-line", "--seconds-per-iteration", "105.5", "--loss", "2.125", "--grad-norm", "0.25")


def record(folder: Path) -> dict[str, Any]:
    """Return what each command printed for each configuration. `folder` must be empty."""
    work = empty_folder(folder / "plans")
    bloomery = CommandLine(work)

    def ask(*words: str) -> dict[str, Any]:
        return bloomery(*words, **VARIABLES).record(work)

    found: dict[str, Any] = {}
    for config in adapter.CONFIGS:
        name = name_of(config)
        answers = {
            "config check": ask("config", "check", name),
            "config check --json": ask("config", "check", name, "--json"),
            "config show --json": ask("config", "show", name, "--json"),
            "config show --deepspeed": ask("config", "show", name, "--deepspeed"),
            "plan": ask("plan", name),
            "plan --json": ask("plan", name, "--json"),
            "plan --gpu --json": ask("plan", name, "--gpu", "a100-80gb", "--grid", "france", "--json"),
            "plan --suggest --json": ask("plan", name, "--gpu", "a100-80gb", "--suggest", "--gpus", "64", "--json"),
            "plan simulate --json": ask(
                *("plan", "simulate", name, "--gpu", "a100-80gb", "--replicates", "20"),
                *("--days-between-failures", "14", "--json"),
            ),
        }
        for state in _STATES:
            answers[f"plan --at {state}"] = ask("plan", name, "--at", state, "--json")
            answers[f"plan --at {state} --log-line"] = ask("plan", name, "--at", state, *_LINE, "--json")
        rehearsal = work / "rehearsal.yaml"
        answers["cluster rehearse"] = ask("cluster", "rehearse", name, "--output", "rehearsal.yaml", "--nodes", "1")
        if rehearsal.exists():
            answers["cluster rehearse"]["file"] = ask("config", "show", "rehearsal.yaml", "--json")
            rehearsal.unlink()
        found[name] = answers
    tables = {
        "gpus": ask("plan", "gpus", "--json"),
        "grids": ask("plan", "grids", "--json"),
        "reference": ask("config", "reference"),
        "schema": _without_class_names(ask("config", "schema")),
    }
    models = [name_of(config) for config in adapter.CONFIGS if config.parent.name == "models"]
    tables["page"] = ask("plan", "page", *models, "--output", "pages")
    pages = {path.name: path for path in sorted((work / "pages").iterdir())}
    tables["page"]["pages"] = {
        name: {"text": normalised(path.read_text(), work)}
        if path.suffix == ".md"
        else {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        for name, path in pages.items()
    }
    return {"configurations": found, "tables": tables}


def _without_class_names(answer: dict[str, Any]) -> dict[str, Any]:
    """Replace the references in a JSON schema by the definitions, because a definition has the name of a class, which a
    refactoring may change."""
    definitions = answer["value"].pop("$defs", {})

    def inlined(value: Any, *, names: bool = False) -> Any:
        if isinstance(value, list):
            return [inlined(each) for each in value]
        if not isinstance(value, dict):
            return value
        if "$ref" in value:
            value = definitions[value["$ref"].rpartition("/")[2]] | {k: v for k, v in value.items() if k != "$ref"}
        # Below `properties`, keys are names of configuration keys. One of them may be `title`, which must not be
        # dropped.
        dropped = () if names else ("title", "mapping")
        return {
            key: inlined(each, names=key == "properties" and not names)
            for key, each in value.items()
            if key not in dropped
        }

    return answer | {"value": inlined(answer["value"])}
