"""Routes for the account, repositories, refs and listings."""

from __future__ import annotations

import hashlib
import shutil
import urllib.parse
from typing import Any

from . import settings
from .http import API, Handler, route
from .store import PREFIX, Entry, HttpError, Tree, lfs_pointer, now_iso


@route("GET", r"/api/whoami-v2")
def whoami(http: Handler) -> None:
    user = http.user(required=True)
    token = {"displayName": "test", "role": "write", "createdAt": now_iso()}
    http.send(
        200,
        {
            "type": "user",
            "id": f"u{user}",
            "name": user,
            "fullname": user,
            "email": f"{user}@example.org",
            "emailVerified": True,
            "canPay": False,
            "isPro": False,
            "periodEnd": None,
            "avatarUrl": "",
            "orgs": [],
            "auth": {"type": "access_token", "accessToken": token},
        },
    )


@route("POST", r"/api/validate-yaml")
def validate_yaml(http: Handler) -> None:
    http.send(200, {"errors": [], "warnings": []})


def _named(http: Handler, user: str | None) -> tuple[str, str]:
    request = http.json()
    return request.get("type") or "model", f"{request.get('organization') or user}/{request['name']}"


@route("POST", r"/api/repos/create")
def create_repository(http: Handler) -> None:
    user = http.user(required=True)
    kind, name = _named(http, user)
    url = f"{http.base()}/{PREFIX[kind]}{name}"
    store, request = http.server.store, http.json()
    with store.lock:
        if store.exists(kind, name):
            error = f"You already created this {kind} repo"
            # With exist_ok=True the client reads "url" from this body.
            raise HttpError(409, error, body={"error": error, "url": url, "name": name})
        private = request.get("visibility") == "private" or bool(request.get("private"))
        store.create(kind, name, private, str(user))
    http.send(200, {"url": url, "name": name, "id": store.meta(kind, name)["_id"]})


@route("DELETE", r"/api/repos/delete")
def delete_repository(http: Handler) -> None:
    kind, name = _named(http, http.user(required=True))
    http.server.store.meta(kind, name)
    shutil.rmtree(http.server.store.repo(kind, name))
    http.send(200, b"OK", kind="text/plain")


@route("POST", r"/api/repos/move")
def move_repository(http: Handler) -> None:
    http.user(required=True)
    request, store = http.json(), http.server.store
    store.meta(request["type"], request["fromRepo"])
    target = store.repo(request["type"], request["toRepo"])
    target.parent.mkdir(parents=True, exist_ok=True)
    store.repo(request["type"], request["fromRepo"]).rename(target)
    http.send(200, b"OK", kind="text/plain")


@route("PUT", API + r"/settings")
def change_settings(http: Handler, kind: str, name: str) -> None:
    http.user(required=True)
    store, request = http.server.store, http.json()
    meta = store.meta(kind, name)
    if "visibility" in request:
        meta["private"] = request["visibility"] == "private"
    if "gated" in request:
        meta["gated"] = request["gated"]
    store.set_meta(kind, name, meta)
    http.send(200, {"private": meta["private"], "gated": meta["gated"]})


def _lfs(entry: Entry) -> dict[str, int]:
    return {"size": entry["size"], "pointerSize": len(lfs_pointer(entry["sha256"], entry["size"]))}


@route("GET", API)
def info(http: Handler, kind: str, name: str) -> None:
    info_of_revision(http, kind, name, "main")


@route("GET", API + r"/revision/(?P<revision>[^/]+)")
def info_of_revision(http: Handler, kind: str, name: str, revision: str) -> None:
    store, meta = http.server.store, http.readable(kind, name)
    _, oid = store.resolve(kind, name, revision)
    commit = store.commit(kind, name, oid)
    with_blobs = http.query.get("blobs", [""])[0].lower() in ("1", "true")
    siblings = []
    for path, entry in sorted(commit["tree"].items()):
        sibling: dict[str, Any] = {"rfilename": path}
        if with_blobs:
            sibling |= {"size": entry["size"], "blobId": entry["oid"]}
            if entry["lfs"]:
                sibling["lfs"] = {"sha256": entry["sha256"], **_lfs(entry)}
        siblings.append(sibling)
    http.send(
        200,
        {
            "_id": meta["_id"],
            "id": name,
            "modelId": name,
            "author": name.split("/")[0],
            "sha": oid,
            "lastModified": commit["date"],
            "createdAt": meta["createdAt"],
            "private": meta["private"],
            "gated": meta["gated"],
            "disabled": False,
            "downloads": 0,
            "likes": 0,
            "tags": [],
            "cardData": None,
            "siblings": siblings,
            "usedStorage": sum(entry["size"] for entry in commit["tree"].values()),
        },
    )


@route("GET", API + r"/refs")
def list_refs(http: Handler, kind: str, name: str) -> None:
    http.readable(kind, name)
    found: dict[str, list[dict[str, str]]] = {"branches": [], "converts": [], "tags": [], "pullRequests": []}
    for ref in http.server.store.refs(kind, name):
        group, short = ref["ref"].split("/", 1)
        entry = {"name": short, "ref": f"refs/{ref['ref']}", "targetCommit": ref["oid"]}
        found["branches" if group == "heads" else "tags"].append(entry)
    http.send(200, found)


