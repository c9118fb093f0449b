"""State the versions of the packages that wrote and proved a model."""

from __future__ import annotations

from importlib.metadata import version

import bloomery


def exporting_versions() -> dict[str, str]:
    """Return the version of each package, by name."""
    packages = ("safetensors", "tokenizers", "torch", "transformers")
    return {"bloomery": bloomery.__version__, **{package: version(package) for package in packages}}
