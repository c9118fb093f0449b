"""Run torchrun, and print one line for each failed process, without torchrun's own traceback.

The failed processes report their own errors on the terminal and in train/logs/ranks. Their ends are also recorded for
the launcher of the segment.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.run import parse_args, run

from bloomery.contracts.paths import RunPaths
from training.processes.end_of_ranks import NodeRanks, RankFailure, end_text, write_failures

_SHOWN = 8


def main() -> None:
    """Run torchrun with the options of `torch.distributed.run`. Exit with code 1 if a process failed."""
    options = parse_args(None)  # type: ignore[no-untyped-call]
    folder = _heartbeats(options.training_script_args)
    ranks = None if folder is None else NodeRanks(folder)
    try:
        run(options)  # type: ignore[no-untyped-call]
    except ChildFailedError as error:
        failures = sorted(error.failures.items(), key=lambda item: item[1].timestamp)
        for rank, failure in failures[:_SHOWN]:
            print(f"rank {rank} (process {failure.pid}): {end_text(failure.exitcode)}", file=sys.stderr)
        if len(failures) > _SHOWN:
            print(f"{len(failures) - _SHOWN} more ranks failed (see train/logs/ranks)", file=sys.stderr)
        if folder is not None and ranks is not None:
            host = os.uname().nodename
            write_failures(
                folder,
                [
                    RankFailure(
                        rank=rank,
                        host=host,
                        exit_code=failure.exitcode,
                        at=ranks.ended_at(failure.pid),
                    )
                    for rank, failure in failures
                ],
            )
        sys.exit(1)
    except SignalException as error:
        sys.exit(128 + error.sigval)


def _heartbeats(arguments: Sequence[str]) -> Path | None:
    """Return the folder of heartbeats of the run that the program's arguments name. Return None without a run."""
    if "--folder" not in arguments:
        return None
    return RunPaths(Path(arguments[arguments.index("--folder") + 1])).heartbeats


if __name__ == "__main__":
    main()
