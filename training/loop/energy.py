"""Energy and CO2 of the nodes, by codecarbon, offline: nothing leaves the machine.

One process a node measures the whole node (BLOOM's one a GPU counted every node eight times). The measuring runs in a
thread of codecarbon's own; reading what it last saw costs nothing. Where a machine has no counters of energy that the
training may read, codecarbon estimates from load and the processor's rating, and memory it always estimates: how much
of the energy that is goes with it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bloomery.base.errors import ConfigError, ResourceError

if TYPE_CHECKING:
    from bloomery.config.training_loop import EnergyConfig

_RECORD_EVERY_SECONDS = 300.0


@dataclass(frozen=True)
class Energy:
    """Energy since a meter's start; of ranks that measure nothing all zero, so that the sum over ranks is the total."""

    kwh: float = 0.0
    co2_kg: float = 0.0
    nodes: int = 0
    """Nodes that were measured: 1, or 0 of a rank that is not its node's first."""
    estimated_kwh: float = 0.0
    """Of `kwh`, what no sensor measured."""


class EnergyMeter:
    """Measures this node from its start to `stop`; on ranks other than a node's first it measures nothing."""

    def __init__(self, config: EnergyConfig, local_rank: int) -> None:
        """Begin to measure.

        Args:
            config: country and interval.
            local_rank: of this process on its node; the first one measures.

        Raises:
            ResourceError: codecarbon is not installed, or measures nothing here.
            ConfigError: it does not know the country.
        """
        self._tracker: Any = None
        self._seen = Energy()
        self._recorded = 0.0
        if local_rank == 0:
            self._begin(config)

    def _begin(self, config: EnergyConfig) -> None:
        try:
            from codecarbon import OfflineEmissionsTracker
            from codecarbon.input import DataSource
            from codecarbon.output_methods.base_output import BaseOutput
        except ImportError as error:
            raise ResourceError(
                f"codecarbon is not installed ({error})",
                where="training.energy",
                expected="pip install 'bloomery[energy]', or training.energy: null",
            ) from error
        # It tells of itself before its own level holds.
        logging.getLogger("codecarbon").setLevel(logging.ERROR)
        mixes: dict[str, Any] = DataSource().get_global_energy_mix_data()
        if config.country not in mixes:
            raise ConfigError(
                f"codecarbon knows no energy mix of {config.country!r}",
                where="training.energy.country",
                expected="an ISO 3166-1 alpha-3 code, such as FRA",
            )
        meter = self
        tracker: Any = None

        class Reader(BaseOutput):  # type: ignore[misc]
            """Keeps what was measured last."""

            def live_out(self, total: Any, delta: Any) -> None:
                # Its hardware is known by its first measurement.
                estimated = sum(float(getattr(total, column)) for column in estimated_columns(tracker._hardware))
                meter._seen = Energy(float(total.energy_consumed), float(total.emissions), 1, estimated)

            out = live_out

        tracker = self._tracker = OfflineEmissionsTracker(
            country_iso_code=config.country,
            measure_power_secs=config.every_seconds,
            api_call_interval=1,
            output_methods=[],
            output_handlers=[Reader()],
            tracking_mode="machine",
            allow_multiple_runs=True,
            log_level="error",
        )
        tracker.start()
        # It swallows its own errors: one measurement is made at the start, and must have arrived.
        if not self._seen.nodes:
            raise ResourceError(
                "codecarbon measures nothing on this machine", where="training.energy", expected="training.energy: null"
            )

    def reading(self) -> Energy:
        """What this node has used so far, as of the last measurement."""
        return self._seen

    def is_due(self) -> bool:
        """Whether it is time for another record: five minutes since the last time that the answer was yes."""
        now = time.monotonic()
        if self._recorded and now - self._recorded < _RECORD_EVERY_SECONDS:
            return False
        self._recorded = now
        return True

    def stop(self) -> Energy:
        """Measure a last time and end; returns what this node has used."""
        if self._tracker is not None:
            self._tracker.stop()
            self._tracker = None
        return self._seen


def estimated_columns(hardware: Iterable[Any]) -> set[str]:
    """Columns of codecarbon's totals that hold what it estimates, of the parts of a machine that it found.

    Memory by its size, and a processor in two of its modes: by load and rating, or half the rating. The rest reads
    sensors: a processor's other modes (RAPL and its like), GPUs (NVML, AMD SMI), one-chip machines.
    """
    from codecarbon.external.hardware import CPU, MODE_CPU_LOAD
    from codecarbon.external.ram import RAM

    parts = list(hardware)
    columns = {"ram_energy" for part in parts if isinstance(part, RAM)}
    return columns | {
        "cpu_energy" for part in parts if isinstance(part, CPU) and part._mode in (MODE_CPU_LOAD, "constant")
    }
