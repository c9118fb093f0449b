"""Control a real browser in tests: headless Chromium, with its DevTools protocol over a pair of pipes.

This needs no driver and no port. With `--remote-debugging-pipe`, Chromium reads commands from file descriptor 3 and
answers on 4, in JSON messages that end with NUL. The profile is an empty folder, and only files can be opened.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell")
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
    *("--no-first-run", "--no-default-browser-check", "--disable-extensions", "--disable-sync", "--disable-quic"),
    *(
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-default-apps",
        "--metrics-recording-only",
    ),
    # If Chromium still tries to fetch something by itself, it finds no host.
    *("--host-resolver-rules=MAP * ~NOTFOUND", "--no-proxy-server", "--remote-debugging-pipe"),
)
PATIENCE_SECONDS = 60.0


def browser_program() -> str | None:
    """Return the path of a Chromium on this machine, or None."""
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


class Browser:
    """One page of one browser. `problems` collects the errors, warnings and exceptions that a console would show."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands = commands
        self._answers = answers
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.problems: list[str] = []
        self.requests: list[str] = []
        self._loaded = False

    @classmethod
    @contextlib.contextmanager
    def start(cls) -> Iterator[Browser]:
        """Start a browser with an empty page. At the end of `with`, the browser closes and its profile is deleted."""
        program = browser_program()
        assert program, "there is no Chromium on this machine; check browser_program() first"
        command_read, command_write = os.pipe()
        answer_read, answer_write = os.pipe()
        with tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True) as profile:
            # The shell gives the pipes the file descriptors that Chromium expects.
            shell = 'exec "$@" 3<&"$IN" 4>&"$OUT"'
            child = subprocess.Popen(
                ["bash", "-c", shell, "bash", program, *OPTIONS, f"--user-data-dir={profile}", "about:blank"],
                pass_fds=(command_read, answer_write),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "IN": str(command_read), "OUT": str(answer_write), "HOME": profile},
                start_new_session=True,
            )
            os.close(command_read)
            os.close(answer_write)
            try:
                browser = cls(command_write, answer_read)
                browser._attach()
                yield browser
                browser._call("Browser.close", session=False)
                child.wait(PATIENCE_SECONDS)
            finally:
                os.close(command_write)
                os.close(answer_read)
                if child.poll() is None:
                    os.killpg(child.pid, 9)
                    child.wait()

    def _attach(self) -> None:
        targets = self._call("Target.getTargets", session=False)["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        attached = self._call("Target.attachToTarget", session=False, targetId=page, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def open(self, page: Path, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Open a file in a window of the given size, and wait until the page is loaded."""
        self.problems, self.requests, self._loaded = [], [], False
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        failed = self._call("Page.navigate", url=page.resolve().as_uri()).get("errorText")
        assert not failed, failed
        end = time.monotonic() + PATIENCE_SECONDS
        while not self._loaded:
            self._take(end)
        self.evaluate("document.fonts.ready.then(() => true)")

    def evaluate(self, expression: str) -> Any:
        """Evaluate JavaScript in the page and return its JSON value. A promise is awaited."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def allow_scripts(self, allowed: bool) -> None:
        """Set whether pages that are opened later may run their scripts. `evaluate` always works."""
        self._call("Emulation.setScriptExecutionDisabled", value=not allowed)

    def screenshot(self, target: Path, whole: bool = True) -> None:
        """Write a PNG of the whole page, or only of the window."""
        answer = self._call("Page.captureScreenshot", captureBeyondViewport=whole)
        target.write_bytes(base64.b64decode(answer["data"]))

    def _call(self, method: str, session: bool = True, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            answer = self._take(end)
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer["error"])
                found: dict[str, Any] = answer["result"]
                return found

    def _take(self, end: float) -> dict[str, Any]:
        """Return the next message. Events are also recorded."""
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._answers], [], [], max(end - time.monotonic(), 0))
            assert ready, f"the browser sent no message for {PATIENCE_SECONDS:.0f} s"
            more = os.read(self._answers, 1 << 20)
            assert more, "the browser closed its pipe"
            self._buffer += more
        line, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, event: str, about: dict[str, Any]) -> None:
        if event == "Page.loadEventFired":
            self._loaded = True
        elif event == "Runtime.exceptionThrown":
            self.problems.append(str(about["exceptionDetails"]))
        elif event == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert"):
            self.problems.append(str(about["args"]))
        elif event == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.problems.append(about["entry"]["text"])
        elif event == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
