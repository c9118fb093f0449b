"""Measure energy and CO2 of the nodes with codecarbon in offline mode, in which no data leave the machine.

One process per node measures the whole node. (BLOOM used one per GPU, which counted every node eight times.) codecarbon
measures in its own thread, so reading the last values costs nothing.

If the training cannot read a machine's energy counters, codecarbon estimates the processor's energy from its load and
rating. The energy of memory is always estimated. So the estimated part of the energy is reported too.
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
    """Energy since a meter's start. On ranks that do not measure, all values are 0, so totals are sums over ranks."""

    kwh: float = 0.0
    co2_kg: float = 0.0
    nodes: int = 0
    """Number of measured nodes. For one rank it is 1 if the rank measures its node, and 0 otherwise."""
    estimated_kwh: float = 0.0
    """Part of `kwh` that was estimated and not measured by a sensor."""


class EnergyMeter:
    """Energy meter of this node, active until `stop`. Only the first rank of a node measures."""

    def __init__(self, config: EnergyConfig, local_rank: int) -> None:
        """Start the measurement.

        Args:
            config: country and interval.
            local_rank: rank of this process on its node. Local rank 0 measures.

        Raises:
            ResourceError: codecarbon is not installed, or it cannot measure on this machine.
            ConfigError: codecarbon does not know the country.
        """
        self._tracker: Any = None
        self._seen = Energy()
        self._recorded = 0.0
        if local_rank == 0:
            self._begin(config)

    def _begin(self, config: EnergyConfig) -> None:
        """Start codecarbon's tracker."""
        try:
            from codecarbon import OfflineEmissionsTracker
            from codecarbon.input import DataSource
            from codecarbon.output_methods.base_output import BaseOutput
        except ImportError as error:
            raise ResourceError(
                f"codecarbon is not installed ({error})",
                where="training.energy",
                expected="the package (pip install 'bloomery[energy]'), or training.energy: null to measure no energy",
            ) from error
        # codecarbon logs messages before it applies the argument `log_level`.
        logging.getLogger("codecarbon").setLevel(logging.ERROR)
        mixes: dict[str, Any] = DataSource().get_global_energy_mix_data()
        if config.country not in mixes:
            raise ConfigError(
                f"codecarbon has no energy mix for the country {config.country!r}",
                where="training.energy.country",
                expected="an ISO 3166-1 alpha-3 code, such as FRA",
            )
        meter = self
        tracker: Any = None

        class Reader(BaseOutput):  # type: ignore[misc]
            """Output of codecarbon that stores the last measurement."""

            def live_out(self, total: Any, delta: Any) -> None:
                # At the first measurement, the tracker has already detected the hardware.
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
        # codecarbon hides its own errors. It measures once at the start, so a missing value means that it failed.
        if not self._seen.nodes:
            raise ResourceError(
                "codecarbon cannot measure energy on this machine",
                where="training.energy",
                expected="training.energy: null, so that no energy is measured",
            )

    def reading(self) -> Energy:
        """Return the energy that this node has used up to the last measurement."""
        return self._seen

    def is_due(self) -> bool:
        """Return True at the first call and then once every 5 minutes, when an energy record is due."""
        now = time.monotonic()
        if self._recorded and now - self._recorded < _RECORD_EVERY_SECONDS:
            return False
        self._recorded = now
        return True

    def stop(self) -> Energy:
        """Measure a last time, stop the tracker, and return the energy that this node has used."""
        if self._tracker is not None:
            self._tracker.stop()
            self._tracker = None
        return self._seen


def estimated_columns(hardware: Iterable[Any]) -> set[str]:
    """Return the columns of codecarbon's totals that are estimated for the detected `hardware`.

    The energy of memory is estimated from its size. The energy of a processor is estimated in two modes: from load and
    rating, or as half of the rating. All other energy is measured by sensors: processors in other modes (such as RAPL),
    GPUs (NVML, AMD SMI) and systems on a chip.
    """
    from codecarbon.external.hardware import CPU, MODE_CPU_LOAD
    from codecarbon.external.ram import RAM

    parts = list(hardware)
    columns = {"ram_energy" for part in parts if isinstance(part, RAM)}
    return columns | {
        "cpu_energy" for part in parts if isinstance(part, CPU) and part._mode in (MODE_CPU_LOAD, "constant")
    }
