"""Claim: blending 166.8 M samples of 300 datasets and writing the files with digests takes less than 20 s.

    python bench/blend.py > bench/results/blend.json

Our blend computes the quotas and the order of the samples, and writes its two arrays. The peer is Megatron-core's
greedy blend (`build_blending_indices` of its compiled helpers). It also saves its two arrays, as Megatron-core's cache
does. The two blends run in turn in separate processes, for 46 and 300 datasets and three numbers of samples.
`kernel_seconds` is the time to compute the order alone. Weights are Zipf-like and come from a seed. The program checks
that our blend takes exactly the quota of each dataset. The exit code is 1 if the claim does not hold.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import multiprocessing
import resource
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from _support import Floor, finish

from bloomery.base.atomic import write_json
from bloomery.config.stages import IndexStage
from data_prep.formats.mixture import Mixture
from data_prep.index.arrays import CHUNK
from data_prep.index.plan_blend_stages import plan_stages, totals
from data_prep.index.write_blend import blend, write_blend

LARGEST = 166_800_000
SECONDS = 20.0
DATASETS = (46, 300)


def weights(datasets: int) -> dict[str, float]:
    """Return shuffled Zipf-like weights with noise, so that no two weights are equal."""
    rng = np.random.default_rng(datasets)
    drawn = rng.permutation(1 / np.arange(1, datasets + 1)) * rng.uniform(0.8, 1.2, datasets)
    return {f"d{number:03d}": float(weight) for number, weight in enumerate(drawn / drawn.sum())}


def ours(samples: int, datasets: int, folder: Path) -> dict[str, Any]:
    """Measure the seconds of our whole blend and of computing the order alone. Check that the quotas are exact."""
    mixed = weights(datasets)
    started = time.perf_counter()
    stage = IndexStage(sequence_length=2048, train_samples=samples, validation_samples=0, validation_share=0.0, seed=0)
    stages = plan_stages(Mixture(mixed, {}, None), {name: {name: 1 << 50} for name in mixed}, stage)
    first, second = write_blend(folder, "ours", stages, list(mixed))
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    numbers = np.load(folder / first.path, mmap_mode="r")
    counts = np.zeros(datasets, dtype=np.int64)
    for at in range(0, samples, CHUNK):
        counts += np.bincount(numbers[at : at + CHUNK], minlength=datasets)
    assert dict(zip(mixed, counts.tolist(), strict=True)) == totals(stages)
    written = sum((folder / entry.path).stat().st_size for entry in (first, second))
    started = time.perf_counter()
    for _ in blend(stages, list(mixed)):
        pass
    kernel = time.perf_counter() - started
    return {"seconds": seconds, "kernel_seconds": kernel, "peak_rss_bytes": peak, "written_bytes": written}


def helpers() -> ModuleType | None:
    """Load Megatron-core's compiled helpers without the package, which needs torch.

    Return None if Megatron-core is not installed.
    """
    found = importlib.util.find_spec("megatron")
    for folder in (found.submodule_search_locations or []) if found else []:
        for path in Path(folder).glob("core/datasets/helpers_cpp*.so"):
            spec = importlib.util.spec_from_file_location("helpers_cpp", path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    return None


def megatron(samples: int, datasets: int, folder: Path) -> dict[str, Any]:
    """Measure Megatron-core's greedy blend as `ours` measures our blend. Return an empty dictionary if it is not
    installed."""
    module, mixed = helpers(), np.array(list(weights(datasets).values()))
    if module is None:
        return {}
    started = time.perf_counter()
    numbers, within = np.zeros(samples, dtype=np.int16), np.zeros(samples, dtype=np.int64)
    module.build_blending_indices(numbers, within, mixed, datasets, samples, False)
    kernel = time.perf_counter() - started
    np.save(folder / "numbers.npy", numbers)
    np.save(folder / "within.npy", within)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    written = numbers.nbytes + within.nbytes
    return {"seconds": seconds, "kernel_seconds": kernel, "peak_rss_bytes": peak, "written_bytes": written}


def _measure(contender: str, samples: int, datasets: int, folder: Path) -> None:
    found = {"ours": ours, "megatron": megatron}[contender](samples, datasets, folder)
    write_json(folder / "measured.json", {key: round(value, 2) for key, value in found.items()})


def measured(contender: str, samples: int, datasets: int, scratch: Path | None) -> dict[str, Any]:
    """Measure a contender in a separate process, so that its peak memory is not that of this process."""
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=_measure, args=(contender, samples, datasets, Path(name)))
        process.start()
        process.join()
        if process.exitcode:
            sys.exit(f"{contender} ended with code {process.exitcode}")
        found: dict[str, Any] = json.loads((Path(name) / "measured.json").read_text())
        return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=LARGEST)
    parser.add_argument("--scales", type=float, nargs="+", default=[0.01, 0.1, 1.0])
    parser.add_argument("--scratch", type=Path, help="folder for the temporary arrays, which are removed at the end")
    arguments = parser.parse_args()
    results, floors = {}, []
    for datasets in DATASETS:
        for scale in arguments.scales:
            samples = int(arguments.samples * scale)
            own, peer = (measured(name, samples, datasets, arguments.scratch) for name in ("ours", "megatron"))
            row: dict[str, Any] = {"ours": own, "megatron": peer or "its compiled helpers are not installed"}
            if peer:
                row["times_faster"] = round(peer["seconds"] / own["seconds"], 2)
            results[f"{datasets} datasets, {samples} samples"] = row
        what = f"{datasets} datasets: million samples a second, files included ({LARGEST} in {SECONDS:g} s)"
        floors.append(Floor(what, samples / own["seconds"] / 1e6, round(LARGEST / SECONDS / 1e6, 2)))
    return finish("blend", {"runs": results}, floors)


if __name__ == "__main__":
    sys.exit(main())
