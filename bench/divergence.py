"""Claim: a loss that climbs slowly is found before it has risen by 10 %, almost without false alarms.

python bench/divergence.py [--metrics METRICS.jsonl] > bench/results/divergence.json

The program simulates losses and gradient norms, and passes them to the divergence detector with its default settings.
tests/support/simulated_losses.py states where the numbers of the simulation are from.

- Divergences: the program simulates 20 runs with different noise for each shape of the climb and each position in a
  training. The loss climbs by the factor 3.0 / 2.2, and the gradient norm rises fourfold. A divergence counts as found
  if the alarm comes before the trend, which is the loss without noise, has risen by 10 %. At the first two positions,
  the batches are small, so the noise limits every detector. The limits apply to the other positions only.
- Healthy trainings: the program simulates complete trainings with warm-up, batch ramp-up, curriculum and spikes that
  recover. Every alarm in them is false.
- The spike detector gets the divergences of the first shape at iteration 31,000, in a simulation without spikes.
- `--metrics` names the metrics of a real training without divergence. The program measures the noise of this training,
  to compare it with the simulated noise, and counts the alarms.

The program prints JSON.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from _support import report

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from simulated_losses import PLANS, Plan, Simulated, alarms, climb, diverging, simulate

from bloomery.config.training_loop import DivergenceConfig, SpikeConfig
from bloomery.contracts.read_metrics import valid_records
from bloomery.detect.divergence import DivergenceDetector
from bloomery.detect.spike import SpikeDetector

RUNS = 20
BEFORE = 5000
"""Largest number of healthy iterations before a divergence. It is larger than the detector's window."""
LONGEST = 4000
"""Largest number of simulated iterations of a divergence."""
LIMITS = {"found_of_20": 19, "rise": 0.10, "false_alarms_per_100000": 1.0, "healthy_iterations": 1_000_000}
SHAPES = [
    *(("linear", duration) for duration in (300, 1000, 3000, 10_000)),
    *(("accelerating", duration) for duration in (300, 1000, 3000, 10_000)),
    *(("slowing", duration) for duration in (1000, 3000, 10_000)),
]
"""Shapes of the climb, and iterations until the loss has risen by the factor 3.0 / 2.2."""
RAMPUP, CURRICULUM = "BLOOM: ramp-up from 192 to 2048 samples", "curriculum from 64 to 2048 tokens in steps of 8"


class Place(NamedTuple):
    """Position of a divergence in a simulated training."""

    plan: str
    begin: int
    """Iteration after which the loss climbs."""
    limited: bool
    """Whether the limits apply."""


PLACES = [
    Place(RAMPUP, 600, limited=False),
    Place(RAMPUP, 3000, limited=False),
    Place(RAMPUP, 12_000, limited=True),
    Place(RAMPUP, 31_000, limited=True),
    Place(RAMPUP, 90_000, limited=True),
    Place(CURRICULUM, 15_000, limited=True),
]


def detector() -> DivergenceDetector:
    """Return a detector with the default settings."""
    own = DivergenceConfig()
    return DivergenceDetector(own.window_iterations, own.least_rise, own.deviations)


def run_at(place: Place, shape: str, duration: int, seed: int, plan: Plan | None = None) -> Simulated:
    """Simulate one divergence, with up to 5000 healthy iterations before it."""
    # With different seeds, the divergence begins at different places in the detector's block of iterations.
    begin = place.begin + 7 * seed
    healthy = min(place.begin - 1, BEFORE)
    iterations = min(duration, LONGEST)
    return diverging(
        plan or PLANS[place.plan], healthy, iterations, seed, first=begin - healthy + 1, climb=climb(shape, duration)
    )


def rise(run: Simulated, iteration: int, begin: int) -> float:
    """Return the relative rise of the trend from iteration `begin` to `iteration`."""
    return float(run.trend[iteration - run.first] / run.trend[begin - run.first]) - 1.0


