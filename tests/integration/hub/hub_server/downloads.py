"""Routes for file downloads, for xet's content-addressed store, and for the hooks of tests."""

from __future__ import annotations

import re
import time

from . import settings
from .http import API, Handler, route
from .store import HttpError

_BINARY = "application/octet-stream"
_HASH = r"(?P<name>[0-9a-f]{64})"


@route("GET", r"/_lfs/(?P<oid>[0-9a-f]{64})")
def lfs_get(http: Handler, oid: str) -> None:
    path = http.server.store.blob(oid)
    if not path.exists():
        raise HttpError(404, "not found")
    http.send_file(path, {"ETag": f'"{oid}"'}, _BINARY)


@route(
    "GET",
    r"/(?P<prefix>datasets/|spaces/)?(?P<name>(?!api/|_)[^/]+(?:/[^/]+)?)/(?:resolve|raw)/(?P<revision>[^/]+)/(?P<path>.+)",
)
def resolve(http: Handler, name: str, revision: str, path: str, prefix: str | None = None) -> None:
    kind = {"datasets/": "dataset", "spaces/": "space"}.get(prefix or "", "model")
    http.readable(kind, name)
    store = http.server.store
    oid, tree = store.tree(kind, name, revision)
    entry = tree.get(path)
    if entry is None:
        # X-Repo-Commit lets the client remember that the file is absent.
        raise HttpError(404, "Entry not found", "EntryNotFound", {"X-Repo-Commit": oid})
    headers = {"X-Repo-Commit": oid, "ETag": f'"{entry["oid"]}"', "Cache-Control": "no-cache"}
    if entry["lfs"]:
        headers["ETag"] = headers["X-Linked-Etag"] = f'"{entry["sha256"]}"'
        headers["X-Linked-Size"] = str(entry["size"])
        xet_hash = None if settings.NO_XET else http.server.cas.xet_hash(entry["sha256"])
        if xet_hash:
            headers["X-Xet-Hash"] = xet_hash
            headers["Link"] = f'<{http.base()}/api/{kind}s/{name}/xet-read-token/{oid}>; rel="xet-auth"'
    http.send_file(store.blob(entry["sha256"]), headers, _BINARY if entry["lfs"] else "text/plain")


@route("GET", API + r"/xet-(?P<scope>read|write)-token/(?P<revision>.+)")
def xet_token(http: Handler, kind: str, name: str, scope: str, revision: str) -> None:
    if settings.NO_XET:
        raise HttpError(404, "Not Found")
    http.user(required=scope == "write")
    http.server.store.meta(kind, name)
    expires = int(time.time()) + 3600
    token, url = f"{scope}-{expires}", f"{http.base()}/_cas"
    headers = {"X-Xet-Access-Token": token, "X-Xet-Token-Expiration": str(expires), "X-Xet-Cas-Url": url}
    http.send(200, {"accessToken": token, "exp": expires, "casUrl": url}, headers)


@route("POST", r"/_cas/v1/xorbs/default/" + _HASH)
def put_xorb(http: Handler, name: str) -> None:
    http.send(200, {"was_inserted": http.server.cas.put_xorb(name, http.body())})


@route("POST", r"/_cas/(?P<version>v[12])/shards")
def put_shard(http: Handler, version: str) -> None:
    with http.server.cas.lock:
        http.server.cas.put_shard(http.body())
    if version == "v2":
        http.send(200, b'{"type":"result"}\n', kind="application/x-ndjson")
    else:
        http.send(200, {"result": 1})


@route("GET", r"/_cas/v1/chunks/[^/]+/" + _HASH)
def find_chunk(http: Handler, name: str) -> None:
    raise HttpError(404, "Chunk not tracked by global deduplication")


@route("GET", r"/_cas/(?P<version>v[12])/reconstructions/" + _HASH)
def reconstruction(http: Handler, version: str, name: str) -> None:
    if version == "v2":
        raise HttpError(404, "V2 not supported")
    match = re.fullmatch(r"bytes=(\d+)-(\d+)", http.headers.get("Range", ""))
    wanted = (int(match.group(1)), int(match.group(2))) if match else None
    http.send(200, http.server.cas.reconstruction(name, http.base(), wanted))


@route("GET", r"/_cas/xorb/" + _HASH)
def get_xorb(http: Handler, name: str) -> None:
    http.send_file(http.server.cas.root / "xorbs" / name, {}, _BINARY)


@route("POST", r"(?:/_cas)?/v1/telemetry")
def telemetry(http: Handler) -> None:
    http.send(200, {})


def _wait_until_idle(http: Handler) -> None:
    """Wait until no request is running. A request enters the log only after its answer."""
    for _ in range(200):
        if not http.server.running:
            return
        time.sleep(0.01)


@route("POST", r"/_test/faults")
def set_faults(http: Handler) -> None:
    with http.server.lock:
        http.server.faults[:] = http.json()
    http.send(200, {})


@route("GET", r"/_test/faults")
def get_faults(http: Handler) -> None:
    with http.server.lock:
        left = [dict(fault) for fault in http.server.faults]
    http.send(200, left)


@route("GET", r"/_test/log")
def get_log(http: Handler) -> None:
    _wait_until_idle(http)
    with http.server.lock:
        log = list(http.server.log)
    http.send(200, log)


@route("POST", r"/_test/reset")
def reset(http: Handler) -> None:
    with http.server.lock:
        http.server.log.clear()
        http.server.faults.clear()
    http.server.cas.stats.clear()
    http.send(200, {})


@route("GET", r"/_test/stats")
def get_stats(http: Handler) -> None:
    _wait_until_idle(http)
    log = http.server.log
    totals = {"requests": len(log), "bytes_in": sum(x["in"] for x in log), "bytes_out": sum(x["out"] for x in log)}
    http.send(200, totals | {"cas": dict(http.server.cas.stats)})
