"""Test the test server with the official client, with xet and without xet."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import random, pathlib, sys
from huggingface_hub import HfApi, hf_hub_download, snapshot_download
from huggingface_hub.errors import EntryNotFoundError, RepositoryNotFoundError, RevisionNotFoundError

folder = pathlib.Path(sys.argv[1])
random.seed(0)
(folder / "sub").mkdir(parents=True)
(folder / "random.bin").write_bytes(random.randbytes(300_000))
(folder / "numbers.bin").write_bytes(b"".join((i // 7).to_bytes(4, "little") for i in range(200_000)))
(folder / "sub" / "text.txt").write_text("one line\\n")
(folder / "empty.txt").write_text("")
api = HfApi()
name = api.create_repo("thing").repo_id
assert name == "tester/thing"
assert api.create_repo(name, exist_ok=True).repo_id == name
api.upload_folder(repo_id=name, folder_path=folder)
assert sorted(api.list_repo_files(name)) == [
    ".gitattributes", "empty.txt", "numbers.bin", "random.bin", "sub/text.txt"
]
back = pathlib.Path(snapshot_download(name))
for path in folder.rglob("*"):
    if path.is_file():
        assert (back / path.relative_to(folder)).read_bytes() == path.read_bytes(), path
first = api.repo_info(name).sha
api.create_tag(name, tag="v1")
api.create_branch(name, branch="side")
api.upload_file(repo_id=name, path_or_fileobj=b"more", path_in_repo="sub/more.txt", revision="side")
api.delete_folder("sub", repo_id=name)
assert not api.file_exists(name, "sub/text.txt")
assert pathlib.Path(hf_hub_download(name, "sub/text.txt", revision="v1")).read_text() == "one line\\n"
assert len(api.list_repo_commits(name)) == 3
for call, kind in (
    (lambda: hf_hub_download(name, "absent"), EntryNotFoundError),
    (lambda: hf_hub_download(name, "empty.txt", revision="absent"), RevisionNotFoundError),
    (lambda: api.repo_info("tester/absent"), RepositoryNotFoundError),
):
    try:
        call()
    except kind:
        continue
    raise AssertionError(kind)
api.super_squash_history(name)
assert len(api.list_repo_commits(name)) == 1
print("done")
"""


@pytest.mark.parametrize("xet", [True, False])
def test_the_official_client_works_with_the_test_server(hub, tmp_path, xet):
    environment = hub.environment | ({} if xet else {"HF_HUB_DISABLE_XET": "1"})
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "files")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.strip() == "done", done.stderr
    cas = hub.read("/_test/stats")["cas"]
    assert ("xorbs" in cas) is xet
    if xet:
        assert cas["xorb_bytes"] < cas["file_bytes"], "the compressible file is sent as LZ4"
