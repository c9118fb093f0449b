"""Memory, run time and SLURM settings of the workflow's jobs, except training jobs (see `training_job`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bloomery.config.site import JobTarget
from bloomery.orchestration.data_jobs import JobCost, Scope, attempt_factor, job_cost, shard_mb
from bloomery.orchestration.run_plan import RunPlan

Resource = str | Callable[..., int]
"""Value of a resource, or a function of a job's wildcards and the number of its attempt."""


def job_resources(
    plan: RunPlan,
    rule: str,
    *,
    place: JobTarget | None = None,
    rules_in_group: int = 1,
    jobs_in_group: int = 1,
) -> dict[str, Resource]:
    """Return Snakemake's resources of a data job: memory in MB, run time in minutes, and the site's SLURM settings.

    Memory and time follow the bytes that the job reads (`bloomery.orchestration.data_jobs`).

    Args:
        plan: the plan of the run.
        rule: name of the rule.
        place: SLURM settings of the job; None for those of all data jobs.
        rules_in_group: number of rules that share a SLURM job. Snakemake adds up their run times. So each rule requests
            at most an equal share of the run time that the site allows for a job.
        jobs_in_group: number of shards that share a SLURM job. Snakemake adds up their memory. So each job requests at
            most an equal share of the memory that the site allows for a job.
    """
    cost = job_cost(plan.config, rule)

    def work(wildcards: Any) -> float:
        return _text_mb(plan, cost, wildcards)

    return grown(
        plan,
        lambda wildcards: cost.memory_mb(work(wildcards)),
        lambda wildcards: cost.minutes(work(wildcards)),
        place=place,
        rules_in_group=rules_in_group,
        jobs_in_group=jobs_in_group,
    )


def fixed_resources(plan: RunPlan, *, mem_mb: int, runtime: int, place: JobTarget | None = None) -> dict[str, Resource]:
    """Return the resources of a job that does not depend on the amount of text: memory in MB, run time in minutes."""
    return grown(plan, lambda _: mem_mb, lambda _: runtime, place=place)


def grown(
    plan: RunPlan,
    memory_mb: Callable[[Any], int],
    minutes: Callable[[Any], int],
    *,
    place: JobTarget | None,
    rules_in_group: int = 1,
    jobs_in_group: int = 1,
) -> dict[str, Resource]:
    """Return resources that grow with each attempt, up to the limits of the site."""
    target = place or plan.site.jobs

    def mem_mb(wildcards: Any, attempt: int) -> int:
        return _limited(memory_mb(wildcards) * attempt_factor(attempt), target.max_memory_mb, jobs_in_group)

    def runtime(wildcards: Any, attempt: int) -> int:
        return _limited(minutes(wildcards) * attempt_factor(attempt), target.max_minutes, rules_in_group)

    return {"mem_mb": mem_mb, "runtime": runtime, **plan.site.job_resources(target)}


def _limited(value: int, most: int | None, sharers: int) -> int:
    return max(1, value if most is None else min(value, most // sharers))


def _text_mb(plan: RunPlan, cost: JobCost, wildcards: Any) -> float:
    """Return the text that a job reads, in MB."""
    if cost.scope is Scope.CORPUS:
        return plan.corpus_mb
    name = getattr(wildcards, "shard", None) or f"{wildcards.source}/{wildcards.part}"
    names = plan.token_groups.get(name, [name]) if cost.scope is Scope.PAIR else [name]
    # The plan has no sizes of an earlier run's shards. They are usually as large as the shards of this run.
    return sum(plan.part_mb.get(each, shard_mb(plan.config)) for each in names)
