"""Record the verdicts on changed configurations: accepted with numbers, or refused with keys and messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import adapter
from command_line import CommandLine
from folders import VARIABLES, empty_folder, name_of
from mutations import mutants


def record(folder: Path) -> dict[str, Any]:
    """Return the verdict on each changed configuration with its YAML. `folder` must be empty."""
    work = empty_folder(folder / "verdicts")
    bloomery, found = CommandLine(work), {}
    for number, mutant in enumerate(mutants({name_of(path): path for path in adapter.CONFIGS})):
        name = f"changed-{number:03d}.yaml"
        (work / name).write_text(mutant.yaml, encoding="utf-8")
        check = bloomery("config", "check", name, "--json", **VARIABLES).record(work)
        # If the plan is refused, its problems are printed as JSON, each with its key.
        plan = bloomery("plan", name, "--json", **VARIABLES).record(work)
        is_refused = isinstance(plan["value"], list)
        verdict = {
            "base": mutant.base,
            "changes": mutant.changes,
            "yaml": mutant.yaml,
            "accepted": check["exit_code"] == 0,
            "refused_keys": sorted({problem["key"] for problem in plan["value"]}) if is_refused else [],
            "check": check,
            "plan": plan,
        }
        if check["exit_code"] == 0:
            verdict["show"] = bloomery("config", "show", name, "--json", **VARIABLES).record(work)
            verdict["deepspeed"] = bloomery("config", "show", name, "--deepspeed", **VARIABLES).record(work)
        found[name] = verdict
    return found
