"""Test a run on a cluster from end to end: its logs reach the Hub during training, and its model at the end."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hub_support import TOKEN
from slurm_cluster import SlurmCluster
from slurm_workflow import LOGS, MODEL

pytestmark = pytest.mark.cluster


def test_logs_reach_the_hub_during_training_and_the_model_at_the_end(published: Any) -> None:
    run, hub = published.workflow.run_folder, published.hub
    metrics = (run / "train/logs/metrics.jsonl").read_bytes()
    trained = metrics.count(b'"loss"')
    assert 0 < published.sent_metrics.count(b'"loss"') < trained
    assert metrics.startswith(published.sent_metrics)
    assert hub.file(LOGS, "logs/metrics.jsonl") == metrics
    assert hub.file(LOGS, "logs/main_log.txt") == (run / "train/logs/main_log.txt").read_bytes()
    parity = json.loads((run / "export/long/parity.json").read_text())
    assert published.tags == {parity["checkpoint"]: published.newest_commit}
    for path in parity["files"]:
        assert hub.file(MODEL, path) == (run / "export/long" / path).read_bytes(), path

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


def test_no_file_of_a_run_or_of_the_scheduler_contains_the_token(cluster: SlurmCluster, published: Any) -> None:
    # SLURM stores the environment that sbatch passes to a job.
    for path in (*published.workflow.folder.rglob("*"), *cluster.folder.rglob("*")):
        assert not (path.is_file() and TOKEN.encode() in path.read_bytes()), path
