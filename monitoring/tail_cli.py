"""`bloomery tail`: the command line of `monitoring.tail`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from monitoring.tail import Log

app = typer.Typer(help="Show the last lines of a run's log, on this machine or on a Hub.", add_completion=False)


@app.command()
def tail(
    run: Annotated[Path | None, typer.Option(help="Folder of the run whose log is shown, such as runs/sample.")] = None,
    hub: Annotated[
        str | None, typer.Option(help="Logs repository of a run on the Hub (OWNER/NAME), instead of --run.")
    ] = None,
    file: Annotated[
        str,
        typer.Option(
            help="Path of the log, as in the logs repository: logs/..., segments/... or report/..., for example."
        ),
    ] = "logs/main_log.txt",
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=1, help="Number of lines to show from the end of the log.")
    ] = 10,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Also show the lines that are added to the log, until Ctrl-C.")
    ] = False,
    every: Annotated[
        float | None,
        typer.Option(
            min=0.05, help="Seconds between two checks for added lines (default: 1 with --run, 30 with --hub)."
        ),
    ] = None,
) -> None:
    """Show the last lines of a log and, with --follow, every complete line that is added."""
    import os
    import sys

    from bloomery.base.visible_text import visible_text
    from monitoring.tail import follow as follow_log
    from monitoring.tail import show_tail

    log = _find(run, hub, file, waiting=follow)

    def write(data: bytes) -> None:
        if sys.stdout.isatty():
            # Make control characters visible, so that a log of another program or from a Hub cannot control this
            # terminal.
            data = visible_text(data.decode("utf-8", errors="replace")).encode()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    try:
        if follow:
            follow_log(log, lines, every or (1.0 if hub is None else 30.0), write)
        else:
            show_tail(log, lines, write)
    except KeyboardInterrupt:
        pass
    except BrokenPipeError:
        # The reader closed the pipe (`| head`). Without this, Python would fail when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _find(run: Path | None, hub: str | None, file: str, *, waiting: bool) -> Log:
    """Return the log that the options name. Raises ConfigError if they name no log, two logs, or no file of a run."""
    from bloomery.base.errors import ConfigError
    from bloomery.contracts.paths import RunPaths
    from monitoring.snapshot import layout
    from monitoring.tail import HubLog, LocalLog

    if (run is None) == (hub is None):
        raise ConfigError(
            "the command needs exactly one log",
            where="bloomery tail",
            expected="either --run FOLDER or --hub OWNER/NAME",
        )
    if hub is not None:
        from bloomery.base.hub import Hub
        from bloomery.base.hub_access import find_token

        # When following a log, retry only for a short time, because the next check tries again.
        return HubLog(Hub(find_token(), retry_seconds=5.0 if waiting else 60.0), hub, file)
    assert run is not None
    folders = {top: folder for top, (folder, _) in layout(RunPaths(run)).items()}
    top, _, rest = file.partition("/")
    if top not in folders or not rest or ".." in Path(rest).parts:
        raise ConfigError(
            f"not a file of a run: {file!r}",
            where="--file",
            expected=f"a path that begins with one of these folders: {', '.join(sorted(folders))}",
        )
    return LocalLog(folders[top] / rest)
