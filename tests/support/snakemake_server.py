"""Fork workflows from one process, which has already imported Snakemake and the modules of the Snakefile.

The start of Python and these imports take most of the time of a dry-run, and the tests make more than a hundred
dry-runs. Other runs of the workflow save this time, too. The program gets the file descriptor of a connection and ends
when the other end closes. Tests call `run_snakemake` or `dry_run`.
"""

from __future__ import annotations

import gc
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path

from repository import ROOT
from server_process import ServerProcess

_server = ServerProcess(Path(__file__))


def run_snakemake(arguments: list[str], environment: Mapping[str, str], seconds: float = 3600) -> tuple[int, str]:
    """Return the exit code and the output of `python -m snakemake ARGUMENTS`, which must end within `seconds`."""
    with tempfile.TemporaryDirectory(prefix="snakemake-") as folder:
        talk = Path(folder) / "talk"
        connection = _server.connection()
        connection.send((arguments, dict(environment), str(talk)))
        assert connection.poll(seconds), talk.read_text(encoding="utf-8")
        return connection.recv(), talk.read_text(encoding="utf-8")


def dry_run(arguments: list[str], environment: Mapping[str, str]) -> tuple[int, str]:
    """Return the exit code and the output of a dry-run."""
    assert "--dry-run" in arguments
    return run_snakemake(arguments, environment, 300)


def main() -> None:
    """Run workflows until the other end of the connection closes."""
    import smart_open  # noqa: F401  Snakemake imports it when it opens the first file
    import snakemake.cli

    # None of these modules reads the environment on import.
    for rules in (ROOT / "workflow/rules").glob("*.smk"):
        for statement in re.findall(r"^from \S+ import (?:\([^)]*\)|.*)$", rules.read_text(), flags=re.MULTILINE):
            exec(statement, {})
    # This call imports Snakemake's plugins.
    snakemake.cli.get_argument_parser()
    assert "huggingface_hub" not in sys.modules
    gc.collect()
    gc.freeze()
    connection = Connection(int(sys.argv[1]))
    while True:
        try:
            arguments, environment, talk = connection.recv()
        except EOFError:
            return
        if (pid := os.fork()) == 0:
            connection.close()
            # The workflow gets its own process group, as in `Workflow.start`.
            os.setsid()
            file = os.open(talk, os.O_WRONLY | os.O_CREAT)
            os.dup2(file, 1)
            os.dup2(file, 2)
            os.environ.clear()
            os.environ.update(environment)
            sys.argv = ["snakemake", *arguments]
            snakemake.cli.main()
            return
        connection.send(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


if __name__ == "__main__":
    main()
