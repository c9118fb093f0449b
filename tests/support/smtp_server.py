"""A local SMTP server that records the mails that it receives."""

from __future__ import annotations

import contextlib
import socketserver
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message


@dataclass
class Mailbox:
    """Mails that the server received."""

    port: int = 0
    mails: list[Message] = field(default_factory=list)

    @property
    def texts(self) -> list[str]:
        """Decoded text of each mail."""
        return [
            b"".join(part.get_payload(decode=True) or b"" for part in mail.walk() if not part.is_multipart()).decode()
            for mail in self.mails
        ]


@contextlib.contextmanager
def running_smtp() -> Iterator[Mailbox]:
    """Run the server on a free port of this machine."""
    box = Mailbox()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 test\r\n")
            while line := self.rfile.readline():
                verb = line.split()[0].upper() if line.split() else b""
                if verb == b"DATA":
                    self.wfile.write(b"354 go on\r\n")
                    lines = []
                    while (part := self.rfile.readline()) not in (b".\r\n", b""):
                        lines.append(part)
                    box.mails.append(message_from_bytes(b"".join(lines)))
                self.wfile.write(b"221 bye\r\n" if verb == b"QUIT" else b"250 ok\r\n")
                if verb == b"QUIT":
                    return

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        box.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield box
        finally:
            server.shutdown()
            thread.join()
