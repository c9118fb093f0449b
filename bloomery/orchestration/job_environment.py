"""What the jobs of a workflow find in their environment."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bloomery.base.follow_parent import PARENT_VARIABLE


def prepare_environment(*, follow_workflow: bool) -> None:
    """Set the environment that jobs inherit.

    The folder of this interpreter comes first on PATH, so that a rule finds `bloomery` when the environment was not
    activated. With `follow_workflow`, verbs end when this process is gone (`bloomery.base.follow_parent`).
    """
    programs = str(Path(sys.executable).parent)
    path = os.environ.get("PATH", os.defpath)
    if path.split(os.pathsep)[0] != programs:
        os.environ["PATH"] = os.pathsep.join([programs, path])
    if follow_workflow:
        os.environ[PARENT_VARIABLE] = str(os.getpid())
    else:
        os.environ.pop(PARENT_VARIABLE, None)
