"""Test the energy meter with the real codecarbon, which measures this machine offline.

Only the first rank of a node measures.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from waiting import wait_for

from bloomery.base.errors import ConfigError, ResourceError
from bloomery.config.training_loop import EnergyConfig
from training.loop.energy import Energy, EnergyMeter, estimated_columns

BOTH = {"ram_energy", "cpu_energy"}
FRANCE = EnergyConfig(country="FRA", every_seconds=0.2)


@pytest.mark.slow
def test_only_one_rank_of_a_node_measures_and_its_energy_grows(capfd: pytest.CaptureFixture[str]) -> None:
    from codecarbon.core.cpu import is_rapl_available
    from codecarbon.core.gpu import is_nvidia_system

    first, second = EnergyMeter(FRANCE, local_rank=0), EnergyMeter(FRANCE, local_rank=1)
    try:
        began = first.reading()
        wait_for(lambda: first.reading().kwh > began.kwh, every=0.05)
        grown = first.reading()
    finally:
        ended = first.stop()
    assert grown.kwh > began.kwh >= 0
    assert ended.kwh >= grown.kwh
    assert ended.nodes == 1
    # Memory is always estimated. Processors are estimated too if their counters cannot be read.
    assert 0 < ended.estimated_kwh <= ended.kwh * (1 + 1e-9)
    if not is_rapl_available() and not is_nvidia_system():
        assert ended.estimated_kwh == pytest.approx(ended.kwh, rel=1e-9)
    # France's electricity causes about 20 to 100 g CO2 per kWh.
    assert 0.01 < ended.co2_kg / ended.kwh < 0.2
    assert second.reading() == second.stop() == Energy()
    assert first.stop() == ended, "a second stop must not change the result"
    assert capfd.readouterr().err == ""


def test_estimated_columns_are_those_that_no_counter_measures(tmp_path: Path) -> None:
    from codecarbon.external.hardware import CPU, GPU
    from codecarbon.external.ram import RAM

    counter = tmp_path / "intel-rapl" / "intel-rapl:0"
    counter.mkdir(parents=True)
    for name, text in {"name": "package-0", "energy_uj": "1000000", "max_energy_range_uj": "262143328850"}.items():
        (counter / name).write_text(f"{text}\n")
    sensor = CPU("", "intel_rapl", "a processor", 85, rapl_dir=str(tmp_path))
    assert sensor.measure_power_and_energy(1.0)[1].kWh == 0.0
    (counter / "energy_uj").write_text("37000000\n")
    assert sensor.measure_power_and_energy(1.0)[1].kWh == pytest.approx(36 / 3.6e6), "the counter grew by 36 J"
    by_load, by_rating = (CPU("", mode, "a processor", 85) for mode in ("cpu_load", "constant"))
    assert estimated_columns([RAM(), sensor, GPU([])]) == {"ram_energy"}
    assert estimated_columns([RAM(), by_load]) == estimated_columns([RAM(), by_rating, GPU([])]) == BOTH
    assert estimated_columns([GPU([])]) == set()


def test_a_record_is_due_at_once_and_then_at_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    meter, times = EnergyMeter(FRANCE, local_rank=1), iter((1000.0, 1100.0, 1299.0, 1301.0, 1302.0))
    monkeypatch.setattr(time, "monotonic", lambda: next(times))
    assert [meter.is_due() for _ in range(5)] == [True, False, False, True, False]


def test_a_country_that_codecarbon_does_not_know_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"training\.energy\.country.*'XYZ'"):
        EnergyMeter(EnergyConfig(country="XYZ"), local_rank=0)


def test_without_codecarbon_the_error_names_the_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "codecarbon", None)
    with pytest.raises(ResourceError, match=r"bloomery\[energy\]"):
        EnergyMeter(FRANCE, local_rank=0)


def test_importing_the_meter_imports_no_codecarbon() -> None:
    program = "import sys, training.loop.energy; print('codecarbon' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
