# Helpers of all rules: the run that the configuration names, its shards, its chain of segments, its place on a cluster.
import re
from pathlib import Path

from bloomery.base.errors import BloomeryError, TryAgainError
from bloomery.config import load, validate_config
from bloomery.config.site import load_site
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import SegmentStatus, read_segment
from bloomery.spec.refuse_unsupported import refuse_unexportable, refuse_untrainable
from bloomery.orchestration.training_job import training_job
from bloomery.orchestration import slurm_jobs
from bloomery.orchestration.job_environment import prepare_environment
from bloomery.orchestration.run_lock import RunLock
from bloomery.orchestration.sync_process import SyncProcess
from bloomery.orchestration.prepare_run import (
    other_shards,
    plan_run,
    read_parts,
    token_groups,
    write_sections,
)
from bloomery.orchestration.part_names import (
    corpus_of,
    earlier_parts,
    local_name,
    own_part,
    refuse_unfinished,
)
from bloomery.orchestration.plan_parts import evaluation_files, plan_parts
from bloomery.orchestration.tokenizer_origin import local_files


def checked_config():
    """The typed configuration; every problem is said at once, and nothing starts."""
    for path in workflow.configfiles:
        load.read_yaml(Path(path))
    return validate_config(
        config,
        where=", ".join(str(path) for path in workflow.configfiles) or "--config",
    )


def parts_of_run():
    """The run's shards and adopted token files. The main process plans them and writes the stages' parts of the configuration; jobs read them.

    While another workflow holds the run nothing is written: its jobs read those files.
    """
    global LOCK
    if not workflow.is_main_process:
        return read_parts(RUN)
    try:
        LOCK = RunLock.acquire(RUN.run)
    except TryAgainError as error:
        LOCK = error
        logger.warning(f"{error}; nothing is written until then")
        return read_parts(RUN)
    parts = plan_run(CONFIG, plan_parts)
    write_sections(CONFIG, parts)
    RUN.control.mkdir(parents=True, exist_ok=True)
    return parts


def refuse_second_workflow():
    """End before the first job when another workflow works on this run."""
    if isinstance(LOCK, TryAgainError):
        logger.error(f"error: {LOCK}")
        raise SystemExit(LOCK.exit_code)


def remove_other_shards():
    """What people read by its pattern holds the shards of this configuration only, not those of an earlier one."""
    for path in other_shards(RUN, PARTS):
        path.unlink()


def refuse_what_cannot_be_made():
    """End before the first job when a training or an export is wanted that this version lacks (a dry-run only plans)."""
    try:
        if TRAINING_WANTED:
            refuse_untrainable(CONFIG.model, CONFIG.training)
        if EXPORT_WANTED:
            refuse_unexportable(CONFIG.model)
    except BloomeryError as error:
        logger.error(f"error: {error}")
        raise SystemExit(error.exit_code)


def watch_logs():
    """Where a Hub is configured, start what pushes the run's logs there. Before the token leaves the environment."""
    global WATCH
    if workflow.is_main_process:
        WATCH = SyncProcess.start(RUN.run, hub=CONFIG.publish.hub)


def end_watch():
    """The last push of the logs. A workflow that was killed says nothing: the watch sees its end by itself."""
    if WATCH is not None:
        WATCH.stop()


def say_what_to_do(snakemake_logs):
    """After a failure: where to read, and how to go on."""
    logger.error(
        f"Where a job failed, its log is named above under `log:` (all logs: {RUN.run}/logs); Snakemake's own: {', '.join(snakemake_logs)}.\n"
        "When the cause is mended, the same command goes on from here: finished work is kept."
    )


LOCK = None
WATCH = None
TRAINING_WANTED = False
EXPORT_WANTED = False
try:
    CONFIG = checked_config()
    RUN = RunPaths.of(CONFIG.root, CONFIG.name)
    SITE = load_site()
    ONLINE = slurm_jobs.online_target(SITE)
    TRAINING_JOB = training_job(CONFIG, SITE)
    PLANNED = parts_of_run()
    PARTS = [part for part in PLANNED if not part.adopted]
    ADOPTED = [part for part in PLANNED if part.adopted]
    EVALUATION = evaluation_files(CONFIG.corpus.decontaminate)
    EXISTING_TOKENIZER = CONFIG.tokenizer.existing
    TOKENIZER_FILES = local_files(EXISTING_TOKENIZER) if EXISTING_TOKENIZER else []
    REFERENCES = [
        local_files(one.tokenizer) for one in CONFIG.tokenizer.report.references
    ]
    GATE = CONFIG.tokenizer.report.gate if PARTS else None
    if workflow.is_main_process:
        refuse_unfinished(CONFIG.corpus.dedup.against, RUN.run)
    EARLIER = earlier_parts(CONFIG.corpus.dedup.against) if PARTS else []
    DEDUP_SHARDS = [part.name for part in PARTS] + EARLIER
except BloomeryError as error:
    logger.error(f"error: {error}")
    raise SystemExit(error.exit_code)
# In a cluster's job the Snakefile is read again, by a process that is not the main one: jobs outlive their workflow there.
prepare_environment(follow_workflow=workflow.is_main_process)
if workflow.remote_exec:
    slurm_jobs.forget_hidden_token()
    shell.prefix(slurm_jobs.shell_prefix(SITE))


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


