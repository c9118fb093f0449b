"""Set the environment variables that the jobs of a workflow inherit."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bloomery.base.follow_parent import PARENT_VARIABLE


def prepare_environment(*, follow_workflow: bool) -> None:
    """Set the environment variables that jobs inherit.

    The folder of this Python interpreter becomes the first on PATH, so that a rule finds `bloomery` even if the
    virtual environment is not activated. With `follow_workflow`, the commands of the jobs stop when this process ends
    (`bloomery.base.follow_parent`).
    """
    programs = str(Path(sys.executable).parent)
    path = os.environ.get("PATH", os.defpath)
    if path.split(os.pathsep)[0] != programs:
        os.environ["PATH"] = os.pathsep.join([programs, path])
    if follow_workflow:
        os.environ[PARENT_VARIABLE] = str(os.getpid())
    else:
        os.environ.pop(PARENT_VARIABLE, None)
