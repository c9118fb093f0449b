"""Routes for preuploads, for large files over LFS, and for commits."""

from __future__ import annotations

import base64
import fnmatch
import hashlib
import json
import time
from typing import Any

from . import settings
from .http import API, NAME, Handler, route
from .store import PREFIX, Entry, HttpError, git_blob_oid, is_binary, lfs_pointer, matches


def _ignored(path: str, patterns: list[str]) -> bool:
    return any(
        fnmatch.fnmatch(path, pattern.rstrip("/"))
        or fnmatch.fnmatch(path.rsplit("/", 1)[-1], pattern)
        or path.startswith(pattern.rstrip("/") + "/")
        for pattern in patterns
    )


@route("POST", API + r"/preupload/(?P<revision>[^/]+)")
def preupload(http: Handler, kind: str, name: str, revision: str) -> None:
    """Answer the upload mode of each file, and its current hash, with which the client skips unchanged files."""
    http.user(required=True)
    store, request = http.server.store, http.json()
    oid, tree = store.tree(kind, name, revision)
    lfs_patterns = store.lfs_patterns(tree)
    ignore = request.get("gitIgnore")
    if ignore is None and ".gitignore" in tree:
        ignore = store.read_entry(tree[".gitignore"]).decode("utf-8", "replace")
    patterns = [line.strip() for line in (ignore or "").splitlines() if line.strip() and not line.startswith("#")]
    answers = []
    for file in request["files"]:
        path, entry = file["path"], tree.get(file["path"])
        large = matches(path, lfs_patterns) or file["size"] > settings.LFS_THRESHOLD
        large = large or is_binary(base64.b64decode(file["sample"]))
        mode = "lfs" if large else "regular"
        answer = {"path": path, "uploadMode": mode, "shouldIgnore": _ignored(path, patterns)}
        if entry:
            answer["oid"] = entry["sha256"] if entry["lfs"] else entry["oid"]
        answers.append(answer)
    http.send(200, {"commitOid": oid, "files": answers})


