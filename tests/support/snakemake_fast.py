"""snakemake whose SLURM executor asks for the state of its jobs every half second.

The executor waits 10 s longer after each question that finds no job ended, up to 3 minutes, and has no option against
that. Only this process is changed; jobs run the plain `python -m snakemake`. One test uses the stock polling.
"""

from __future__ import annotations

import asyncio

from snakemake.cli import main
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor

POLL_SECONDS = 0.5


async def _sleep(_self: RemoteExecutor) -> None:
    await asyncio.sleep(POLL_SECONDS)


if __name__ == "__main__":
    RemoteExecutor.sleep = _sleep
    main()
