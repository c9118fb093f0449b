"""Run snakemake with a SLURM executor that polls the state of its jobs every half second.

The original executor waits 10 s longer after each poll that finds no ended job, up to 3 minutes, and has no option to
change this. Only this process is changed; jobs run the plain `python -m snakemake`. One test uses the original polling.

During a poll, the executor's list of active jobs is empty, and a Ctrl-C at that moment cancels none of them. This is
rare if polls are minutes apart, but not with a poll every half second on a busy machine. So here a cancel waits for the
end of a poll.

Before each poll, the executor asks slurmctld for MinJobAge. If the answer takes more than 10 s, as on a busy machine,
the executor asks `sacct`, which fails on a cluster without accounting. After a poll without an answer, the executor
forgets all jobs, so a Ctrl-C cancels no job. So here the executor gets MinJobAge without asking slurmctld.
"""

from __future__ import annotations

import asyncio
import threading

import snakemake_executor_plugin_slurm
from snakemake.cli import main
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor

POLL_SECONDS = 0.5
MIN_JOB_AGE = 3600
"""Value of MinJobAge in the configuration of the test's cluster, in seconds."""
QUESTION_SECONDS = 120.0
"""Time limit of the wait for the end of a poll. A poll takes less time."""
_asks_nothing = threading.Event()
_cancel = RemoteExecutor.cancel


async def _sleep(_self: RemoteExecutor) -> None:
    _asks_nothing.set()
    await asyncio.sleep(POLL_SECONDS)
    _asks_nothing.clear()


def _cancel_between_questions(self: RemoteExecutor) -> None:
    _asks_nothing.wait(QUESTION_SECONDS)
    _cancel(self)


if __name__ == "__main__":
    snakemake_executor_plugin_slurm.get_min_job_age = lambda: MIN_JOB_AGE
    RemoteExecutor.sleep = _sleep
    RemoteExecutor.cancel = _cancel_between_questions
    main()