@route("GET", API + r"/commits/(?P<revision>[^/]+)")
def list_commits(http: Handler, kind: str, name: str, revision: str) -> None:
    http.readable(kind, name)
    store, found = http.server.store, []
    oid: str | None = store.resolve(kind, name, revision)[1]
    while oid:
        commit = store.commit(kind, name, oid)
        found.append({"id": oid} | {key: commit[key] for key in ("title", "message", "date")})
        found[-1]["authors"] = [{"user": commit["author"]}]
        oid = commit["parent"]
    http.send(200, found)


def _file(http: Handler, path: str, entry: Entry) -> dict[str, Any]:
    found = {"type": "file", "oid": entry["oid"], "size": entry["size"], "path": path}
    if entry["lfs"]:
        found["lfs"] = {"oid": entry["sha256"], **_lfs(entry)}
        xet_hash = None if settings.NO_XET else http.server.cas.xet_hash(entry["sha256"])
        if xet_hash:
            found["xetHash"] = xet_hash
    return found


def _folder(path: str) -> dict[str, Any]:
    return {"type": "directory", "oid": hashlib.sha1(path.encode()).hexdigest(), "size": 0, "path": path}


def _listing(http: Handler, tree: Tree, below: str, recursive: bool) -> list[dict[str, Any]]:
    found, folders = [], set()
    prefix = f"{below}/" if below else ""
    for path, entry in sorted(tree.items()):
        if not path.startswith(prefix):
            continue
        parts = path[len(prefix) :].split("/")
        for depth in range(1, len(parts) if recursive else min(2, len(parts))):
            folder = prefix + "/".join(parts[:depth])
            if folder not in folders:
                folders.add(folder)
                found.append(_folder(folder))
        if recursive or len(parts) == 1:
            found.append(_file(http, path, entry))
    return found


@route("GET", API + r"/tree/(?P<revision>[^/]+)(?:/(?P<below>.*))?")
def list_tree(http: Handler, kind: str, name: str, revision: str, below: str | None = None) -> None:
    http.readable(kind, name)
    oid, tree = http.server.store.tree(kind, name, revision)
    below = (below or "").strip("/")
    recursive = http.query.get("recursive", ["false"])[0].lower() in ("1", "true")
    found = _listing(http, tree, below, recursive)
    if below and not found:
        raise HttpError(404, f'{below} does not exist on "{revision}"', "EntryNotFound", {"X-Repo-Commit": oid})
    cursor, headers = int(http.query.get("cursor", ["0"])[0]), {}
    after = cursor + settings.TREE_PAGE
    if after < len(found):
        query = urllib.parse.urlencode({key: values[0] for key, values in http.query.items()} | {"cursor": after})
        headers["Link"] = f'<{http.base()}{http.path.partition("?")[0]}?{query}>; rel="next"'
    http.send(200, found[cursor:after], headers)


@route("POST", API + r"/paths-info/(?P<revision>[^/]+)")
def paths_info(http: Handler, kind: str, name: str, revision: str) -> None:
    http.readable(kind, name)
    _, tree = http.server.store.tree(kind, name, revision)
    if "json" in (http.headers.get("Content-Type") or ""):
        paths = http.json().get("paths", [])
    else:
        paths = urllib.parse.parse_qs(http.body().decode()).get("paths", [])
    found = []
    for path in [paths] if isinstance(paths, str) else paths:
        path = path.strip("/")
        if path in tree:
            found.append(_file(http, path, tree[path]))
        elif any(other.startswith(f"{path}/") for other in tree):
            found.append(_folder(path))
    http.send(200, found)


@route("POST", API + r"/(?P<what>branch|tag)/(?P<given>[^/]+)")
def create_ref(http: Handler, kind: str, name: str, what: str, given: str) -> None:
    """Create a branch or a tag.

    The address gives the name of the branch, or the revision of the tag. The body gives the name of the tag.
    """
    user = str(http.user(required=True))
    store, request = http.server.store, http.json()
    branch = what == "branch"
    revision = (request.get("startingPoint") or "main") if branch else given
    ref = f"heads/{given}" if branch else f"tags/{request['tag']}"
    _, oid = store.resolve(kind, name, revision)
    with store.lock:
        if store.read_ref(kind, name, ref):
            raise HttpError(409, f"Reference already exists: {ref}")
        if branch and request.get("emptyBranch"):
            store.new_commit(kind, name, ref, None, {}, "initial commit", "", user)
        else:
            store.write_ref(kind, name, ref, oid)
    http.send(200, {})


@route("DELETE", API + r"/(?P<what>branch|tag)/(?P<given>[^/]+)")
def delete_ref(http: Handler, kind: str, name: str, what: str, given: str) -> None:
    http.user(required=True)
    ref = ("heads/" if what == "branch" else "tags/") + given
    if not http.server.store.read_ref(kind, name, ref):
        raise HttpError(404, f"{ref} not found", "RevisionNotFound")
    http.server.store.ref_path(kind, name, ref).unlink()
    http.send(200, {})


@route("POST", API + r"/super-squash/(?P<revision>[^/]+)")
def squash(http: Handler, kind: str, name: str, revision: str) -> None:
    user = str(http.user(required=True))
    store = http.server.store
    with store.lock:
        ref, oid = store.resolve(kind, name, revision)
        if not ref or not ref.startswith("heads/"):
            raise HttpError(400, "Invalid reference for a branch")
        tree = store.commit(kind, name, oid)["tree"]
        store.new_commit(kind, name, ref, None, tree, http.json().get("message") or "Super-squash", "", user)
    http.send(200, b"OK", kind="text/plain")
