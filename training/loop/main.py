"""The program of every rank, started by torchrun.

Usage:
`python -m training.loop.main --config CONFIG --folder RUN --number SEGMENT_NUMBER --result RESULT_FILE
[--end EPOCH_SECONDS]`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from pathlib import Path

from bloomery.base.atomic import known_error, write_json
from bloomery.base.errors import BloomeryError, NoSpaceError
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import Fault
from training.loop.die_with_parent import die_with_parent
from training.loop.rank_log import open_rank_log


def main() -> None:
    """Run one segment. Rank 0 writes the result file.

    A rank that fails with a BloomeryError or a known I/O error writes the error to that file instead.
    """
    die_with_parent()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--number", type=int, required=True)
    parser.add_argument("--result", type=Path, required=True)
    parser.add_argument(
        "--end", type=float, help="time at which the scheduler ends the job, in seconds of the Unix epoch"
    )
    arguments = parser.parse_args()
    paths = RunPaths(arguments.folder)
    try:
        # Open the log before the imports, so that it contains what the libraries print when they are imported.
        log = open_rank_log(paths.logs, int(os.environ.get("RANK", "0")), arguments.number)
        from training.loop.quiet_logging import quiet_logging

        quiet_logging()
        from bloomery.contracts.train_stage import read_effective
        from training.loop.heartbeat import start_heartbeat
        from training.loop.run_segment import run_segment
        from training.preflight.run_preflight import build_checked_mesh

        stage = read_effective(arguments.config, paths)
        heartbeat = start_heartbeat(
            paths.heartbeats,
            stage.training.heartbeat,
            rank=int(os.environ.get("RANK", "0")),
            ranks=stage.training.parallel.world_size,
            segment=arguments.number,
        )
        import torch

        torch.set_num_threads(stage.training.threads_per_rank)
        mesh = build_checked_mesh(stage, paths, arguments.number)
        log.note_place(mesh)
        segment = run_segment(stage, mesh, paths, arguments.number, arguments.end)
        log.note_memory()
        if mesh.rank == 0:
            write_json(arguments.result, {"segment": segment.model_dump(mode="json")})
        torch.distributed.barrier()
        if heartbeat is not None:
            heartbeat.end()
        torch.distributed.destroy_process_group()
    except (BloomeryError, OSError) as error:
        known = known_error(error)
        if known is None:
            raise
        rank = os.environ.get("RANK", "0")
        print(f"rank {rank}: {known}", file=sys.stderr, flush=True)
        # Only some errors contain the node or rank at fault (`PreflightError.record`).
        record = {"fault": Fault.DISK} if isinstance(known, NoSpaceError) else getattr(known, "record", {})
        with contextlib.suppress(NoSpaceError):
            write_json(arguments.result, {"error": str(known), "exit_code": known.exit_code, **record})
        # The other ranks may wait in a collective. torchrun ends them when this rank exits with an error.
        os._exit(1)


if __name__ == "__main__":
    main()
