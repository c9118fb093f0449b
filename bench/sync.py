"""Claim: with Xet, a sync sends only new data.

After 33,000 iterations, a sync of 100 more sends less than 1 % of the logs, and a sync without new data needs at most
3 requests.

python bench/sync.py > bench/results/sync.json

The peer runs the same syncs without Xet, which sends a grown file completely. Each run has its own Hub, the test server
of tests/integration/hub on a loopback port. Each run syncs metrics.jsonl and main_log.txt three times: after 33,000
iterations, unchanged, and after 100 more iterations. Measured values in the records are random, because Xet would not
send repeated data. The program prints JSON with medians over the repeats: bytes of the request bodies, number of
requests, and seconds of the whole program.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median_low
from typing import Any

from _support import report

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from hub_support import HubServer, running_hub

from bloomery.config.delivery import PublishConfig
from bloomery.config.stages import PublishStage, write_stage
from bloomery.contracts.logline import render
from bloomery.contracts.metrics_record import MetricsRecord
from bloomery.contracts.paths import RunPaths

ITERATIONS, MORE = 33_000, 100
SAMPLES, SEQUENCE = 2048, 2048
LIMITS = {"appended_share": 0.01, "unchanged_requests": 3}


def record(iteration: int) -> MetricsRecord:
    """Return the record of a step of a large training. Its measured values have as many digits as real ones."""
    noise = random.Random(iteration)
    seconds = noise.gauss(105.0, 0.5)
    return MetricsRecord(
        iteration=iteration,
        consumed_samples=SAMPLES * iteration,
        consumed_tokens=SAMPLES * SEQUENCE * iteration,
        global_batch_size=SAMPLES,
        learning_rate=6e-5 * (1 - iteration / 200_000),
        loss=2.0 + 8.0 / iteration**0.3 + noise.gauss(0, 0.02),
        grad_norm=abs(noise.gauss(0.25, 0.05)),
        seconds=seconds,
        tokens_per_second=SAMPLES * SEQUENCE / seconds,
        tflops_hardware=16_000 / seconds,
        tflops_model=12_000 / seconds,
        samples_per_second=SAMPLES / seconds,
        total_iterations=115_311,
        segment=1 + iteration // 700,
        time=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_646_000_000 + 105 * iteration)),
    )


def train(paths: RunPaths, first: int, last: int) -> None:
    """Append iterations to the logs as a training does."""
    paths.logs.mkdir(parents=True, exist_ok=True)
    with (paths.logs / "metrics.jsonl").open("a") as metrics, (paths.logs / "main_log.txt").open("a") as log:
        for iteration in range(first, last + 1):
            entry = record(iteration)
            metrics.write(entry.model_dump_json(exclude_none=True) + "\n")
            log.write(render(entry) + "\n")


def sync(hub: HubServer, paths: RunPaths, **variables: str) -> dict[str, float]:
    """Run one sync, and return the bytes and requests that the Hub received, and the seconds."""
    hub.call("/_test/reset", {})
    start = time.perf_counter()
    command = [sys.executable, "-m", "bloomery.cli", "sync", "--run", str(paths.run)]
    subprocess.run(command, env=hub.environment | variables, stdout=subprocess.DEVNULL, check=True)
    seconds = time.perf_counter() - start
    requests = hub.read("/_test/log")
    return {"bytes": sum(each["in"] for each in requests), "requests": len(requests), "seconds": round(seconds, 2)}


def measure(folder: Path, **variables: str) -> dict[str, Any]:
    """Create a run and a Hub, and measure the three syncs."""
    paths = RunPaths(folder / "runs" / "bench")
    stage = PublishStage(name="bench", model_name="bench", publish=PublishConfig())
    write_stage(paths.config / "publish.json", stage)
    train(paths, 1, ITERATIONS)
    size = sum(path.stat().st_size for path in paths.logs.iterdir())
    with running_hub(folder) as hub:
        syncs = {"first": sync(hub, paths, **variables), "unchanged": sync(hub, paths, **variables)}
        train(paths, ITERATIONS + 1, ITERATIONS + MORE)
        syncs["appended"] = sync(hub, paths, **variables)
    return {"logs_bytes": size, **syncs}


def medians(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the median of each figure over several measurements."""
    first = results[0]
    syncs = {
        name: {figure: median_low([result[name][figure] for result in results]) for figure in first[name]}
        for name in ("first", "unchanged", "appended")
    }
    return {"logs_bytes": first["logs_bytes"], **syncs}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    ways: dict[str, dict[str, str]] = {"xet": {}, "without_xet": {"HF_HUB_DISABLE_XET": "1"}}
    taken: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
    for _ in range(options.repeats):
        for way, variables in ways.items():
            with tempfile.TemporaryDirectory() as name:
                taken[way].append(measure(Path(name), **variables))
    figures = {way: medians(results) for way, results in taken.items()}
    share = figures["xet"]["appended"]["bytes"] / figures["xet"]["logs_bytes"]
    requests = max(figures[way]["unchanged"]["requests"] for way in ways)
    passed = share < LIMITS["appended_share"] and requests <= LIMITS["unchanged_requests"]
    result = {
        "repeats": options.repeats,
        "iterations": {"first": ITERATIONS, "appended": MORE},
        **figures,
        "appended_share": round(share, 5),
        "limits": LIMITS,
    }
    return report("sync", result, passed=passed)


if __name__ == "__main__":
    sys.exit(main())
