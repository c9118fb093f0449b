"""The questions of `bloomery cluster init`, and the answers that it proposes from the detected cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bloomery.base.errors import ResourceError
from bloomery.config.site import TrainingTarget
from bloomery.orchestration.check_site import site_problems
from bloomery.orchestration.detect_cluster import Cluster, Partition

Kind = Literal["text", "number", "list", "yes or no"]
Answers = dict[str, Any]
"""Values by dotted key of the site's file; a key that is null or absent gets its default."""


@dataclass(frozen=True)
class Question:
    """One key of the site's file that the user decides."""

    key: str
    option: str
    """Option of `bloomery cluster init` that answers the question."""
    text: str
    kind: Kind = "text"


QUESTIONS = (
    Question("account", "--account", "SLURM account that pays for the jobs"),
    Question("jobs.partition", "--partition", "SLURM partition for data jobs"),
    Question("training.partition", "--training-partition", "SLURM partition for training jobs"),
    Question("training.qos", "--qos", "SLURM quality of service (QoS) of training jobs"),
    Question("training.gpus_per_node", "--gpus-per-node", "Number of GPUs per training node", "number"),
    Question("training.ranks_per_node", "--ranks-per-node", "Number of processes per training node", "number"),
    Question("training.max_minutes", "--max-minutes", "Time limit of a training job in minutes", "number"),
    Question("training.constraint", "--constraint", "SLURM node feature that a training node must have"),
    Question("training.cpus_per_node", "--cpus-per-node", "Number of CPUs to request per training node", "number"),
    Question(
        "training.memory_mb_per_node", "--memory-mb-per-node", "Memory to request per training node in MB", "number"
    ),
    Question("training.exclusive", "--exclusive", "Request whole training nodes", "yes or no"),
    Question("internet.partition", "--internet-partition", "SLURM partition whose nodes can reach the Hub"),
    Question("modules", "--modules", "Environment modules that jobs load, separated by spaces", "list"),
    Question("container", "--container", "Apptainer image in which jobs run"),
    Question("scratch", "--scratch", "Folder on a fast disk for temporary files"),
)

ASKED = (
    *("account", "jobs.partition", "training.partition", "training.qos", "training.gpus_per_node"),
    *("training.ranks_per_node", "training.max_minutes", "internet.partition", "modules", "container", "scratch"),
)
"""Keys that `bloomery cluster init` asks for on a terminal. The other keys have defaults, which options can change."""

NEEDED = ("jobs.partition", "training.partition", "training.gpus_per_node", "training.max_minutes")
"""Keys that the site's file needs. They are detected or set by options."""


def default_partition(cluster: Cluster) -> Partition | None:
    """Return the partition for data jobs: the cluster's default, else the largest without GPUs, else the largest.

    Partitions that are down are ignored. Return None if no partition is up.
    """
    usable = [each for each in cluster.partitions if each.is_up]
    ranked = sorted(usable, key=lambda each: (not each.is_default, each.gpus > 0, -each.nodes))
    return ranked[0] if ranked else None


def training_partition(cluster: Cluster) -> Partition | None:
    """Return the partition for training: the one with the largest total number of GPUs.

    If several partitions have this number, the one that allows the longest jobs is returned. Partitions that are down
    are ignored. If no partition has GPUs, the partition for data jobs is returned.
    """
    usable = [each for each in cluster.partitions if each.is_up and each.gpus]
    ranked = sorted(usable, key=lambda each: (-each.gpus, -_minutes(each)))
    return ranked[0] if ranked else default_partition(cluster)


def _minutes(partition: Partition) -> float:
    return float("inf") if partition.max_minutes is None else partition.max_minutes


