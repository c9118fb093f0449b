"""snakemake whose SLURM executor asks for the state of its jobs every half second.

The executor waits 10 s longer after each question that finds no job ended, up to 3 minutes, and has no option against
that. Only this process is changed; jobs run the plain `python -m snakemake`. One test uses the stock polling.

While it asks, the executor's list of active jobs is empty, and a Ctrl-C at that moment cancels none of them. Between
questions that are minutes apart that is rare; with one every half second on a busy machine it is not. So here a cancel
waits for the end of a question.
"""

from __future__ import annotations

import asyncio
import threading

from snakemake.cli import main
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor

POLL_SECONDS = 0.5


QUESTION_SECONDS = 120.0
"""Longer than a question takes."""
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
    RemoteExecutor.sleep = _sleep
    RemoteExecutor.cancel = _cancel_between_questions
    main()
