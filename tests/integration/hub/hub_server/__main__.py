"""`python -m hub_server --data FOLDER` prints the address of the server and serves until it is killed."""

from __future__ import annotations

import argparse
from pathlib import Path

from . import downloads, repositories, uploads  # noqa: F401 (the modules register their routes)
from .http import Hub


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="port of the server; 0 chooses a free port")
    parser.add_argument("--token", action="append", default=[], help="token:user, repeatable")
    given = parser.parse_args()
    tokens = dict(token.split(":", 1) for token in given.token) or {"hf_test": "tester"}
    server = Hub((given.host, given.port), given.data, tokens)
    print(f"http://{given.host}:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
