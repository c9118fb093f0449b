"""Test that sizes and durations are parsed and printed with their units."""

from __future__ import annotations

import re

import pytest

from bloomery.base.units import SIZE_SCHEMA, format_bytes, format_count, format_energy, format_seconds, parse_bytes


@pytest.mark.parametrize(
    ("text", "count"),
    [("64KiB", 65_536), ("2 GB", 2_000_000_000), ("1.5 MiB", 1_572_864), (17, 17), ("17", 17), ("256.0 MiB", 1 << 28)],
)
def test_a_size_is_read_with_its_unit(text: str | int, count: int) -> None:
    assert parse_bytes(text) == count
    assert isinstance(text, int) or re.fullmatch(SIZE_SCHEMA["pattern"], text)


@pytest.mark.parametrize("text", ["lots", "12 parsec", "-1", "", True, "1e3"])
def test_an_invalid_size_is_refused_with_an_example(text: str | bool) -> None:
    with pytest.raises(ValueError, match="'64MiB'"):
        parse_bytes(text)
    assert not isinstance(text, str) or not re.fullmatch(SIZE_SCHEMA["pattern"], text)


def test_sizes_durations_and_counts_are_printed_in_short_form() -> None:
    assert [format_bytes(n) for n in (0, 1536, 1 << 30, 5 << 40)] == ["0 B", "1.5 KiB", "1.0 GiB", "5.0 TiB"]
    assert [format_seconds(s) for s in (0.25, 59.9, 3599.6, 3725)] == ["0.2 s", "59.9 s", "1 h 0 min", "1 h 2 min"]
    assert [format_count(n) for n in (999, 1_234_567, 341_600_000_000)] == ["999", "1.23 M", "342 B"]


def test_printed_energy_states_its_estimated_share() -> None:
    assert format_energy(433_196.0, 24_690.0, 51_984.0) == "433,196 kWh (12 % estimated), 24,690 kg CO2"
    said = {1.5: "1.5 kWh (estimated)", 0.003: "1.5 kWh (under 1 % estimated)", 0.0: "1.5 kWh (measured)"}
    for estimated, energy in {**said, None: "1.5 kWh"}.items():
        assert format_energy(1.5, 0.25, estimated) == f"{energy}, 0.25 kg CO2"
    assert format_energy(0.0, 0.0, 0.0) == "0 kWh, 0 kg CO2", "without any energy, the text has no estimated share"
