"""Store repositories and blobs as blobs/<sha256> and repos/<type>/<owner>/<name>/{meta.json, refs, commits}."""

from __future__ import annotations

import collections
import datetime
import fnmatch
import hashlib
import json
import re
import threading
import urllib.parse
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_LFS_SUFFIXES = """
    7z arrow avro bin bz2 ckpt ftz gz h5 joblib lz4 mds mlmodel model msgpack npy npz onnx ot parquet pb pickle
    pkl pt pth rar safetensors tar tflite tgz wasm xz zip zst bmp gif jpeg jpg png tiff webp mp3 mp4 wav flac ogg
""".split()  # noqa: SIM905 (a table of words)
_LFS_PATTERNS = [*(f"*.{suffix}" for suffix in _LFS_SUFFIXES), "saved_model/**/*", "*tfevents*"]
GITATTRIBUTES = "".join(f"{pattern} filter=lfs diff=lfs merge=lfs -text\n" for pattern in _LFS_PATTERNS).encode()
PREFIX = {"model": "", "dataset": "datasets/", "space": "spaces/"}
"""Prefix of the address of a repository, by the type of the repository."""

Entry = dict[str, Any]
"""A file in a tree: sha256, git oid, size, lfs."""
Tree = dict[str, Entry]


class HttpError(Exception):
    """An error that is answered with a status other than 2xx."""

    def __init__(
        self,
        status: int,
        message: str,
        code: str | None = None,
        headers: dict[str, str] | None = None,
        body: Any = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code = status, message, code
        self.headers, self.body = headers or {}, body


def git_blob_oid(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def lfs_pointer(oid: str, size: int) -> bytes:
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {size}\n".encode()


def now_iso() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def atomic_write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    temporary.write_bytes(data)
    temporary.replace(path)


class Store:
    """All repositories of one server."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        (self.root / "blobs").mkdir(parents=True, exist_ok=True)
        self.lock = threading.RLock()
        self.commit_times: dict[str, list[float]] = collections.defaultdict(list)

    def blob(self, sha256: str) -> Path:
        return self.root / "blobs" / sha256

    def put_blob(self, data: bytes) -> str:
        sha256 = hashlib.sha256(data).hexdigest()
        if not self.blob(sha256).exists():
            atomic_write(self.blob(sha256), data)
        return sha256

    def repo(self, kind: str, name: str) -> Path:
        return self.root / "repos" / kind / name

    def exists(self, kind: str, name: str) -> bool:
        return (self.repo(kind, name) / "meta.json").exists()

    def meta(self, kind: str, name: str) -> dict[str, Any]:
        try:
            return json.loads((self.repo(kind, name) / "meta.json").read_bytes())
        except FileNotFoundError:
            raise HttpError(404, "Repository not found", "RepoNotFound") from None

    def set_meta(self, kind: str, name: str, meta: dict[str, Any]) -> None:
        atomic_write(self.repo(kind, name) / "meta.json", json.dumps(meta).encode())

    def create(self, kind: str, name: str, private: bool, user: str) -> None:
        """Make a repository with a first commit of .gitattributes, as the Hub does."""
        with self.lock:
            meta = {
                "id": name,
                "private": private,
                "createdAt": now_iso(),
                "gated": False,
                "_id": uuid.uuid4().hex[:24],
            }
            self.set_meta(kind, name, meta)
            entry = {
                "sha256": self.put_blob(GITATTRIBUTES),
                "oid": git_blob_oid(GITATTRIBUTES),
                "size": len(GITATTRIBUTES),
                "lfs": False,
            }
            self.new_commit(kind, name, "heads/main", None, {".gitattributes": entry}, "initial commit", "", user)

    def ref_path(self, kind: str, name: str, ref: str) -> Path:
        return self.repo(kind, name) / "refs" / (urllib.parse.quote(ref, safe="") + ".json")

    def read_ref(self, kind: str, name: str, ref: str) -> str | None:
        try:
            return json.loads(self.ref_path(kind, name, ref).read_bytes())["oid"]
        except FileNotFoundError:
            return None

    def write_ref(self, kind: str, name: str, ref: str, oid: str) -> None:
        atomic_write(self.ref_path(kind, name, ref), json.dumps({"ref": ref, "oid": oid}).encode())

    def refs(self, kind: str, name: str) -> Iterator[dict[str, str]]:
        for path in sorted((self.repo(kind, name) / "refs").glob("*.json")):
            yield json.loads(path.read_bytes())

    def resolve(self, kind: str, name: str, revision: str) -> tuple[str | None, str]:
        """Return the ref and the commit of a branch, a tag or the beginning of a commit's hash.

        The ref of a commit's hash is None.
        """
        self.meta(kind, name)
        revision = revision.removeprefix("refs/")
        for ref in (f"heads/{revision}", f"tags/{revision}", revision):
            oid = self.read_ref(kind, name, ref)
            if oid:
                return ref, oid
        if re.fullmatch(r"[0-9a-f]{7,40}", revision):
            for path in (self.repo(kind, name) / "commits").glob(f"{revision}*.json"):
                return None, path.stem
        raise HttpError(404, f"Invalid rev id: {revision}", "RevisionNotFound")

    def commit(self, kind: str, name: str, oid: str) -> dict[str, Any]:
        return json.loads((self.repo(kind, name) / "commits" / f"{oid}.json").read_bytes())

    def tree(self, kind: str, name: str, revision: str) -> tuple[str, Tree]:
        """Return the commit of a revision, and the files of the commit."""
        _, oid = self.resolve(kind, name, revision)
        return oid, self.commit(kind, name, oid)["tree"]

    def new_commit(
        self, kind: str, name: str, ref: str, parent: str | None, tree: Tree, title: str, message: str, user: str
    ) -> str:
        body = {
            "parent": parent,
            "tree": tree,
            "title": title,
            "message": message,
            "date": now_iso(),
            "author": user,
            "nonce": uuid.uuid4().hex,
        }
        oid = hashlib.sha1(json.dumps(body, sort_keys=True).encode()).hexdigest()
        atomic_write(self.repo(kind, name) / "commits" / f"{oid}.json", json.dumps(body).encode())
        self.write_ref(kind, name, ref, oid)
        return oid

    def read_entry(self, entry: Entry) -> bytes:
        return self.blob(entry["sha256"]).read_bytes()

    def lfs_patterns(self, tree: Tree) -> list[str]:
        """Return the patterns of files that the tree's .gitattributes stores with LFS."""
        entry = tree.get(".gitattributes")
        if not entry or entry["lfs"]:
            return []
        lines = self.read_entry(entry).decode("utf-8", "replace").splitlines()
        return [line.split()[0] for line in lines if "filter=lfs" in line and not line.startswith("#")]


def matches(path: str, patterns: list[str]) -> bool:
    base = path.rsplit("/", 1)[-1]
    return any(fnmatch.fnmatch(base if "/" not in p else path, p.replace("**/", "*")) for p in patterns)


def is_binary(sample: bytes) -> bool:
    """Return whether `sample`, the first bytes of a file, is not text.

    A sample of at least 512 bytes counts as text even if it ends in the middle of a UTF-8 character.
    """
    if b"\0" in sample:
        return True
    try:
        sample.decode("utf-8")
    except UnicodeDecodeError as error:
        return not (len(sample) >= 512 and error.start >= len(sample) - 4)
    return False
