"""Run torchrun, and print one line for each failed process, without torchrun's own traceback.

The failed processes report their own errors on the terminal and in train/logs/ranks.
"""

from __future__ import annotations

import signal
import sys
from contextlib import suppress

from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.run import parse_args, run

_SHOWN = 8


def main() -> None:
    """Run torchrun with the options of `torch.distributed.run`. Exit with code 1 if a process failed."""
    try:
        run(parse_args(None))  # type: ignore[no-untyped-call]
    except ChildFailedError as error:
        failures = sorted(error.failures.items(), key=lambda item: item[1].timestamp)
        for rank, failure in failures[:_SHOWN]:
            print(f"rank {rank} (process {failure.pid}): {_end_of(failure)}", file=sys.stderr)
        if len(failures) > _SHOWN:
            print(f"{len(failures) - _SHOWN} more ranks failed (see train/logs/ranks)", file=sys.stderr)
        sys.exit(1)
    except SignalException as error:
        sys.exit(128 + error.sigval)


def _end_of(failure: ProcessFailure) -> str:
    """Describe how the process ended: by its exit code or by a signal."""
    if failure.exitcode >= 0:
        return f"ended with code {failure.exitcode}"
    name = str(-failure.exitcode)
    with suppress(ValueError):
        name = signal.Signals(-failure.exitcode).name
    return f"was ended by signal {name}"


if __name__ == "__main__":
    main()
