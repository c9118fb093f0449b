"""Define what the commands of `bloomery plan` share: options for a plan's assumptions, and the report of a refused
plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from bloomery.config.run import RunConfig

Gpu = Annotated[
    str | None,
    typer.Option(help="Type of GPU to plan for, instead of plan.gpu (`bloomery plan gpus` lists the types)."),
]


def load_planned(file: Path, *, as_json: bool, **stated: Any) -> RunConfig:
    """Load the configuration and apply the command line's assumptions to its section `plan`.

    If the plan is refused, print the reasons and exit with code 1.
    """
    from dataclasses import asdict

    from bloomery.base.atomic import dump_json
    from bloomery.base.errors import ConfigError
    from bloomery.checks.load_config import validate_config
    from bloomery.config.yaml_text import read_yaml

    raw = read_yaml(file)
    try:
        return validate_config(_overridden(raw, stated), where=str(file))
    except ConfigError as error:
        if not error.problems:  # The file does not contain a configuration.
            raise
        if as_json:
            rows = [asdict(problem) for problem in error.problems]
            print(dump_json([{**row, "value": _plain(row["value"])} for row in rows]), end="")
        typer.echo(f"the plan is refused: {error}", err=True)
        raise typer.Exit(1) from error


def _plain(value: Any) -> Any:
    """Return the value, or its text if JSON cannot represent it."""
    import json

    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return str(value)
    return value


def _overridden(raw: Any, stated: dict[str, Any]) -> Any:
    stated = {key: value for key, value in stated.items() if value is not None}
    if not stated or not isinstance(raw, dict) or not isinstance(raw.get("plan") or {}, dict):
        return raw
    plan = dict(raw.get("plan") or {})
    if "days_between_failures" in stated:
        faults = plan.get("faults") or {}
        if not isinstance(faults, dict):
            return raw
        plan["faults"] = faults | {"days_between_failures": stated.pop("days_between_failures")}
    return raw | {"plan": plan | stated}
