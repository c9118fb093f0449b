"""The sample on a cluster, end to end: its logs reach the Hub while it trains, and its model when it is done."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hub_support import TOKEN, running_hub
from slurm_cluster import SlurmCluster
from slurm_workflow import end_workflows, iterations, slurm_workflow, wait_for
from workflow_support import ROOT

pytestmark = pytest.mark.cluster
MODEL, LOGS = "tester/sample", "tester/sample-logs"


def test_the_sample_trains_on_two_nodes_and_is_on_the_hub_when_it_ends(cluster: SlurmCluster, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "config").symlink_to(ROOT / "config")
    config = yaml.safe_load((ROOT / "config/sample.yaml").read_text()) | {"publish": {"sync_minutes": 0.1}}
    # Half of its training is enough to see the whole way.
    config["training"]["train_samples"] //= 2
    with running_hub(tmp_path) as hub:
        variables = {key: value for key, value in hub.environment.items() if key.startswith("HF_")}
        workflow = slurm_workflow(cluster, folder, config, **variables)
        process = workflow.start()
        try:
            wait_for(lambda: iterations(workflow) >= 40, 1800)
            wait_for(lambda: "logs/metrics.jsonl" in (hub.paths(LOGS) if hub.has(LOGS) else []), 600)
            assert not (workflow.run_folder / "train/finished.json").exists()
            sent = hub.file(LOGS, "logs/metrics.jsonl")
            talk, _ = process.communicate(timeout=1800)
            assert process.returncode == 0, talk
        finally:
            end_workflows(folder)
        run = workflow.run_folder
        metrics = (run / "train/logs/metrics.jsonl").read_bytes()
        assert sent
        assert metrics.startswith(sent)
        assert hub.file(LOGS, "logs/metrics.jsonl") == metrics
        assert hub.file(LOGS, "logs/main_log.txt") == (run / "train/logs/main_log.txt").read_bytes()
        parity = json.loads((run / "export/sample/parity.json").read_text())
        assert hub.tags(MODEL) == {parity["checkpoint"]: hub.commits(MODEL)[0]}
        for path in parity["files"]:
            assert hub.file(MODEL, path) == (run / "export/sample" / path).read_bytes(), path
        assert "Nothing to be done" in workflow.run()

        code = """
import sys
from transformers import AutoModelForCausalLM, AutoTokenizer
model, tokenizer = AutoModelForCausalLM.from_pretrained(sys.argv[1]), AutoTokenizer.from_pretrained(sys.argv[1])
print(type(model).__name__, tokenizer.decode(model.generate(**tokenizer("The baker", return_tensors="pt"))[0]))
"""
        loaded = subprocess.run(
            [sys.executable, "-c", code, MODEL], capture_output=True, text=True, env=hub.environment, timeout=120
        )
        assert loaded.stdout.startswith("BloomForCausalLM The baker"), loaded.stderr
        # Neither the run nor the scheduler's files: sbatch keeps the environment that it hands to a job.
        for path in (*folder.rglob("*"), *cluster.folder.rglob("*")):
            assert not (path.is_file() and TOKEN.encode() in path.read_bytes()), path