def proposal(
    key: str, cluster: Cluster, answers: Mapping[str, Any], modules: list[str], scratch: str | None
) -> Any | None:
    """Return the value to propose for a key, based on the earlier answers; None if there is nothing to propose."""
    training = cluster.partition(answers.get("training.partition") or "")
    match key:
        case "account":
            return cluster.accounts[0] if cluster.accounts else None
        case "jobs.partition":
            partition = default_partition(cluster)
            return partition.name if partition else None
        case "training.partition":
            partition = training_partition(cluster)
            return partition.name if partition else None
        case "training.gpus_per_node":
            return training.gpus_per_node if training else None
        case "training.max_minutes":
            limit = training.max_minutes if training else None
            return limit or TrainingTarget().max_minutes
        case "modules":
            return modules
        case "scratch":
            return scratch
    return None


def collect(
    cluster: Cluster | None,
    given: Mapping[str, Any],
    *,
    modules: list[str],
    scratch: str | None,
    ask: Callable[[Question, Any], Any] | None = None,
) -> Answers:
    """Answer every question: from `given`, else by asking the user (`ask`), else with the proposal.

    Raises:
        ResourceError: there is no cluster to inspect, and `given` lacks a key that the site's file needs.
    """
    if cluster is None:
        options = [question.option for question in QUESTIONS if question.key in NEEDED and question.key not in given]
        if options:
            raise ResourceError(
                "SLURM is not on this machine, so the cluster cannot be detected",
                expected=f"run this command on a login node of the cluster, or give all of {' '.join(options)}",
            )
        cluster = Cluster("", (), (), accounting=False)
    answers: Answers = {}
    for question in QUESTIONS:
        if question.key in given:
            answers[question.key] = given[question.key]
            continue
        proposed = proposal(question.key, cluster, answers, modules, scratch)
        if ask is not None and _is_asked(question.key, answers):
            proposed = ask(question, proposed)
        answers[question.key] = proposed
    if answers["container"] and answers["training.gpus_per_node"]:
        answers["container_options"] = ["--nv"]  # makes the node's GPUs usable in the container
    answers["jobs.max_minutes"] = _longest(cluster, answers["jobs.partition"])
    answers["internet.max_minutes"] = _longest(cluster, answers["internet.partition"])
    answers["jobs.max_memory_mb"] = _largest(cluster, answers["jobs.partition"])
    answers["internet.max_memory_mb"] = _largest(cluster, answers["internet.partition"])
    return answers


def _is_asked(key: str, answers: Mapping[str, Any]) -> bool:
    if key == "training.ranks_per_node":  # on nodes with GPUs, the default is one process per GPU
        return not answers.get("training.gpus_per_node")
    return key in ASKED


def _longest(cluster: Cluster, partition: str | None) -> int | None:
    found = cluster.partition(partition or "")
    return found.max_minutes if found else None


def _largest(cluster: Cluster, partition: str | None) -> int | None:
    """Return the memory of the partition's largest node in MB; None if it is not known."""
    found = cluster.partition(partition or "")
    return (found.most_memory_mb or None) if found else None


def nested(answers: Answers) -> dict[str, Any]:
    """Nest the answers as in the site's file.

    Null values, empty lists and a section `internet` without a partition are left out.
    """
    site: dict[str, Any] = {}
    for key, value in answers.items():
        section, _, name = key.rpartition(".")
        if value is not None and value != []:
            (site.setdefault(section, {}) if section else site)[name] = value
    if "partition" not in site.get("internet", {}):
        site.pop("internet", None)
    return site


def doubts(cluster: Cluster, answers: Mapping[str, Any]) -> list[str]:
    """Return what the user should check in the answers, one line each."""
    found = site_problems(cluster, answers)
    training = cluster.partition(answers.get("training.partition") or "")
    if training is None:
        return found
    if len({kind.gpus for kind in training.kinds}) > 1 and not answers.get("training.constraint"):
        kinds = ", ".join(f"{kind.nodes} nodes with {kind.gpus} GPUs" for kind in training.kinds)
        found.append(
            f"training.constraint: the nodes of partition {training.name!r} have different numbers of GPUs ({kinds}); "
            "set the SLURM feature of the nodes that training needs"
        )
    if len(cluster.accounts) > 1 and answers.get("account") == cluster.accounts[0]:
        found.append(
            f"account: you may charge {', '.join(cluster.accounts)}; the first one was chosen (--account sets another)"
        )
    return found
