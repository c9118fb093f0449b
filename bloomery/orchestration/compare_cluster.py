"""Compare a run and its site with the cluster before the first job, and refuse a run that SLURM would refuse."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from bloomery.base.errors import BloomeryError, ConfigError
from bloomery.base.progress import say
from bloomery.config.site import site_path
from bloomery.orchestration.check_requests import JobRequest, ask_sbatch, request_problems, training_request
from bloomery.orchestration.check_site import closed_partitions, dotted, site_problems
from bloomery.orchestration.data_jobs import Scope, job_cost
from bloomery.orchestration.detect_cluster import Cluster, detect
from bloomery.orchestration.run_plan import RunPlan


def refuse_unfit_jobs(plan: RunPlan, *, rules: Collection[str], trains: bool, shards_per_job: int) -> None:
    """Refuse a run whose jobs the cluster can never run. If the scheduler does not answer, say so and return.

    Args:
        plan: the plan of the run.
        rules: names of the rules that will run.
        trains: whether the run will train.
        shards_per_job: largest number of shards that share a SLURM job.

    Raises:
        ConfigError: SLURM would refuse jobs of the run. The message lists each key, its value and what the cluster has.
    """
    try:
        cluster = detect()
    except BloomeryError as error:
        say(f"cannot compare the site's file with the cluster, so the workflow starts without this check: {error}")
        return
    requests = [*data_requests(plan, rules, shards_per_job), *([training_request(plan.training_job)] if trains else [])]
    problems = find_problems(plan, cluster, requests)
    # Ask SLURM only about requests that fit, because its answers name no key.
    answers = [] if problems else [ask_sbatch(request) for request in requests]
    problems += [answer.refusal for answer in answers if answer.refusal]
    if problems:
        listed = "".join(f"\n  - {problem}" for problem in problems)
        raise ConfigError(
            f"the cluster {cluster.name!r} would refuse jobs of this run:{listed}\n",
            where=str(site_path() or "no file that describes the site"),
            expected="values that the cluster offers; `bloomery cluster init --force` writes the site's file again",
        )
    for reason in [*closed_partitions(cluster, dotted(plan.site.model_dump())), *(each.delay for each in answers)]:
        if reason:
            say(f"jobs may have to wait: {reason}")


def find_problems(plan: RunPlan, cluster: Cluster, requests: Collection[JobRequest]) -> list[str]:
    """Return one line for each value of the site, and each part of a request, that the cluster does not offer."""
    found = site_problems(cluster, dotted(plan.site.model_dump()), also_closed=False)
    keys = {line.partition(":")[0] for line in found}
    for request in requests:
        found += [line for line in request_problems(cluster, request) if line.partition(":")[0] not in keys]
    return found


def data_requests(plan: RunPlan, rules: Collection[str], shards_per_job: int) -> Iterator[JobRequest]:
    """Yield the first attempt's request of the data jobs among `rules` that request the most memory."""
    found: list[JobRequest] = []
    target = plan.site.jobs
    for rule in sorted(rules):
        try:
            cost = job_cost(plan.config, rule)
        except KeyError:
            continue
        jobs, text_mb = 1, plan.corpus_mb
        if cost.scope is not Scope.CORPUS:
            jobs = max(1, min(shards_per_job, len(plan.parts)))
            shards = plan.config.index.shards_per_file if cost.scope is Scope.PAIR else 1
            text_mb = shards * max(plan.part_mb.values(), default=0.0)
        memory = jobs * cost.memory_mb(text_mb)
        minutes = cost.minutes(text_mb)
        shared = f" ({jobs} of them share a SLURM job)" if jobs > 1 else ""
        found.append(
            JobRequest(
                jobs=f"jobs of the rule {rule}{shared}",
                keys={
                    "nodes": "jobs.partition",
                    "cpus": "group-components of the profile",
                    "memory": "jobs.max_memory_mb",
                    "gpus": "jobs.partition",
                    "minutes": "jobs.max_minutes",
                },
                place=plan.site.job_resources(target),
                nodes=1,
                cpus=jobs,
                memory_mb=min(memory, target.max_memory_mb or memory),
                gres=None,
                minutes=min(minutes, target.max_minutes or minutes),
            )
        )
    if found:
        yield max(found, key=lambda request: request.memory_mb)