def divergences(place: Place, shape: str, duration: int) -> dict[str, Any]:
    """Return how many of 20 divergences are found in time, and the rises of the loss at the alarms."""
    rises: list[float] = []
    iterations: list[int] = []
    before = 0
    for seed in range(RUNS):
        run, begin = run_at(place, shape, duration, seed), place.begin + 7 * seed
        found = [each.iteration for each in alarms(detector(), run)]
        before += sum(each <= begin for each in found)
        after = [each for each in found if each > begin]
        rises += [rise(run, after[0], begin)] if after else []
        iterations += [after[0] - begin] if after else []
    return {
        "training": place.plan,
        "iteration": place.begin,
        "shape": shape,
        "duration": duration,
        "found_of_20": sum(each < LIMITS["rise"] for each in rises),
        "rise_at_alarm": {"median": round(median(rises), 4), "greatest": round(max(rises), 4)} if rises else None,
        "iterations_to_alarm": median(iterations) if iterations else None,
        "false_alarms_before": before,
        "limited": place.limited,
    }


def healthy(name: str, trainings: int, iterations: int) -> dict[str, Any]:
    """Return the number of false alarms in complete healthy trainings."""
    count = sum(
        len(list(alarms(detector(), simulate(PLANS[name], iterations, seed)))) for seed in range(1000, 1000 + trainings)
    )
    return {"training": name, "iterations": trainings * iterations, "false_alarms": count}


def found_by_spikes() -> int:
    """Return in how many of 20 runs the spike detector finds the climb from 2.2 to 3.0 before a rise of 10 %."""
    own, place, found = SpikeConfig(), PLACES[3], 0
    plan = replace(PLANS[place.plan], spikes_per_iteration=0.0)
    for seed in range(RUNS):
        run, begin = run_at(place, *SHAPES[0], seed, plan), place.begin + 7 * seed
        spikes = SpikeDetector(own.window_iterations, own.deviations)
        fired = [number for number, loss, norm, _ in run.rows() if spikes.seen(number, norm, loss) is not None]
        found += any(number > begin and rise(run, number, begin) < LIMITS["rise"] for number in fired)
    return found


def real_noise(path: Path) -> dict[str, Any]:
    """Measure the noise of log(loss) in a real training, and count the alarms."""
    steps, _ = valid_records(path)
    own = detector()
    found = [own.seen(each.iteration, each.loss, each.grad_norm, length=each.sequence_length or 0) for each in steps]
    logs = np.log([each.loss for each in steps if each.loss is not None])
    parts = []
    for start in range(200, len(logs) - 399, 400):
        part = logs[start : start + 400]
        # A cubic polynomial describes the decline within 400 iterations.
        rest = part - np.polyval(np.polyfit(np.arange(400), part, 3), np.arange(400))
        apart = {lag: round(float(np.corrcoef(rest[:-lag], rest[lag:])[0, 1]), 2) for lag in (1, 8, 16, 48)}
        parts.append(
            {
                "iterations": [start + 1, start + 400],
                "deviation": round(float(1.4826 * np.median(np.abs(np.diff(part))) / math.sqrt(2)), 4),
                "kurtosis": round(float(np.mean(rest**4) / np.var(rest) ** 2), 1),
                "correlation_at_lag": apart,
            }
        )
    return {
        "iterations": len(steps),
        "global_batch_size": steps[-1].global_batch_size,
        "alarms": sum(each is not None for each in found),
        "noise_of_log_loss": parts,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metrics", type=Path, help="metrics.jsonl of a real training without divergence")
    parser.add_argument("--iterations", type=int, default=100_000, help="iterations of each healthy training")
    options = parser.parse_args()
    found = [divergences(place, *shape) for place in PLACES for shape in SHAPES]
    quiet = [healthy(name, 3, options.iterations) for name in PLANS]
    iterations = sum(each["iterations"] for each in quiet)
    false = sum(each["false_alarms"] for each in quiet)
    per_100000 = 1e5 * false / iterations
    passed = (
        all(each["found_of_20"] >= LIMITS["found_of_20"] for each in found if each["limited"])
        and per_100000 <= LIMITS["false_alarms_per_100000"]
        and iterations >= LIMITS["healthy_iterations"]
    )
    result = {
        "settings": DivergenceConfig().model_dump(mode="json"),
        "divergences": found,
        "found_by_the_spike_detector_of_20": found_by_spikes(),
        "healthy": quiet,
        "healthy_iterations": iterations,
        "false_alarms_per_100000": round(per_100000, 3),
        "real": real_noise(options.metrics) if options.metrics else None,
        "limits": LIMITS,
    }
    return report("divergence", result, passed=passed)


if __name__ == "__main__":
    sys.exit(main())
