"""Test the workflow with a Hub that is unreachable during training: training does not wait, and nothing is lost."""

from __future__ import annotations

import json
import socket
import subprocess
import sys

import pytest
from hub_support import TOKEN
from huggingface_hub import ModelCard
from workflow_support import Workflow

from bloomery.contracts.paths import RunPaths

pytestmark = pytest.mark.workflow
MODEL, LOGS = "tester/tiny", "tester/tiny-logs"


def test_training_finishes_without_its_hub_and_the_next_workflow_publishes_everything(indexed, tmp_path, hub_at):
    # The bound socket reserves the port. Connections are refused, because nothing listens.
    kept = socket.socket()
    kept.bind(("127.0.0.1", 0))
    config = indexed.config | {"publish": {"hub": True, "sync_minutes": 0.05}}
    server = hub_at(kept.getsockname()[1])
    workflow = Workflow(indexed.folder, config, environment=server.environment)
    paths = RunPaths(workflow.run_folder)

    workflow.run("train")
    state = json.loads((paths.monitoring / "sync.json").read_text())
    assert state["failures"] > 0
    assert state["synced"] is None
    assert paths.finished.exists()

    kept.close()
    server.start()
    workflow.run()
    report = json.loads((paths.published / "logs.json").read_text())
    assert report["repository"] == LOGS
    local = server.run(paths).local_logs()
    assert [path for path in server.paths(LOGS) if path not in (".gitattributes", "README.md")] == sorted(local)
    for path, data in local.items():
        assert server.file(LOGS, path) == data, path
    assert workflow.planned() == {}
    card = ModelCard(server.file(MODEL, "README.md").decode())
    assert card.data.library_name == "transformers"
    parity = json.loads((paths.export / "tiny" / "parity.json").read_text())
    assert server.tags(MODEL) == {parity["checkpoint"]: server.commits(MODEL)[0]}
    summary = server.run(paths).call("summary", "--run", str(paths.run), "--json")
    published = json.loads(summary.stdout)["published"]
    assert published == {"target": "hub", "endpoint": server.url, "model": MODEL, "logs": LOGS}

    code = (
        "import sys, torch; from transformers import AutoModelForCausalLM, AutoTokenizer\n"
        "model, here = (AutoModelForCausalLM.from_pretrained(name).state_dict() for name in sys.argv[1:])\n"
        "assert all(torch.equal(model[key], here[key]) for key in here) and here.keys() == model.keys()\n"
        "print(AutoTokenizer.from_pretrained(sys.argv[1]).decode(AutoTokenizer.from_pretrained(sys.argv[2])('abc')['input_ids']))\n"
    )
    command = [sys.executable, "-c", code, MODEL, str(paths.export / "tiny")]
    done = subprocess.run(command, env=dict(server.environment), capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "abc", done.stderr
    for path in tmp_path.rglob("*"):
        inside = path.is_file() and server.home not in path.parents and TOKEN.encode() in path.read_bytes()
        assert not inside, path
    assert TOKEN not in json.dumps(server.read("/_test/log"))