def _upload_action(http: Handler, oid: str, size: int, transfers: list[str]) -> dict[str, Any]:
    base = f"{http.base()}/_lfs/{oid}"
    if not (settings.MULTIPART_ABOVE and size > settings.MULTIPART_ABOVE and "multipart" in transfers):
        return {"href": f"{base}?size={size}", "header": {}}
    count = -(-size // settings.MULTIPART_CHUNK)
    header = {"chunk_size": str(settings.MULTIPART_CHUNK)}
    header |= {str(part): f"{base}/part/{part}" for part in range(1, count + 1)}
    return {"href": f"{base}/complete?size={size}", "header": header}


@route("POST", r"/(?P<prefix>datasets/|spaces/)?" + NAME + r"\.git/info/lfs/objects/batch")
def lfs_batch(http: Handler, name: str, prefix: str | None = None) -> None:
    request, store, answers, multipart = http.json(), http.server.store, [], False
    upload = request["operation"] == "upload"
    http.user(required=upload)
    store.meta({"datasets/": "dataset", "spaces/": "space"}.get(prefix or "", "model"), name)
    for wanted in request["objects"]:
        oid, size = wanted["oid"], wanted["size"]
        answer: dict[str, Any] = {"oid": oid, "size": size, "authenticated": True}
        if not upload:
            answer["actions"] = {"download": {"href": f"{http.base()}/_lfs/{oid}", "header": {}}}
        elif not store.blob(oid).exists():
            action = _upload_action(http, oid, size, request.get("transfers", []))
            multipart = multipart or "chunk_size" in action["header"]
            verify = {"href": f"{http.base()}/{prefix or ''}{name}.git/info/lfs/objects/verify", "header": {}}
            answer["actions"] = {"upload": action, "verify": verify}
        answers.append(answer)
    transfer = "multipart" if multipart else "basic"
    http.send(200, {"transfer": transfer, "objects": answers}, kind="application/vnd.git-lfs+json")


@route("POST", r"/(?:datasets/|spaces/)?" + NAME + r"\.git/info/lfs/objects/verify")
def lfs_verify(http: Handler, name: str) -> None:
    request = http.json()
    path = http.server.store.blob(request["oid"])
    if not path.exists() or path.stat().st_size != request["size"]:
        raise HttpError(404, "object not found or size mismatch")
    http.send(200, {})


def _keep(http: Handler, oid: str, data: bytes) -> None:
    if hashlib.sha256(data).hexdigest() != oid:
        raise HttpError(400, "sha256 mismatch")
    http.server.store.put_blob(data)


@route("PUT", r"/_lfs/(?P<oid>[0-9a-f]{64})")
def lfs_put(http: Handler, oid: str) -> None:
    _keep(http, oid, http.body())
    http.send(200, b"", {"ETag": f'"{hashlib.md5(http.body()).hexdigest()}"'})


@route("PUT", r"/_lfs/(?P<oid>[0-9a-f]{64})/part/(?P<part>\d+)")
def lfs_part(http: Handler, oid: str, part: str) -> None:
    tag = hashlib.md5(http.body()).hexdigest()
    http.server.parts[oid, int(part)] = (tag, http.body())
    http.send(200, b"", {"ETag": f'"{tag}"'})


@route("POST", r"/_lfs/(?P<oid>[0-9a-f]{64})/complete")
def lfs_complete(http: Handler, oid: str) -> None:
    data = b""
    for part in http.json()["parts"]:
        tag, piece = http.server.parts.pop((oid, part["partNumber"]))
        if tag != part["etag"].strip('"'):
            raise HttpError(400, "bad etag")
        data += piece
    _keep(http, oid, data)
    http.send(200, {"success": True})


def _limit_rate(http: Handler, name: str) -> None:
    if not settings.COMMITS_PER_HOUR:
        return
    now, times = time.time(), http.server.store.commit_times[name]
    times[:] = [moment for moment in times if moment > now - 3600]
    if len(times) >= settings.COMMITS_PER_HOUR:
        wait = int(times[0] + 3600 - now) + 1
        raise HttpError(
            429,
            f"You have exceeded the rate limit for repository commits ({settings.COMMITS_PER_HOUR} per hour).",
            headers={
                "RateLimit": f'"api";r=0;t={wait}',
                "RateLimit-Policy": f'"fixed window";"api";q={settings.COMMITS_PER_HOUR};w=3600',
            },
        )
    times.append(now)


def _added(http: Handler, operations: list[tuple[str, dict[str, Any]]]) -> dict[str, Entry]:
    """Store the content of the files that a commit adds, and return their entries. Call this outside the lock."""
    store, added = http.server.store, {}
    for key, value in operations:
        if key == "file":
            content = value["content"]
            data = base64.b64decode(content) if value.get("encoding") == "base64" else content.encode()
            entry = {"sha256": store.put_blob(data), "oid": git_blob_oid(data), "size": len(data), "lfs": False}
        elif key == "lfsFile":
            sha256 = value["oid"]
            if not store.blob(sha256).exists():
                raise HttpError(400, f"LFS object {sha256} was not uploaded before the commit")
            size = store.blob(sha256).stat().st_size
            oid = git_blob_oid(lfs_pointer(sha256, size))
            entry = {"sha256": sha256, "oid": oid, "size": size, "lfs": True}
        else:
            continue
        added[value["path"]] = entry
    return added


def _delete(tree: dict[str, Entry], operations: list[tuple[str, dict[str, Any]]]) -> None:
    for key, value in operations:
        path = value["path"]
        if key == "deletedFile":
            gone = [path] if path in tree else []
        elif key == "deletedFolder":
            gone = [other for other in tree if other.startswith(path.rstrip("/") + "/")]
        else:
            continue
        if not gone:
            raise HttpError(404, f"A file with this name doesn't exist: {path}", "EntryNotFound")
        for other in gone:
            del tree[other]


@route("POST", API + r"/commit/(?P<revision>[^/]+)")
def commit(http: Handler, kind: str, name: str, revision: str) -> None:
    user, store = str(http.user(required=True)), http.server.store
    if len(http.body()) > settings.MAX_COMMIT_BYTES:
        raise HttpError(413, "Payload too large")
    _limit_rate(http, name)
    header: dict[str, Any] = {}
    operations: list[tuple[str, dict[str, Any]]] = []
    for line in http.body().splitlines():
        if line.strip():
            item = json.loads(line)
            if item["key"] == "header":
                header = item["value"]
            else:
                operations.append((item["key"], item["value"]))
    _, seen = store.resolve(kind, name, revision)
    added = _added(http, operations)
    with store.lock:
        ref, parent = store.resolve(kind, name, revision)
        if ref is None or not ref.startswith("heads/"):
            raise HttpError(400, f"Invalid ref: {revision} is not a branch")
        wanted = header.get("parentCommit")
        if (wanted and not parent.startswith(wanted)) or (settings.STRICT_PARENT and seen != parent):
            raise HttpError(412, "A commit has happened since. Please refresh and try again.")
        tree = dict(store.commit(kind, name, parent)["tree"])
        _delete(tree, operations)
        tree.update(added)
        title, message = header.get("summary", ""), header.get("description", "")
        oid = store.new_commit(kind, name, ref, parent, tree, title, message, user)
    url = f"{http.base()}/{PREFIX[kind]}{name}/commit/{oid}"
    http.send(200, {"success": True, "commitOid": oid, "hookOutput": "", "commitUrl": url})
