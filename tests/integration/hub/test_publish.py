"""Test the publication of the model on a real server: exactly the verified files arrive, even after network faults."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hub_support import TOKEN

from bloomery.config.delivery import PublishConfig
from bloomery.config.stages import PublishStage, write_stage

pytestmark = pytest.mark.slow

MODEL = "tester/tiny-bloom"


def succeeded(done):
    assert done.returncode == 0, done.stderr
    assert TOKEN not in done.stdout + done.stderr
    return done


def assert_model_arrived(hub, run, revision="main"):
    names = sorted(path.name for path in run.model.iterdir())
    assert hub.paths(MODEL, revision) == sorted([".gitattributes", *names])
    for name in names:
        assert hub.file(MODEL, name, revision) == (run.model / name).read_bytes(), name


@pytest.mark.parametrize("xet", [True, False])
def test_the_model_arrives_byte_for_byte_and_publishing_again_changes_nothing(hub, run, xet):
    variables = {} if xet else {"HF_HUB_DISABLE_XET": "1"}
    succeeded(run.publish(**variables))

    assert_model_arrived(hub, run)
    assert_model_arrived(hub, run, "step00000100")
    assert hub.read("/_test/stats")["cas"].get("files", 0) == (1 if xet else 0)
    assert hub.read(f"/api/models/{MODEL}")["private"] is True

    report = json.loads(run.output.read_text())
    assert (report["target"], report["endpoint"]) == ("hub", hub.url)
    assert report["model"]["commit"] == hub.commits(MODEL)[0] == hub.tags(MODEL)["step00000100"]
    assert set(report["model"]["files"]) == {path.name for path in run.model.iterdir()}

    before = run.output.read_bytes(), hub.commits(MODEL)
    assert len(before[1]) == 2
    run.output.unlink()  # Snakemake does this before it reruns the rule
    succeeded(run.publish(**variables))
    assert (run.output.read_bytes(), hub.commits(MODEL)) == before

    for path in run.paths.run.rglob("*"):
        assert not path.is_file() or TOKEN.encode() not in path.read_bytes(), path


@pytest.mark.parametrize("xet", [True, False])
def test_a_fault_of_each_kind_causes_no_failure_and_no_second_commit(hub, run, xet):
    upload = {"path": "/xorbs/", "method": "POST"} if xet else {"path": "/_lfs/", "method": "PUT"}
    faults = [
        {"path": "/repos/create", "drop": "after"},
        {"path": "/preupload/", "status": 503},
        {**upload, "delay": 3},
        {"path": "/commit/", "status": 429, "headers": {"Retry-After": "0"}},
        {"path": "/commit/", "drop": "after"},
        {"path": "/tag/", "drop": "after"},
    ]
    hub.faults(*({"times": 1, **fault} for fault in faults))
    variables = {"BLOOMERY_HUB_TIMEOUT": "1"} | ({} if xet else {"HF_HUB_DISABLE_XET": "1"})
    done = succeeded(run.publish(**variables))
    assert all(fault["times"] == 0 for fault in hub.read("/_test/faults")), "every fault must occur"
    assert_model_arrived(hub, run)
    assert len(hub.commits(MODEL)) == 2
    assert hub.tags(MODEL) == {"step00000100": hub.commits(MODEL)[0]}
    assert "retrying in" in done.stderr
    uploads = [entry for entry in hub.read("/_test/log") if upload["path"] in entry["path"]]
    assert len(uploads) >= 2, "an upload without an answer must be retried"


@pytest.mark.slow
def test_transformers_loads_the_published_model(hub, run):
    succeeded(run.publish())
    code = (
        "import sys, torch; from transformers import AutoModelForCausalLM, AutoTokenizer\n"
        "model = AutoModelForCausalLM.from_pretrained(sys.argv[1], revision='step00000100')\n"
        "here = AutoModelForCausalLM.from_pretrained(sys.argv[2])\n"
        "assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), here.state_dict().values()))\n"
        "print(AutoTokenizer.from_pretrained(sys.argv[1])('river sea')['input_ids'])\n"
    )
    command = [sys.executable, "-c", code, MODEL, str(run.model)]
    done = subprocess.run(command, env=run.environment, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[1, 2]", done.stderr


def test_a_new_export_replaces_all_old_files_and_moves_the_tag(hub, run):
    succeeded(run.publish())
    old = hub.tags(MODEL)["step00000100"]
    weights = run.model / "model.safetensors"
    weights.rename(run.model / "model-00001-of-00001.safetensors")
    (run.model / "README.md").write_text("---\nlanguage:\n- fr\n---\n\n# tiny\n")
    run.prove()
    succeeded(run.publish())
    assert "model.safetensors" not in hub.paths(MODEL)
    assert_model_arrived(hub, run)
    assert hub.tags(MODEL)["step00000100"] == hub.commits(MODEL)[0] != old
    assert "model.safetensors" in hub.paths(MODEL, old)


def test_files_that_parity_json_does_not_list_are_not_published(hub, run):
    (run.model / "notes.txt").write_text("private")
    succeeded(run.publish())
    assert "notes.txt" not in hub.paths(MODEL)


def test_without_a_token_the_same_files_are_copied_to_a_local_folder(hub, run):
    done = succeeded(run.publish(HF_TOKEN=None))
    assert "HF_TOKEN is not set" in done.stderr
    copy = run.paths.published / "tiny-bloom"
    assert {p.name: p.read_bytes() for p in copy.iterdir()} == {p.name: p.read_bytes() for p in run.model.iterdir()}
    report = json.loads(run.output.read_text())
    assert (report["target"], report["reason"]) == ("folder", "HF_TOKEN is not set")
    assert hub.read("/_test/log") == []
    before = run.output.read_bytes()
    succeeded(run.publish(HF_TOKEN=None))
    assert run.output.read_bytes() == before
    assert sorted(p.name for p in run.paths.published.iterdir()) == ["publish.json", "tiny-bloom"]


def test_the_token_of_hf_auth_is_used_and_the_configuration_sets_name_and_visibility(hub, run):
    home = Path(run.environment["HF_HOME"])
    home.mkdir()
    (home / "token").write_text(TOKEN)
    settings = PublishConfig(model_repository="bloom-a", owner="team", private=False)
    write_stage(run.paths.config / "publish.json", PublishStage(name="t", model_name="tiny-bloom", publish=settings))
    succeeded(run.publish(HF_TOKEN=None))
    assert hub.read("/api/models/team/bloom-a")["private"] is False


def test_nothing_is_sent_if_publish_hub_is_false_or_in_offline_mode(hub, run):
    succeeded(run.publish(HF_HUB_OFFLINE="1"))
    assert json.loads(run.output.read_text())["reason"] == "HF_HUB_OFFLINE is set"
    stage = PublishStage(name="tiny", model_name="tiny-bloom", publish=PublishConfig(hub=False))
    write_stage(run.paths.config / "publish.json", stage)
    succeeded(run.publish())
    assert json.loads(run.output.read_text())["reason"] == "publish.hub is false"
    assert hub.read("/_test/log") == []


def _no_parity(run):
    (run.model / "parity.json").unlink()


def _bad_parity(run):
    run.prove(max_difference=1e-2)


def _changed(run):
    (run.model / "config.json").write_text("{}")


def _token_inside(run):
    (run.model / "README.md").write_text(f"HF_TOKEN={TOKEN}\n")
    run.prove()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_no_parity, "no parity.json"),
        (_bad_parity, "parity does not hold"),
        (_changed, "the file has changed since the exported model was verified"),
        (_token_inside, "contains the Hub token"),
    ],
)
def test_nothing_is_sent_without_valid_parity_or_with_a_token_inside(hub, run, spoil, message):
    spoil(run)
    done = run.publish()
    assert done.returncode == 1
    assert message in done.stderr
    assert TOKEN not in done.stderr
    assert hub.read("/_test/log") == []
    assert not run.output.exists()


def test_the_error_for_a_rejected_token_does_not_show_the_token(hub, run):
    done = run.publish(HF_TOKEN="hf_wrongwrongwrong")
    assert done.returncode == 2
    assert "a token with write access" in done.stderr
    assert "Traceback" not in done.stderr
    assert "hf_wrongwrongwrong" not in done.stdout + done.stderr
