"""The HTTP part of the server: routing, bodies, ranges, tokens, injected faults, and the log of requests."""

from __future__ import annotations

import base64
import json
import re
import sys
import threading
import time
import traceback
import urllib.parse
import uuid
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from .cas import Cas
from .store import HttpError, Store

ROUTES: list[tuple[str, re.Pattern[str], Callable[..., None]]] = []
NAME = r"(?P<name>[^/]+(?:/[^/]+)?)"
API = r"/api/(?P<kind>model|dataset|space)s/" + NAME


def route(method: str, pattern: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register `function(handler, **groups)` for a method and a pattern that the whole path must match."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        ROUTES.append((method, re.compile(pattern + r"\Z"), function))
        return function

    return register


class Hub(ThreadingHTTPServer):
    """The server, with the state that its requests share."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], root: Path, tokens: dict[str, str]) -> None:
        super().__init__(address, Handler)
        self.store = Store(root)
        self.cas = Cas(self.store)
        self.tokens = tokens
        self.lock = threading.Lock()
        self.log: list[dict[str, Any]] = []
        self.faults: list[dict[str, Any]] = []
        self.parts: dict[tuple[str, int], tuple[str, bytes]] = {}
        self.running = 0

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), BrokenPipeError | ConnectionResetError):  # the client closed the connection
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """One connection. Routes get the handler and answer through `send` or `send_file`."""

    protocol_version = "HTTP/1.1"
    server_version = "hub-for-tests"
    disable_nagle_algorithm = True
    server: Hub

    def log_message(self, *arguments: Any) -> None:
        """Print nothing, because the server has its own log of requests."""

    def body(self) -> bytes:
        return self._body

    def json(self) -> Any:
        return json.loads(self._body or b"{}")

    def base(self) -> str:
        return f"http://{self.headers.get('Host')}"

    def send(
        self, status: int = 200, body: Any = b"", headers: dict[str, str] | None = None, kind: str = "application/json"
    ) -> None:
        if self._mute:
            return
        data = bytes(body) if isinstance(body, bytes | bytearray) else json.dumps(body).encode()
        self._status, self._sent = status, len(data)
        self.send_response(status)
        basic = {"Content-Type": kind, "Content-Length": str(len(data)), "X-Request-Id": "Root=1-" + uuid.uuid4().hex}
        for key, value in (basic | (headers or {})).items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def send_file(self, path: Path, headers: dict[str, str], kind: str) -> None:
        """Answer with a file, or with the byte range that the request asks for."""
        size = path.stat().st_size
        start, end, status = 0, size - 1, 200
        match = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if match and size:
            first, last = match.groups()
            start = int(first) if first else max(0, size - int(last))
            end = min(int(last), size - 1) if first and last else size - 1
            if start > end:
                self.send(416, b"", {"Content-Range": f"bytes */{size}"})
                return
            status = 206
            headers = {**headers, "Content-Range": f"bytes {start}-{end}/{size}"}
        length = max(0, end - start + 1)
        self._status, self._sent = status, length if self.command != "HEAD" else 0
        self.send_response(status)
        basic = {"Content-Type": kind, "Content-Length": str(length), "Accept-Ranges": "bytes"}
        for key, value in (basic | headers).items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        with path.open("rb") as file:
            file.seek(start)
            while length > 0 and (block := file.read(min(1 << 20, length))):
                self.wfile.write(block)
                length -= len(block)

    def user(self, required: bool = False) -> str | None:
        """Return the user of the request's token, or None without a token.

        Raises:
            HttpError: 401, because the token is unknown, or because it is required and missing.
        """
        header = self.headers.get("Authorization", "")
        token = header[7:] if header.lower().startswith("bearer ") else ""
        if header.lower().startswith("basic "):
            token = base64.b64decode(header[6:]).decode().split(":", 1)[1]
        if token:
            if token in self.server.tokens:
                return self.server.tokens[token]
            raise HttpError(401, "Invalid credentials in Authorization header")
        if required:
            raise HttpError(401, "Invalid username or password.")
        return None

    def readable(self, kind: str, name: str) -> dict[str, Any]:
        """Return the metadata of a repository.

        Raises:
            HttpError: 401, because the repository is private and the request has no token.
        """
        user = self.user()
        meta = self.server.store.meta(kind, name)
        if meta.get("private") and not user:
            raise HttpError(401, "Invalid username or password.", "RepoNotFound")
        return meta

    def _read_body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", "").lower():
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0].strip() or b"0", 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(parts)

    def _take_fault(self, path: str) -> dict[str, Any] | None:
        with self.server.lock:
            for fault in self.server.faults:
                wanted = fault.get("method", self.command) == self.command and re.search(fault["path"], path)
                if not wanted or fault.get("times", 1) <= 0:
                    continue
                if fault.get("after", 0) > 0:
                    fault["after"] -= 1
                    continue
                fault["times"] = fault.get("times", 1) - 1
                return dict(fault)
        return None

    def _lose(self) -> None:
        self._status = -1
        self.close_connection = True
        self.connection.close()

    def _answer(self, path: str, is_test: bool) -> None:
        fault = None if is_test else self._take_fault(path)
        if fault:
            time.sleep(fault.get("delay", 0))
            if fault.get("drop") == "before":
                self._lose()
                return
            if fault.get("status"):
                body = {"error": fault.get("message", "injected fault")}
                self.send(fault["status"], body, fault.get("headers"))
                return
        self._mute = bool(fault and fault.get("drop") == "after")
        method = "GET" if self.command == "HEAD" else self.command
        for wanted, pattern, function in ROUTES:
            match = pattern.match(path) if wanted == method else None
            if match:
                groups = {k: urllib.parse.unquote(v) if v is not None else v for k, v in match.groupdict().items()}
                function(self, **groups)
                if self._mute:  # the request was carried out, but its answer is lost
                    self._lose()
                return
        raise HttpError(404, f"No route: {self.command} {path}")

    def dispatch(self) -> None:
        """Answer one request."""
        self._status, self._sent, self._mute = 0, 0, False
        started = time.time()
        path, _, query = self.path.partition("?")
        self.query = urllib.parse.parse_qs(query, keep_blank_values=True)
        self._body = self._read_body()  # always read, because unread bytes break the next request
        server, is_test = self.server, path.startswith("/_test")
        with server.lock:
            server.running += not is_test
        try:
            self._answer(path, is_test)
        except HttpError as error:
            headers = {"X-Error-Message": error.message, **error.headers}
            if error.code:
                headers["X-Error-Code"] = error.code
            self.send(error.status, error.body or {"error": error.message}, headers)
        except (BrokenPipeError, ConnectionResetError):
            raise
        except Exception as error:
            traceback.print_exc()
            self.send(500, {"error": f"{type(error).__name__}: {error}"})
        finally:
            if not is_test:
                with server.lock:
                    server.running -= 1
                    server.log.append(
                        {
                            "method": self.command,
                            "path": self.path,
                            "status": self._status,
                            "in": len(self._body),
                            "out": self._sent,
                            "seconds": round(time.time() - started, 4),
                        }
                    )


for _method in ("GET", "POST", "PUT", "DELETE", "HEAD", "PATCH"):
    setattr(Handler, f"do_{_method}", Handler.dispatch)
