"""Test that a verb ends when the workflow that started it ends.

This also holds after `kill -9` and when a shell runs between the workflow and the verb.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

from waiting import wait_for

from bloomery.base.follow_parent import PARENT_VARIABLE

VERB = """
    import signal, sys, time
    from bloomery.base.follow_parent import follow_parent
    signal.signal(signal.SIGTERM, lambda *_: (open(sys.argv[1], "w").write("told"), sys.exit(0)))
    follow_parent()
    open(sys.argv[2], "w").write("started")
    time.sleep(60)
"""
WORKFLOW = """
    import os, subprocess, sys
    os.environ["{variable}"] = str(os.getpid())
    subprocess.run(["bash", "-c", "set -o pipefail; " + sys.argv[1] + " | cat"])
"""


def test_a_verb_ends_when_its_workflow_is_killed(tmp_path: Path) -> None:
    verb, told, started = tmp_path / "verb.py", tmp_path / "told", tmp_path / "started"
    verb.write_text(textwrap.dedent(VERB))
    code = textwrap.dedent(WORKFLOW).replace("{variable}", PARENT_VARIABLE)
    workflow = subprocess.Popen([sys.executable, "-c", code, f"{sys.executable} {verb} {told} {started}"])
    wait_for(started.exists)
    workflow.send_signal(signal.SIGKILL)
    # The killed workflow is still a zombie here, because `wait` comes later. A killed workflow also stays a zombie if
    # its parent is an init process that does not reap.
    wait_for(told.exists)
    workflow.wait()


def test_without_a_workflow_no_watching_thread_starts(tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key != PARENT_VARIABLE}
    code = "import threading, bloomery.base.follow_parent as p; p.follow_parent(); print(threading.active_count())"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"
