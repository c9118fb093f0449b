# The plan of the run, which all rules share, and functions that look up a job's wildcards in the plan. The package
# bloomery/orchestration implements these functions.
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from bloomery.orchestration import rule_inputs, slurm_jobs
from bloomery.orchestration.exclude_option import exclude_option
from bloomery.orchestration.hide_values import hide_values
from bloomery.orchestration.job_environment import prepare_environment
from bloomery.orchestration.job_resources import fixed_resources, job_resources
from bloomery.orchestration.run_plan import make_run_plan, read_config
from bloomery.orchestration.segment_chain import next_segment
from bloomery.orchestration.training_job import launch_options, sbatch_options
from bloomery.orchestration.workflow_session import WorkflowSession, exit_on_error

hide_values(logger)
MAIN_PROCESS = workflow.is_main_process
with exit_on_error(logger):
    CONFIG = read_config(config, workflow.configfiles)
    PLAN = make_run_plan(CONFIG, is_main_process=MAIN_PROCESS, logger=logger)
SESSION = WorkflowSession(PLAN, logger)
# In a cluster job, another process reads the Snakefile again. Such jobs may outlive the workflow, so only the main
# process sets `follow_workflow`.
prepare_environment(follow_workflow=MAIN_PROCESS)
if workflow.remote_exec:
    slurm_jobs.forget_hidden_token()
    # Snakemake reads {name} in the prefix as a variable, so braces are written twice.
    shell.prefix(
        slurm_jobs.shell_prefix(PLAN.site).replace("{", "{{").replace("}", "}}")
    )

RUN = PLAN.paths
MODEL = CONFIG.model_name
ONLINE = PLAN.online
EVALUATION = PLAN.evaluation_files
EXISTING_TOKENIZER = CONFIG.tokenizer.existing
# `PARTS` is empty for a run that only adopts token files. Such a run has no corpus and no corpus report.
PARTS = PLAN.text_parts
SHARDS = rule_inputs.wildcard_values(part.name for part in PARTS)
ENCODED_PAIRS = rule_inputs.wildcard_values(PLAN.token_groups)
ADOPTED_PAIRS = rule_inputs.wildcard_values(part.name for part in PLAN.adopted_parts)
DEDUP_SHARDS = PLAN.dedup_shards
PARTITIONS = PLAN.partitions
LINES = PLAN.strips_lines
LINE_PARTITIONS = PLAN.line_partitions
TEXT_GROUP = PLAN.text_group
GATE = PLAN.tokenizer_gate


pathvars:
    run=RUN.run.as_posix(),
    logs=(RUN.run / "logs").as_posix(),
    benchmarks=(RUN.run / "benchmarks").as_posix(),
    texts=(RUN.corpus / CONFIG.corpus.texts).as_posix(),


wildcard_constraints:
    source="[A-Za-z0-9][A-Za-z0-9._-]*",
    part="[0-9]{5}",
    shard="(_earlier/[0-9]+/)?[A-Za-z0-9][A-Za-z0-9._-]*/[0-9]{5}",
    n="[1-9][0-9]*",


# Return the resources of a job that reads no text: fixed_job(mem_mb=..., runtime=<minutes>, place=...).
fixed_job = partial(fixed_resources, PLAN)


def job(rule, group=None, **options):
    """Return the resources of a data job, whose memory and time follow the bytes that it reads."""
    shards = workflow.group_settings.group_components.get(group, 1)
    return job_resources(PLAN, rule, jobs_in_group=shards, **options)


def every_shard(pattern):
    """Return one file for each shard: `pattern` with its {source} and {part} filled in."""
    return collect(pattern, zip, **SHARDS)


def run_folder(*below):
    """Params function: the folder of the run, or a folder in it, for commands that take a folder."""
    return lambda wildcards: RUN.run.joinpath(*below).as_posix()


def page(path, caption, category, title):
    """Return an input function of a target, which adds a page to `snakemake --report`, if the page exists.

    The target does not wait for the page.
    """

    shown = {"category": category, "labels": {"page": title}}
    # Snakemake makes captions absolute for declared outputs only.
    text = workflow.current_basedir.join(caption)

    def existing(wildcards):
        return report(path, caption=text, **shown) if Path(path).exists() else []

    return existing


def files_of_part(wildcards):
    """Input function: the source's own files that one job reads; empty for a source that is not made of files."""
    return rule_inputs.files_of_part(PLAN, f"{wildcards.source}/{wildcards.part}")


def shards_of_pair(wildcards):
    """Input function: the clean shards from which a pair of token files is encoded, in order."""
    return rule_inputs.shards_of_pair(PLAN, f"{wildcards.source}/{wildcards.part}")


def key_tables(wildcards):
    """Input function: the tables from which the deduplication keys of a shard are made."""
    return rule_inputs.key_tables(PLAN, wildcards.shard)


def member_tables(wildcards):
    """Input function: the tables from which the cluster members in a shard are gathered."""
    return rule_inputs.member_tables(PLAN, wildcards.shard)


def file_options(*names):
    """Params function: every file of the inputs `names`, each after a flag with the name of its input."""
    return lambda wildcards, input: rule_inputs.repeated_option(
        {name: input.get(name) for name in names}
    )


def adopt_options(wildcards):
    """Params function: the settings of a source's token files, as options of `bloomery index adopt`."""
    return rule_inputs.adopt_options(PLAN, wildcards.source)


def training_extra(wildcards):
    """Resource function: options of sbatch. A segment waits for training jobs of earlier workflows, and runs on no
    excluded node."""
    if not MAIN_PROCESS:
        return PLAN.training_job.resources()["slurm_extra"]
    dependency = slurm_jobs.training_dependency(RUN)
    exclude = exclude_option(RUN, datetime.now(UTC), PLAN.training_job)
    return PLAN.training_job.resources(dependency, exclude)["slurm_extra"]


def cluster_options(wildcards, resources):
    """Params function: options that spread a training over the nodes of a cluster job; empty on one machine."""
    if not workflow.remote_exec:
        return []
    following = [f"--next-job={option}" for option in sbatch_options(resources)]
    job = PLAN.training_job
    return [
        *launch_options(job.nodes, job.ranks_per_node, job.cpus_per_node),
        *following,
    ]


def previous_segment(wildcards):
    """Input function: the file of the segment before this one; empty for the first segment."""
    number = int(wildcards.n)
    return checkpoints.train_segment.get(n=number - 1).output if number > 1 else []


def finished_training(wildcards):
    """Input function of the export: the file that exists once the training is finished."""
    SESSION.export_wanted = True
    return f"{RUN.run}/train/finished.json"


def segments_to_the_end(wildcards):
    """Input function: every training segment. It requests one more segment until a segment finishes the training."""
    SESSION.training_wanted = True
    chain = []
    while number := next_segment(chain, CONFIG.training.segment.max_segments):
        chain += checkpoints.train_segment.get(n=number).output
    return chain