SHARDS = {
    "source": [part.source for part in PARTS],
    "part": [f"{part.number:05d}" for part in PARTS],
}
GROUPS = token_groups(PARTS, CONFIG.index.shards_per_file)
ENCODED_PAIRS = {
    "source": [name.split("/")[0] for name in GROUPS],
    "part": [name.split("/")[1] for name in GROUPS],
}
ADOPTED_PAIRS = {
    "source": [part.source for part in ADOPTED],
    "part": [f"{part.number:05d}" for part in ADOPTED],
}
# Without text, only token files: no corpus to make or to report on.
PARTITIONS = range(CONFIG.corpus.dedup.partitions if PARTS else 0)
LINES = CONFIG.corpus.lines.enabled and bool(PARTS)
LINE_PARTITIONS = range(CONFIG.corpus.lines.partitions if LINES else 0)
# What reads the texts may share a job with what wrote them, but not with what came before a step over all shards.
TEXT_GROUP = "strip" if LINES else "read"
# Beside what the setting bounds: the interpreter, its libraries, and what is read and written at a time.
DEDUP_MEMORY_MB = CONFIG.corpus.dedup.memory_bytes // 2**20 + 1000
RANKS = CONFIG.training.parallel.world_size
MODEL = CONFIG.model_name


def files_of_part(wildcards):
    """The source's own files that one job reads (none for a source that is fetched)."""
    name = f"{wildcards.source}/{wildcards.part}"
    return next(part.files for part in PLANNED if part.name == name)


def one_of(names):
    """Pattern of a wildcard that is one of `names`."""
    return "|".join(sorted(map(re.escape, set(names)))) or "(?!)"


def shards_of_pair(wildcards):
    """Input function: the clean shards that a pair of token files holds, in order."""
    return [
        (RUN.corpus / "clean" / f"{name}.parquet").as_posix()
        for name in GROUPS[f"{wildcards.source}/{wildcards.part}"]
    ]


def survivor_options(wildcards, input):
    """Params function: the tables of documents that stay beside their duplicates, each with its flag."""
    return [word for path in input.survivors for word in ("--survivors", path)]


def adopt_options(wildcards):
    """Params function: what the configuration says of the token files of a source."""
    source = next(
        each for each in CONFIG.adopted_sources if each.name == wildcards.source
    )
    ends = "end-of-document"
    return [
        *("--source", source.name, "--language", source.language),
        f"--{ends}" if source.ends_with_end_of_document else f"--without-{ends}",
    ]


def table_of(folder, shard):
    """A shard's table, which for a shard of an earlier run lies in that run's folder."""
    corpus = corpus_of(shard, RUN.corpus, CONFIG.corpus.dedup.against)
    return (corpus / folder / f"{local_name(shard)}.parquet").as_posix()


def keyed_tables(wildcards):
    """Input function: what a shard's keys are made from."""
    verdicts = "verdicts" if own_part(wildcards.shard) else "clean"
    return [table_of(folder, wildcards.shard) for folder in ("measures", verdicts)]


def member_tables(wildcards):
    """Input function: what a shard's members are made from, but for what the search for duplicates found."""
    texts = [CONFIG.corpus.texts] if own_part(wildcards.shard) else []
    return [table_of(folder, wildcards.shard) for folder in ("measures", *texts)]


def every_shard(pattern):
    """The files that `pattern` (with {source} and {part}) names, one a shard."""
    return collect(pattern, zip, **SHARDS)


def run_folder(*below):
    """Params function: the run's folder, or one below it, for verbs that take a folder."""

    def folder(wildcards):
        return RUN.run.joinpath(*below).as_posix()

    return folder


def job(mem_mb, runtime, place=None, rules_in_group=1):
    """Resources of an ordinary job (MB, minutes), and where the site wants it; the times of a group's rules add up."""
    place = place or SITE.jobs
    longest = place.max_minutes // rules_in_group if place.max_minutes else runtime
    return {
        "mem_mb": mem_mb,
        "runtime": max(1, min(runtime, longest)),
        **SITE.job_resources(place),
    }


def training_extra(wildcards):
    """Resource function: options of sbatch; a segment waits for a training job that an earlier workflow left behind."""
    dependency = slurm_jobs.training_dependency(RUN) if workflow.is_main_process else None
    return TRAINING_JOB.resources(dependency)["slurm_extra"]


def launch_options(wildcards):
    """Params function: inside a cluster's job, how the training's processes are spread over its nodes."""
    return TRAINING_JOB.launch_options() if workflow.remote_exec else []


def clear_cluster():
    """Before anything else: end what an earlier workflow left in the queue, and begin anew if there was something."""
    if not workflow.local_exec and slurm_jobs.end_data_jobs(RUN):
        slurm_jobs.start_again()


def join_cluster(snakemake_logs):
    """On a cluster, before the first job: note the name of its jobs; keep the Hub token out of them."""
    if not workflow.local_exec:
        slurm_jobs.remember_workflow(RUN, map(Path, snakemake_logs))
        slurm_jobs.hide_token()


def previous_segment(wildcards):
    """The segment that this one goes on from."""
    number = int(wildcards.n)
    return checkpoints.train_segment.get(n=number - 1).output if number > 1 else []


def finished_training(wildcards):
    """What says that a training is finished, asked for by its export."""
    global EXPORT_WANTED
    EXPORT_WANTED = True
    return f"{RUN.run}/train/finished.json"


def segments_to_the_end(wildcards):
    """The chain of training segments, as far as it goes: asks for one more until one has finished the training."""
    global TRAINING_WANTED
    TRAINING_WANTED = True
    chain = []
    for number in range(1, CONFIG.training.segment.max_segments + 1):
        chain += checkpoints.train_segment.get(n=number).output
        if read_segment(Path(chain[-1])).status is SegmentStatus.FINISHED:
            return chain
    raise WorkflowError(
        f"training is not finished after {len(chain)} segments; expected: a larger training.segment.max_segments"
    )
