"""Change keys of the sample's configuration, and get the error message of a wrong configuration."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml
from repository import ROOT

from bloomery.base.errors import ConfigError
from bloomery.checks.load_config import validate_config

SAMPLE: dict[str, Any] = yaml.safe_load((ROOT / "config/sample.yaml").read_text())


def changed(**changes: Any) -> dict[str, Any]:
    """Return the sample's configuration with changed keys. The argument `a__b=value` sets the key `a.b`."""
    value = copy.deepcopy(SAMPLE)
    for path, new in changes.items():
        place, keys = value, path.split("__")
        for key in keys[:-1]:
            place = place.setdefault(key, {})
        place[keys[-1]] = new
    return value


def message(raw: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        validate_config(raw, where="my.yaml")
    assert caught.value.exit_code == 2
    return str(caught.value)
