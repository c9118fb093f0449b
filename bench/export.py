"""Claims: an export writes at 70 % of the disk's speed or more, and its memory does not depend on the number of layers.

    python bench/export.py FOLDER > bench/results/export.json   # 7 B parameters; needs 46 GB of disk space
    python bench/export.py FOLDER --layers 4 --flat-layers 2 4  # a quick trial

The program fabricates checkpoints with random weights and without optimizer state in FOLDER. The first one has the
network of BLOOM-7B1, TP 4 x PP 4 and bf16, but samples of 128 tokens. The proof computes every position of 8 samples in
fp32, which takes too long at 2,048 tokens on two cores. These steps run in turn, each in its own process,
after the checkpoint has been dropped from the page cache:

- disk: a file of 4 GB is written and synced, before and after the other steps. The limit refers to a write through the
  page cache, as `cp` or `dd conv=fsync` do it. The speed past the page cache (O_DIRECT) is stated, too.
- export: the real export. Its writing (read, merge, hash, write, sync) and its proof are timed separately.
- peer: all weights are loaded in bf16 and saved with transformers' `save_pretrained`, then synced.

Two networks of the same width, with 8 and with 48 layers, are exported, too. The exit code is 1 if a limit is exceeded.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "bench"), str(ROOT / "tests" / "support")]

LEAST_SHARE_OF_DISK = 0.7
MOST_TIMES_WRITING = 1.5
MOST_GROWTH = 0.10
"""Largest growth of the memory from few to many layers."""
GIB = 1 << 30
_DISK_BYTES = 4_000_000_000
_WIDE = {"hidden_size": 4096, "heads": 32, "sequence_length": 128, "padded_vocabulary_size": 250_880}
_FLAT = {"hidden_size": 1024, "heads": 16, "sequence_length": 128, "padded_vocabulary_size": 32_768}
_SHARD_BYTES = 5_000_000_000


def make(folder: Path, network: dict[str, Any], tensor: int, pipeline: int) -> None:
    """Fabricate a finished run whose checkpoint has random weights. The checkpoint's pieces give its reference."""
    import torch
    from checkpoint_manifests import files_of
    from fabricated_export import fabricate_run, write_reference

    from bloomery.checkpoint.reference import LongSample, Reference
    from bloomery.checkpoint.weights import Checkpoint
    from bloomery.config.model import ModelConfig
    from bloomery.contracts.checkpoint import layer_file, write_manifest
    from bloomery.spec.checkpoint_size import REFERENCE_LENGTH, REFERENCE_SAMPLES, SUMMARY_SAMPLES
    from bloomery.spec.parameters import declare
    from export.proof.forward_model import read_out
    from export.proof.split_model import SplitModel

    generator = torch.Generator().manual_seed(1)
    noise = (0.02 * torch.randn(1 << 26, generator=generator)).to(torch.bfloat16)
    model = ModelConfig.model_validate(network)

    def weights(checkpoint: Path, _entries: int, rows: int) -> None:
        layers: dict[int, list[Any]] = {}
        for parameter in declare(model, rows):
            layers.setdefault(parameter.layer, []).append(parameter)
        for number, (layer, parameters) in enumerate(layers.items()):
            for rank in range(tensor):
                state = {}
                for place, parameter in enumerate(parameters):
                    shape = parameter.shard_shape(tensor)
                    count = torch.Size(shape).numel()
                    # Replicas are equal on all ranks. Split parameters differ.
                    shift = 7919 * (number * 20 + place) + (rank if parameter.shape != shape else 0) * 104_729
                    values = noise.roll(-(shift % len(noise))).repeat(-(-count // len(noise)))[:count].view(shape)
                    norm = parameter.name.endswith("norm.weight") or parameter.name == "ln_f.weight"
                    state[parameter.local_name] = (values + 1 if norm else values).clone()
                torch.save(state, checkpoint / layer_file(layer, rank))
        empty = torch.zeros(1, 2, dtype=torch.int64)
        write_reference(checkpoint, Reference(empty, torch.zeros(1, 2, rows)))

    paths, _, manifest = fabricate_run(folder, model, tensor, pipeline, "bf16", weights)
    checkpoint = next(paths.checkpoints.iterdir())
    short = torch.randint(
        4, manifest.vocabulary_size, (REFERENCE_SAMPLES, min(REFERENCE_LENGTH, model.sequence_length))
    )
    long = torch.randint(4, manifest.vocabulary_size, (SUMMARY_SAMPLES, model.sequence_length))
    logits, summaries = read_out(SplitModel(Checkpoint(checkpoint, model)), [*short], [*long], manifest.vocabulary_size)
    samples = [LongSample("en", tokens, found) for tokens, found in zip(long, summaries, strict=True)]
    write_reference(checkpoint, Reference(short, torch.stack(logits), tuple(samples)))
    write_manifest(checkpoint, manifest.model_copy(update={"files": files_of(checkpoint)}))


def run_export(folder: Path) -> dict[str, float]:
    """Export the checkpoint, and return the seconds of its parts."""
    import export.export_model as module
    from bloomery.config.stages import ExportStage, read_stage
    from bloomery.contracts.paths import RunPaths

    seconds: dict[str, float] = {}

    def timed(name: str, function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            started = time.perf_counter()
            try:
                return function(*arguments)
            finally:
                seconds[name] = time.perf_counter() - started

        return call

    module._write_files = timed("write", module._write_files)  # type: ignore[assignment]
    module._prove = timed("prove", module._prove)  # type: ignore[assignment]
    paths = RunPaths(folder / "runs" / "tiny")
    stage = read_stage(paths.config / "export.json", ExportStage)
    started = time.perf_counter()
    module.export_model(stage, paths, folder / "exported", max_shard_bytes=_SHARD_BYTES)
    return seconds | {"all": time.perf_counter() - started}


def run_peer(folder: Path) -> dict[str, float]:
    """Load all weights in bf16, save them with transformers, and return the seconds."""
    import torch

    from bloomery.checkpoint.weights import Checkpoint
    from bloomery.contracts.paths import RunPaths
    from bloomery.spec.transformers_families.choose import family_for_export
    from export.transform import to_transformers
    from export.transformers_model import empty_model, transformers_config
    from export.write_configs import read_tokenizer

    paths = RunPaths(folder / "runs" / "tiny")
    started = time.perf_counter()
    checkpoint = Checkpoint(next(paths.checkpoints.iterdir()))
    model, rows = checkpoint.model, checkpoint.manifest.vocabulary_rows
    family = family_for_export(model)
    tokenizer = read_tokenizer(paths.tokenizer, checkpoint.manifest.vocabulary_size)
    whole = empty_model(transformers_config(family, model, rows, 1, tokenizer, "bfloat16"))
    state = {}
    for parameter in checkpoint.parameters:
        target = family.target(parameter)
        weight = checkpoint.weight(parameter, torch.bfloat16)
        state[target.name] = to_transformers(weight, target.transform, model.heads)
    whole.load_state_dict(state, assign=True, strict=False)
    whole.tie_weights()
    del state
    target = folder / "peer"
    whole.save_pretrained(target, max_shard_size=_SHARD_BYTES)
    for path in target.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
    return {"all": time.perf_counter() - started}


def run_disk(folder: Path) -> dict[str, float]:
    """Write and sync one file through the page cache and one past it, and return both speeds."""
    memory = mmap.mmap(-1, 1 << 26)
    memory.write(os.urandom(len(memory)))
    speeds = []
    for flag in (0, getattr(os, "O_DIRECT", 0)):
        path = folder / "disk"
        started = time.perf_counter()
        file = os.open(path, os.O_WRONLY | os.O_CREAT | flag)
        for _ in range(_DISK_BYTES // len(memory)):
            os.write(file, memory)
        os.fsync(file)
        os.close(file)
        speeds.append(_DISK_BYTES // len(memory) * len(memory) / (time.perf_counter() - started))
        path.unlink()
    return {"bytes_per_second": speeds[0], "direct_bytes_per_second": speeds[1]}


def fp32_flops() -> float:
    """Return the measured speed of fp32 matrix products, in operations per second."""
    import torch

    left, right = torch.randn(2048, 4096), torch.randn(4096, 4096)
    left @ right
    started = time.perf_counter()
    for _ in range(8):
        left @ right
    return 8 * 2 * 2048 * 4096 * 4096 / (time.perf_counter() - started)


def step(name: str, folder: Path) -> dict[str, float]:
    """Run a step in its own process with cold files. Return its result and its largest resident memory."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    print(f"bench export: {name} in {folder.name}", file=sys.stderr, flush=True)
    command = [sys.executable, __file__, str(folder), "--step", name]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def measure(folder: Path, network: dict[str, Any], layers: int, tensor: int, pipeline: int) -> dict[str, Any]:
    """Fabricate a checkpoint, export it, and return the figures."""
    from changed_sample import changed

    from bloomery.checks.load_config import validate_config
    from bloomery.config.model import ModelConfig
    from bloomery.spec.checkpoint_size import REFERENCE_LENGTH, REFERENCE_SAMPLES, SUMMARY_SAMPLES
    from bloomery.spec.export_resources import resources_of_export
    from bloomery.spec.parameters import declare

    folder.mkdir(parents=True)
    shape = network | {"layers": layers}
    make(folder, shape, tensor, pipeline)
    found = step("export", folder)
    files = list((folder / "exported").glob("*.safetensors"))
    written = sum(path.stat().st_size for path in files)
    model = ModelConfig.model_validate(shape)
    counts: dict[int, int] = {}
    for parameter in declare(model, shape["padded_vocabulary_size"]):
        if parameter.name.startswith("h."):
            counts[parameter.layer] = counts.get(parameter.layer, 0) + parameter.count
    # The embedding is read in slices, which are smaller than a layer.
    limit = 4 * max(counts.values()) + max(path.stat().st_size for path in files) + GIB
    parameters = sum(parameter.count for parameter in declare(model, shape["padded_vocabulary_size"]))
    positions = (
        REFERENCE_SAMPLES * min(REFERENCE_LENGTH, model.sequence_length) + SUMMARY_SAMPLES * model.sequence_length
    )
    config = validate_config(
        changed(model=shape, training__parallel={"tensor": tensor, "pipeline": pipeline}), where=""
    )
    return {
        "layers": layers,
        "bytes": written,
        "seconds": {name: found[name] for name in ("write", "prove", "all")},
        "peak_bytes": found["peak_bytes"],
        "limit_bytes": limit,
        "planned_bytes": resources_of_export(config).memory_bytes,
        "planned_threads": resources_of_export(config).threads,
        # Each position multiplies and adds once for each parameter.
        "logits_flop": 2 * parameters * positions,
    }


def main() -> int:
    """Run all steps, print the result, and return 1 if a limit is exceeded."""
    from _support import machine, report

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="new folder on the disk to measure; removed at the end")
    parser.add_argument("--layers", type=int, default=30, help="layers of the large network (30: 7 B parameters)")
    parser.add_argument("--flat-layers", type=int, nargs=2, default=[8, 48], help="layers of the two other networks")
    parser.add_argument("--step", choices=["disk", "export", "peer"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    folder: Path = options.folder
    if options.step is not None:
        found = {"disk": run_disk, "export": run_export, "peer": run_peer}[options.step](folder)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({**found, "peak_bytes": peak}))
        return 0
    folder.mkdir(parents=True)
    try:
        flops = fp32_flops()
        flat = []
        for layers in options.flat_layers:
            flat.append(measure(folder / f"layers-{layers}", _FLAT, layers, 2, 1))
            shutil.rmtree(folder / f"layers-{layers}")
        disk = [step("disk", folder)]
        wide = measure(folder / "wide", _WIDE, options.layers, 4, min(4, options.layers))
        shutil.rmtree(folder / "wide" / "exported")
        peer = step("peer", folder / "wide")
        shutil.rmtree(folder / "wide")
        disk.append(step("disk", folder))
    finally:
        shutil.rmtree(folder)
    speed = wide["bytes"] / wide["seconds"]["write"]
    shares = {
        "of_disk": speed / (sum(each["bytes_per_second"] for each in disk) / 2),
        "all_by_writing": wide["seconds"]["all"] / wide["seconds"]["write"],
        "growth": flat[1]["peak_bytes"] / flat[0]["peak_bytes"] - 1,
        "peer_seconds_by_writing": peer["all"] / wide["seconds"]["write"],
        "peer_memory_by_ours": peer["peak_bytes"] / wide["peak_bytes"],
    }
    passed = (
        shares["of_disk"] >= LEAST_SHARE_OF_DISK
        and shares["all_by_writing"] <= MOST_TIMES_WRITING
        and shares["growth"] <= MOST_GROWTH
        and all(each["peak_bytes"] <= each["limit_bytes"] for each in (*flat, wide))
    )
    result = {
        "machine": machine(),
        "fp32_flops": flops,
        "disk_bytes_per_second": [each["bytes_per_second"] for each in disk],
        "direct_disk_bytes_per_second": [each["direct_bytes_per_second"] for each in disk],
        "wide": wide,
        "flat": flat,
        "peer": {
            "name": "load all in bf16, then save_pretrained",
            "seconds": peer["all"],
            "peak_bytes": peer["peak_bytes"],
        },
        "shares": shares,
        "limits": {"of_disk": LEAST_SHARE_OF_DISK, "all_by_writing": MOST_TIMES_WRITING, "growth": MOST_GROWTH},
    }
    return report("export", result, passed=passed)


if __name__ == "__main__":
    sys.exit(main())
