"""Test the publication of checkpoints on a real server: exactly the exported files arrive."""

from __future__ import annotations

import hashlib
import json
import time

import pytest
from hub_support import TOKEN

from bloomery.base.digest import sha256_file

pytestmark = pytest.mark.slow

MODEL, FINAL, STEPS = "tester/tiny-bloom", "step00000100", ["step00000040", "step00000080"]


def command(run, *options):
    return ["publish", "model", "--run", str(run.paths.run), "--every", "40", *options]


def succeeded(done):
    assert done.returncode == 0, done.stderr
    assert TOKEN not in done.stdout + done.stderr
    return done


def snapshot(folder):
    return {path: sha256_file(path) for path in sorted(folder.rglob("*")) if path.is_file()}


def kept_digests(hub, step):
    """Return the SHA-256 of each file that parity.json of a revision lists, as the Hub serves the files."""
    listed = json.loads(hub.file(MODEL, "parity.json", step))["files"]
    served = {name: hashlib.sha256(hub.file(MODEL, name, step)).hexdigest() for name in listed}
    assert served == {name: entry["sha256"] for name, entry in listed.items()}
    assert hub.paths(MODEL, step) == sorted([".gitattributes", "parity.json", *listed])
    return served


def test_checkpoints_become_tagged_revisions_and_a_killed_publication_resumes(hub, trained, tmp_path):
    # A dry run names every file, and writes nothing here or on the Hub.
    before = snapshot(tmp_path / "runs"), snapshot(hub.home)
    plan = json.loads(succeeded(trained.call(*command(trained, "--dry-run", "--json"))).stdout)
    assert (snapshot(tmp_path / "runs"), snapshot(hub.home)) == before
    assert {entry["method"] for entry in hub.read("/_test/log")} <= {"GET", "HEAD"}
    assert (plan["repository"], plan["exists"], plan["visibility"]) == (MODEL, False, "private")
    assert [each["tag"] for each in plan["revisions"]] == [FINAL, *STEPS]
    sizes = {file["path"]: file["bytes"] for file in plan["revisions"][0]["files"]}
    assert sizes == {path.name: path.stat().st_size for path in trained.model.iterdir()}

    # The answer of the first commit is lost. The process is killed while it uploads the second checkpoint.
    hub.faults(
        {"path": "/commit/checkpoints", "drop": "after", "times": 1},
        {"path": "/commit/checkpoints", "delay": 60, "drop": "before", "times": 1},
    )
    process = trained.start(*command(trained))
    deadline = time.monotonic() + 60
    while all(fault["times"] for fault in hub.read("/_test/faults")[1:]) and time.monotonic() < deadline:
        time.sleep(0.1)
    process.kill()
    _, stderr = process.communicate()
    assert "retrying in" in stderr
    hub.faults()
    assert set(hub.tags(MODEL)) == {FINAL, STEPS[0]}
    first = hub.tags(MODEL)[STEPS[0]]

    done = succeeded(trained.call(*command(trained)))
    assert f"{STEPS[0]}: the Hub has all" in done.stderr
    assert "exported step" not in done.stderr, "the finished export of the killed process is used again"
    tags = hub.tags(MODEL)
    assert set(tags) == {FINAL, *STEPS}
    assert tags[STEPS[0]] == first
    assert hub.commits(MODEL)[0] == tags[FINAL], "main holds the final model"
    digests = {step: kept_digests(hub, step) for step in (FINAL, *STEPS)}
    assert len({found["README.md"] for found in digests.values()}) == 3
    kept = trained.paths.results / "checkpoints/tiny-bloom"
    assert [path.name for path in sorted(kept.iterdir()) if path.is_dir()] == []

    # Somebody moves a tag to other files. The dry run says so, and the next publication corrects it.
    hub.send("DELETE", f"/api/models/{MODEL}/tag/{STEPS[1]}", b"")
    hub.call(f"/api/models/{MODEL}/tag/main", {"tag": STEPS[1]})
    lines = succeeded(trained.call(*command(trained, "--dry-run"))).stdout
    assert f"{MODEL}: exists and stays private" in lines
    assert f"main, tag {FINAL}: 0 B to send" in lines
    assert f"checkpoints, tag {STEPS[0]}: 0 B to send" in lines
    assert f"checkpoints, tag {STEPS[1]}: about" in lines
    done = succeeded(trained.call(*command(trained)))
    assert f"exported {STEPS[1]}" in done.stderr
    assert f"exported {STEPS[0]}" not in done.stderr
    assert {step: kept_digests(hub, step) for step in (FINAL, *STEPS)} == digests
