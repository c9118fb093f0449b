"""Test that the Dockerfile, the examples for Kubernetes and the documented commands fit the repository and its CLI."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from repository import ROOT

from bloomery.cli import load_verb
from bloomery.config.training import ParallelConfig
from training.nodes.place import NodePlace, node_place

EXAMPLES = ROOT / "examples/kubernetes"
PAGE = ROOT / "docs/how-to/without-a-scheduler.md"


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((EXAMPLES / name).read_text(encoding="utf-8")))


def job(name: str) -> dict[str, Any]:
    return next(each for each in documents(name) if each["kind"] == "Job")


def pod(name: str) -> dict[str, Any]:
    return job(name)["spec"]["template"]["spec"]


def place_of(arguments: list[str]) -> NodePlace:
    """Parse the arguments after `bloomery` as the command line does, and return the place that they describe."""
    assert arguments[0] == "train"
    verb = load_verb("train")
    name, command, rest = verb.resolve_command(verb.make_context("train", arguments[1:]), arguments[1:])
    values = command.make_context(name, rest).params
    keys = ("nodes", "node_rank", "ranks_per_node", "master_address", "master_port")
    place = node_place(
        *(values[key] for key in keys), values["node_silence_seconds"], values["node_wait_minutes"], in_slurm=False
    )
    assert place is not None
    return place


def dockerfile() -> list[str]:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_the_dockerfile_copies_files_that_exist_and_installs_the_locked_versions() -> None:
    lines = dockerfile()
    copied = [shlex.split(line)[1] for line in lines if line.startswith("COPY")]
    assert copied == ["requirements.lock", "."]
    assert all((ROOT / path).exists() for path in copied)
    assert any(line.startswith("RUN") and "-r requirements.lock" in line for line in lines)
    assert lines[0] == "FROM python:3.11-slim"
    assert [line for line in lines if line.startswith("USER")] == ["USER bloomery"]


def test_the_image_contains_what_the_commands_read() -> None:
    left_out = [
        line
        for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
        if line and not line.startswith(("#", "!"))
    ]
    needed = ("Snakefile", "workflow", "config", "csrc", "bloomery", "data_prep", "training", "export", "monitoring")
    assert not {*needed, "planner", "pyproject.toml", "setup.py", "README.md"} & set(left_out)
    assert {".venv", "runs"} <= set(left_out)


def test_every_example_is_a_list_of_known_objects_that_share_one_volume() -> None:
    kinds = {path.name: [each["kind"] for each in documents(path.name)] for path in EXAMPLES.glob("*.yaml")}
    assert kinds == {
        "volume.yaml": ["PersistentVolumeClaim"],
        "prepare.yaml": ["Job"],
        "train.yaml": ["Service", "Job"],
        "export.yaml": ["Job"],
    }
    claim = documents("volume.yaml")[0]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    version = next(line for line in (ROOT / "pyproject.toml").read_text().splitlines() if line.startswith("version"))
    for name in ("prepare.yaml", "train.yaml", "export.yaml"):
        (container,) = pod(name)["containers"]
        volumes = {each["name"]: each for each in pod(name)["volumes"]}
        assert volumes["data"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
        assert {each["name"] for each in container["volumeMounts"]} == volumes.keys()
        assert {each["mountPath"] for each in container["volumeMounts"]} >= {container["workingDir"]}
        assert container["image"] == f"bloomery:{shlex.split(version)[2]}"
        user = next(line for line in dockerfile() if "useradd" in line)
        assert f"--uid {pod(name)['securityContext']['runAsUser']} " in user


@pytest.mark.parametrize("name", ["prepare.yaml", "export.yaml"])
def test_the_workflow_of_an_example_is_in_the_image(name: str) -> None:
    (container,) = pod(name)["containers"]
    assert container["command"] == ["snakemake"]
    target, *options = container["args"]
    rules = "".join(
        path.read_text() for path in [ROOT / "workflow/Snakefile", *(ROOT / "workflow/rules").glob("*.smk")]
    )
    assert f"rule {target}:" in rules
    folder = next(line.split()[1] for line in dockerfile() if line.startswith("WORKDIR"))
    values = dict(option.removeprefix("--").split("=") for option in options)
    for key in ("snakefile", "profile"):
        assert (ROOT / Path(values[key]).relative_to(folder)).exists()


def test_the_training_job_describes_every_pod_to_the_command_line() -> None:
    service, spec = documents("train.yaml")[0], job("train.yaml")["spec"]
    name = job("train.yaml")["metadata"]["name"]
    (container,) = pod("train.yaml")["containers"]
    assert spec["completionMode"] == "Indexed"
    for index in range(spec["completions"]):
        arguments = [each.replace("$(JOB_COMPLETION_INDEX)", str(index)) for each in container["args"]]
        place = place_of(arguments)
        assert (place.rank, place.nodes) == (index, spec["completions"])
        place.check_world(ParallelConfig(tensor=4, data=4))
    assert spec["parallelism"] == spec["completions"], "all nodes must run at the same time"
    assert place.ranks_per_node == container["resources"]["limits"]["nvidia.com/gpu"]
    # The host name of a Pod of an Indexed Job is the Job's name and the index. The Service gives it a domain.
    assert place.master_address == f"{name}-0.{service['metadata']['name']}"
    assert pod("train.yaml")["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": name}
    assert service["spec"]["clusterIP"] == "None"


def test_the_training_job_retries_what_a_retry_can_fix() -> None:
    rules = job("train.yaml")["spec"]["podFailurePolicy"]["rules"]
    codes = {code: rule["action"] for rule in rules for code in rule.get("onExitCodes", {}).get("values", [])}
    assert codes == {75: "Ignore", 1: "FailJob", 2: "FailJob"}
    assert all(rule["onExitCodes"]["containerName"] == "train" for rule in rules if "onExitCodes" in rule)
    assert pod("train.yaml")["restartPolicy"] == "Never", "podFailurePolicy requires it"


def test_the_documented_commands_are_accepted_by_the_command_line() -> None:
    blocks = "\n".join(re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL))
    found = re.findall(r"bloomery (train run [^#\n>]*)", blocks.replace("\\\n", " "))
    assert len(found) == 2
    for command in found:
        place = place_of(shlex.split(command.replace("$rank", "3").replace("${hosts[0]}", "10.0.0.1")))
        assert (place.nodes, place.ranks_per_node, place.master_address) == (4, 4, "10.0.0.1")
        place.check_world(ParallelConfig(tensor=2, data=8))
    for path in re.findall(r"kubectl create -f (\S+)", blocks):
        assert (ROOT / path).is_file()


def test_the_documented_layouts_fill_the_documented_machines() -> None:
    rows = re.findall(r"^\| \d+ of \d+ GPUs \| `(.*?)` \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) == 2
    for options, layouts in rows:
        _, nodes, _, ranks = options.split()
        for layout in re.findall(r"`(\{.*?\})`", layouts):
            place = NodePlace(int(nodes), 0, int(ranks), "host")
            place.check_world(ParallelConfig(**yaml.safe_load(layout)))
