"""The program that srun starts once on each node. It replaces itself with torchrun, which starts the node's processes.

The rendezvous is static. The first node is the master, and ranks follow the order of the nodes, so the ranks of a
tensor-parallel group share a node.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from bloomery.base.errors import BloomeryError
from bloomery.base.private_folder import make_private_folder
from training.parallel.given_gpus import GPUS_PER_NODE


def main() -> None:
    """Start torchrun. Arguments after `--` are passed to `training.loop.main`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--ranks-per-node", type=int, required=True)
    parser.add_argument("--gpus-per-node", type=int, default=0)
    parser.add_argument("--master-address", required=True)
    parser.add_argument("--master-port", type=int, required=True)
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    # The shell of the job created the folder for temporary files only on the node on which it runs.
    if folder := os.environ.get("TMPDIR"):
        if os.environ.get("TRITON_CACHE_DIR") == f"{folder}/triton":  # TMPDIR is below the site's `scratch`
            try:
                make_private_folder(Path(folder))
            except BloomeryError as error:
                sys.exit(f"error: {error}")
        Path(folder).mkdir(parents=True, exist_ok=True)
    if options.gpus_per_node:
        # The ranks fail if torch does not find these GPUs, instead of training on the CPU.
        os.environ[GPUS_PER_NODE] = str(options.gpus_per_node)
    rest = options.arguments[1:] if options.arguments[:1] == ["--"] else options.arguments
    command = [
        *(sys.executable, "-m", "training.processes.torchrun"),
        *("--nnodes", str(options.nodes), "--node-rank", os.environ.get("SLURM_NODEID", "0")),
        *("--nproc-per-node", str(options.ranks_per_node)),
        *("--master-addr", options.master_address, "--master-port", str(options.master_port)),
        *("-m", "training.loop.main", *rest),
    ]
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
