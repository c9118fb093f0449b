"""List the models and publications of a run, the one that the workflow builds first."""

from __future__ import annotations

from bloomery.base.errors import BloomeryError
from bloomery.base.json_member import read_member
from bloomery.contracts.parity import PARITY_NAME
from bloomery.contracts.paths import RunPaths


def configured_name(paths: RunPaths) -> str:
    """Return the name of the model that the workflow exports."""
    try:
        return read_member(paths.config / "export.json", "model_name", kind=str)
    except BloomeryError:
        return paths.run.name


def model_names(paths: RunPaths) -> list[str]:
    """Return the names of all models in `export`. A model has another name than the configured one if it was exported
    before the name changed, or by hand."""
    return _configured_first(paths, [path.parent.name for path in paths.export.glob(f"*/{PARITY_NAME}")])


def published_names(paths: RunPaths) -> list[str]:
    """Return the names of all models of which `results/publish` has a record."""
    records = paths.results.glob("publish/*.json"), paths.results.glob("publish/*/.record.json")
    names = [path.name.removesuffix(".json") for path in records[0]] + [path.parent.name for path in records[1]]
    return _configured_first(paths, names)


def _configured_first(paths: RunPaths, names: list[str]) -> list[str]:
    name = configured_name(paths)
    return [name, *sorted({*names} - {name})]
