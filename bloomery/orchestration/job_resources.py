"""Memory, run time and SLURM settings of the workflow's jobs, except training jobs (see `training_job`)."""

from __future__ import annotations

from bloomery.config.site import JobTarget
from bloomery.orchestration.run_plan import RunPlan


def job_resources(
    plan: RunPlan, *, mem_mb: int, runtime: int, place: JobTarget | None = None, rules_in_group: int = 1
) -> dict[str, int | str]:
    """Return Snakemake's resources of a job: memory in MB, run time in minutes, and the site's SLURM settings.

    Snakemake adds up the run times of rules that share a SLURM job. So each of the `rules_in_group` rules requests at
    most an equal share of the run time that the site allows for a job.
    """
    target = place or plan.site.jobs
    longest = target.max_minutes // rules_in_group if target.max_minutes else runtime
    return {"mem_mb": mem_mb, "runtime": max(1, min(runtime, longest)), **plan.site.job_resources(target)}
