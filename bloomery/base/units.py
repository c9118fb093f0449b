"""Sizes, durations and counts in a form that people read and write."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema

_FACTORS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
}
_SIZE = "a size such as 1048576, '64MiB' or '2GB'"
_GREATEST = 2**63


def parse_bytes(value: int | str) -> int:
    """Convert `"64MiB"`, `"2 GB"` or a plain number of bytes to bytes.

    Raises:
        ValueError: the value is not a size. The message has examples of valid sizes.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        count = value
    else:
        match = re.fullmatch(r"\s*(\d{1,40}(?:\.\d{1,40})?)\s*([A-Za-z]*)\s*", str(value))
        factor = _FACTORS.get(match.group(2).lower()) if match else None
        if match is None or factor is None:
            raise ValueError(_SIZE)
        count = int(float(match.group(1)) * factor)
    if abs(count) > _GREATEST:
        raise ValueError(f"{_SIZE}, at most 2^63 bytes")
    return count


SIZE_SCHEMA = {"type": ["integer", "string"], "pattern": r"^\s*\d+(\.\d+)?\s*([KkMmGgTt]?[Ii]?[Bb])?\s*$"}

Bytes = Annotated[int, BeforeValidator(parse_bytes), WithJsonSchema(SIZE_SCHEMA, mode="validation")]
"""A size in bytes, written as a number or with a unit (kB, MB, GB, TB, KiB, MiB, GiB, TiB)."""


def format_bytes(count: float) -> str:
    """Format a size: `1536` -> `1.5 KiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def format_seconds(seconds: float) -> str:
    """Format a duration: `3725` -> `1 h 2 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def format_count(count: float) -> str:
    """Format a count: `1234567` -> `1.23 M`."""
    for unit in ("", " k", " M", " B"):
        if abs(count) < 1000:
            return f"{count:.0f}" if unit == "" else f"{count:.3g}{unit}"
        count /= 1000
    return f"{count:.3g} T"


def format_finite(value: float | None, form: str) -> str:
    """Format a measured value, for example with the form `.4f`. None means that the value was not finite and gives `not
    finite`."""
    return "not finite" if value is None else f"{value:{form}}"


def format_energy(kwh: float, co2_kg: float, estimated_kwh: float | None) -> str:
    """Format energy and CO2: `433196, 24690, 51984` -> `433,196 kWh (12 % estimated), 24,690 kg CO2`.

    Values below 1,000 have four significant digits. `estimated_kwh` is the part of `kwh` that no sensor measured. If it
    is None, the text does not say what was measured.
    """
    energy, co2 = (f"{value:,.0f}" if value >= 1000 else f"{value:.4g}" for value in (kwh, co2_kg))
    return f"{energy} kWh{_estimated(kwh, estimated_kwh)}, {co2} kg CO2"


def _estimated(kwh: float, estimated_kwh: float | None) -> str:
    if estimated_kwh is None or not kwh:
        return ""
    if not estimated_kwh:
        return " (measured)"
    percent = round(100 * estimated_kwh / kwh)
    return " (estimated)" if percent >= 100 else f" ({percent or 'under 1'} % estimated)"
