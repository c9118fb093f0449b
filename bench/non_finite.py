"""Claim: a NaN in the state of a training never needs a person, whichever tensor it is in and whenever it appears.

    python bench/non_finite.py --rows rows.jsonl > bench/results/non_finite.json    # 200 chains, about 25 minutes
    python bench/non_finite.py --iterations 5                                       # a sample of 20 chains

A chain is a training of a tiny model that runs through the real launcher, segment after segment. After a random
iteration, one random element of one random tensor on one random rank becomes NaN, once. The tensors are weights, fp32
master weights, exp_avg and exp_avg_sq, each with 50 random iterations. The chain must finish without a person, and no
sealed checkpoint may hold a value that is not finite. The losses must equal those of the undisturbed training bit for
bit. There is one exception: a NaN in the second copy of a tied weight disappears by itself, because the owner's weights
are copied after each step. Then the guard (training.guards.non_finite: skip) skips one update, and later losses differ.

Each rank is forked from a process that has imported torch, instead of being started by torchrun. One line for each
chain appears on stderr and in the file of `--rows`. The same command continues an interrupted measurement from that
file.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "bench"), str(ROOT / "tests" / "support")]

SETTINGS: list[dict[str, Any]] = [
    {"precision": "bf16"},
    {"precision": "fp32"},
    {"precision": "bf16", "data": 2},
    {"precision": "bf16", "checkpoint": {"every_iterations": 4, "asynchronous": True}},
    {"precision": "bf16", "pipeline": 2},
]
"""Precisions, layouts and kinds of save. The chains use them in turn."""
SHARED: dict[str, Any] = {
    "samples": 360,
    "checkpoint": {"every_iterations": 8},
    "segment": {"iterations": 20},
    "validation": {"every_iterations": 100, "samples": 4},
}
"""Configuration of a training of 24 iterations in two segments. The guard ends a training after 6 skipped updates in a
row. So the guard finds the NaN in some chains, and the next save finds it in others."""
SEED = 18


def _stage(setting: dict[str, Any]) -> Any:
    from fabricated_training import stage

    return stage(**SHARED | setting)


def _losses(run: Path) -> dict[int, tuple[Any, Any]]:
    """Return the last recorded loss and gradient norm of each iteration."""
    from segments import steps

    return {iteration: (record["loss"], record["grad_norm"]) for iteration, record in steps(run).items()}


def sealed_not_finite(run: Path) -> list[str]:
    """Return the files of sealed checkpoints that hold a value that is not finite. Every tensor is read again."""
    import torch
    from safetensors.torch import load_file

    from bloomery.checkpoint.files import open_state

    def bad(value: Any) -> bool:
        if isinstance(value, torch.Tensor):
            return value.is_floating_point() and not bool(torch.isfinite(value).all())
        if isinstance(value, dict):
            return any(map(bad, value.values()))
        return isinstance(value, list | tuple) and any(map(bad, value))

    found = []
    for checkpoint in sorted((run / "train" / "checkpoints").glob("step*")):
        files = [(path, load_file(path)) for path in checkpoint.glob("*.safetensors")]
        files += [(path, open_state(path)) for path in checkpoint.glob("*optim_states.pt")]
        files += [(path, open_state(path)) for path in checkpoint.glob("layer_*.pt")]
        found += [f"{checkpoint.name}/{path.name}" for path, state in files if bad(state)]
    return found


def _chain(
    folder: Path, number: int, tensor: str, iteration: int, undisturbed: dict[int, dict[int, tuple[Any, Any]]]
) -> dict[str, Any]:
    """Run one chain, and return its row of the result."""
    from planted_nan import Plant, run_chain

    from bloomery.base.errors import BloomeryError

    setting = number % len(SETTINGS)
    configuration = _stage(SETTINGS[setting])
    world = configuration.training.parallel.world_size
    run, mark = folder / f"{number}", folder / f"{number}.mark"
    plant = Plant(tensor, iteration, random.Random(f"{SEED} {number}").randrange(world), str(mark), seed=SEED + number)
    row: dict[str, Any] = {"tensor": tensor, "iteration": iteration, "rank": plant.rank} | SETTINGS[setting]
    try:
        segments = run_chain(run, configuration, plant)
    except (BloomeryError, AssertionError) as error:
        return row | {"passed": False, "error": str(error)}
    from bloomery.contracts.checkpoint import newest_manifest

    last = newest_manifest(run / "train" / "checkpoints")
    skipped = 0 if last is None else last.skipped_updates
    row |= {"parameter": mark.read_text(), "statuses": [segment.status.value for segment in segments]}
    bad, equal = sealed_not_finite(run), _losses(run) == undisturbed[setting]
    shutil.rmtree(run)
    passed = (equal or skipped == 1) and not bad
    return row | {"losses_equal": equal, "skipped_updates": skipped, "sealed_not_finite": bad, "passed": passed}


def measure(iterations: int, done: Path | None) -> dict[str, Any]:
    """Run all chains that the file `done` does not contain yet, and return the result."""
    from planted_nan import TENSORS, run_chain

    rows = [json.loads(line) for line in done.read_text().splitlines()] if done is not None and done.exists() else []
    with tempfile.TemporaryDirectory(prefix="non-finite-") as name:
        folder = Path(name)
        undisturbed, total = {}, 0
        for setting, values in enumerate(SETTINGS):
            segments = run_chain(folder / f"undisturbed-{setting}", _stage(values), None)
            total, undisturbed[setting] = segments[-1].iteration, _losses(folder / f"undisturbed-{setting}")
        drawn = random.Random(SEED)
        cases = [(tensor, drawn.randint(1, total)) for tensor in TENSORS for _ in range(iterations)]
        for number, (tensor, iteration) in enumerate(cases):
            if number < len(rows):
                assert (rows[number]["tensor"], rows[number]["iteration"]) == (tensor, iteration), "other cases"
                continue
            rows.append(_chain(folder, number, tensor, iteration, undisturbed))
            print(f"{number + 1}/{len(cases)} {json.dumps(rows[-1])}", file=sys.stderr, flush=True)
            if done is not None:
                with done.open("a") as lines:
                    lines.write(json.dumps(rows[-1]) + "\n")
    crashed = [row for row in rows if "crashed" in row.get("statuses", ())]
    return {
        "benchmark": "non_finite",
        "seed": SEED,
        "iterations_of_training": total,
        "chains": len(rows),
        "chains_by_tensor": {tensor: sum(row["tensor"] == tensor for row in rows) for tensor in TENSORS},
        "chains_with_a_crashed_segment": len(crashed),
        "finished": sum("finished" in row.get("statuses", ()) for row in rows),
        "finished_with_equal_losses": sum(row.get("losses_equal", False) for row in rows),
        "finished_with_one_skipped_update": [row for row in rows if row.get("skipped_updates") == 1],
        "sealed_files_not_finite": sum(len(row.get("sealed_not_finite", ())) for row in rows),
        "failed": [row for row in rows if not row["passed"]],
        "passed": all(row["passed"] for row in rows),
    }


def main() -> int:
    """Run the chains, print the result, and return 1 if a chain did not pass."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=50, help="number of random iterations for each tensor")
    parser.add_argument("--rows", type=Path, help="file with the chains that were already run, one JSON row for each")
    arguments = parser.parse_args()
    result = measure(arguments.iterations, arguments.rows)
    print(json.dumps(result, indent=2))
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
