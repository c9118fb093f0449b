"""Test whether the process that wrote a file still runs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

import psutil
from waiting import wait_for

from bloomery.base.process_alive import alive_since


def test_a_process_is_alive_if_it_started_before_the_file_was_written() -> None:
    host, started = socket.gethostname(), psutil.Process().create_time()
    assert alive_since(os.getpid(), host, time.time()) is True
    # A file that is older than the process was written by another process with the same id.
    assert alive_since(os.getpid(), host, started - 10) is False
    assert alive_since(os.getpid(), f"not-{host}", time.time()) is None


def test_a_process_that_has_ended_is_not_alive_even_if_nobody_waited_for_it() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        wait_for(lambda: psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE, 30)
        assert alive_since(child.pid, socket.gethostname(), time.time()) is False
    assert alive_since(child.pid, socket.gethostname(), time.time()) is False
