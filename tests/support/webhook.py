"""A local HTTP server that records the requests that it receives."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Webhook:
    """What the server received, and how it answers."""

    port: int = 0
    bodies: list[Any] = field(default_factory=list)
    """Bodies of the accepted POST requests, parsed as JSON."""
    paths: list[str] = field(default_factory=list)
    """Paths of all accepted requests."""
    status: int = 200
    """Status of the answers. Requests are accepted if it is below 300."""
    delay_seconds: float = 0.0

    @property
    def titles(self) -> list[str]:
        return [body["title"] for body in self.bodies]


@contextlib.contextmanager
def running_webhook() -> Iterator[Webhook]:
    """Run the server on a free port of this machine."""
    hook = Webhook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            time.sleep(hook.delay_seconds)
            if hook.status < 300:
                hook.bodies.append(json.loads(body))
            self._answer()

        def do_GET(self) -> None:
            time.sleep(hook.delay_seconds)
            self._answer()

        def _answer(self) -> None:
            if hook.status < 300:
                hook.paths.append(self.path)
            # A client may have closed the connection because the answer was too late.
            with contextlib.suppress(OSError):
                self.send_response(hook.status)
                self.end_headers()
                self.wfile.write(b"ok")

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    hook.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hook
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
