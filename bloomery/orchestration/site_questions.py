"""What `bloomery cluster init` asks, and what it proposes from what it detected."""

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
"""Key of the site's file, dotted, to its value; a key that is null or absent is left at its default."""


@dataclass(frozen=True)
class Question:
    """One key of the site's file that a person decides."""

    key: str
    option: str
    """Option of `bloomery cluster init` that answers it."""
    text: str
    kind: Kind = "text"


QUESTIONS = (
    Question("account", "--account", "Account that is charged"),
    Question("jobs.partition", "--partition", "Partition of the data jobs"),
    Question("training.partition", "--training-partition", "Partition of the training"),
    Question("training.qos", "--qos", "Quality of service of the training"),
    Question("training.gpus_per_node", "--gpus-per-node", "GPUs of a training node", "number"),
    Question("training.ranks_per_node", "--ranks-per-node", "Processes of a training node", "number"),
    Question("training.max_minutes", "--max-minutes", "Longest training job, minutes", "number"),
    Question("training.constraint", "--constraint", "Feature that a training node must have"),
    Question("training.cpus_per_node", "--cpus-per-node", "CPUs to ask for on a training node", "number"),
    Question(
        "training.memory_mb_per_node", "--memory-mb-per-node", "Memory to ask for on a training node, MB", "number"
    ),
    Question("training.exclusive", "--exclusive", "Ask for whole nodes", "yes or no"),
    Question("internet.partition", "--internet-partition", "Partition whose nodes reach the Hub"),
    Question("modules", "--modules", "Environment modules that jobs load", "list"),
    Question("container", "--container", "Apptainer image of the jobs"),
    Question("scratch", "--scratch", "Fast folder for temporary files"),
)

ASKED = (
    *("account", "jobs.partition", "training.partition", "training.qos", "training.gpus_per_node"),
    *("training.ranks_per_node", "training.max_minutes", "internet.partition", "modules", "container", "scratch"),
)
"""Keys that a person at a terminal is asked for; the others have good defaults, and their options."""

NEEDED = ("jobs.partition", "training.partition", "training.gpus_per_node", "training.max_minutes")
"""Keys without which there is no site's file: detected, or given by options."""


def default_partition(cluster: Cluster) -> Partition | None:
    """Where data jobs go: the cluster's default; else the largest without GPUs, else the largest."""
    usable = [each for each in cluster.partitions if each.is_up]
    ranked = sorted(usable, key=lambda each: (not each.is_default, each.gpus > 0, -each.nodes))
    return ranked[0] if ranked else None


def training_partition(cluster: Cluster) -> Partition | None:
    """Where training goes: most GPUs, then the longest jobs; without any GPU where data jobs go."""
    usable = [each for each in cluster.partitions if each.is_up and each.gpus]
    ranked = sorted(usable, key=lambda each: (-each.gpus, -_minutes(each)))
    return ranked[0] if ranked else default_partition(cluster)


def _minutes(partition: Partition) -> float:
    return float("inf") if partition.max_minutes is None else partition.max_minutes


def proposal(
    key: str, cluster: Cluster, answers: Mapping[str, Any], modules: list[str], scratch: str | None
) -> Any | None:
    """What to propose for a key, given the answers before it; None for nothing."""
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
    """Answer every question: by what was given, else by the person (`ask`), else by the proposal.

    Raises:
        ResourceError: there is no cluster to look at, and a key that is needed was not given.
    """
    if cluster is None:
        options = [question.option for question in QUESTIONS if question.key in NEEDED and question.key not in given]
        if options:
            raise ResourceError(
                "SLURM is not on this machine, so nothing can be detected",
                expected=f"a login node of the cluster, or all of {' '.join(options)}",
            )
        cluster = Cluster("", (), (), accounting=False, min_job_age_seconds=None)
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
        answers["container_options"] = ["--nv"]  # Apptainer shows the GPUs to the container
    answers["jobs.max_minutes"] = _longest(cluster, answers["jobs.partition"])
    answers["internet.max_minutes"] = _longest(cluster, answers["internet.partition"])
    return answers


def _is_asked(key: str, answers: Mapping[str, Any]) -> bool:
    if key == "training.ranks_per_node":  # with GPUs it is their number
        return not answers.get("training.gpus_per_node")
    return key in ASKED


def _longest(cluster: Cluster, partition: str | None) -> int | None:
    found = cluster.partition(partition or "")
    return found.max_minutes if found else None


def nested(answers: Answers) -> dict[str, Any]:
    """The answers as the site's file nests them; what is null is left out."""
    site: dict[str, Any] = {}
    for key, value in answers.items():
        section, _, name = key.rpartition(".")
        if value is not None and value != []:
            (site.setdefault(section, {}) if section else site)[name] = value
    if "partition" not in site.get("internet", {}):
        site.pop("internet", None)
    return site


def doubts(cluster: Cluster, answers: Mapping[str, Any]) -> list[str]:
    """What a person should look at in the answers, a line each."""
    found = site_problems(cluster, answers)
    training = cluster.partition(answers.get("training.partition") or "")
    if training is None:
        return found
    if len({kind.gpus for kind in training.kinds}) > 1 and not answers.get("training.constraint"):
        kinds = ", ".join(f"{kind.nodes} nodes with {kind.gpus} GPUs" for kind in training.kinds)
        found.append(f"training.constraint: the nodes of {training.name!r} differ ({kinds}); name a feature of yours")
    if len(cluster.accounts) > 1 and answers.get("account") == cluster.accounts[0]:
        found.append(f"account: you may charge {', '.join(cluster.accounts)}; the first was taken")
    return found
