"""Run the command line in its own process."""

from __future__ import annotations

import subprocess
import sys

from repository import ROOT


def bloomery(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bloomery.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, **options)  # type: ignore[call-overload,no-any-return]
