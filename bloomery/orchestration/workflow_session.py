"""Actions of a workflow before its first job and at its end. The hooks of the Snakefile call them."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bloomery.base.errors import BloomeryError, ConfigError, TryAgainError
from bloomery.base.typed_command import typed_command
from bloomery.orchestration import slurm_jobs
from bloomery.orchestration.compare_cluster import refuse_unfit_jobs
from bloomery.orchestration.prepare_run import other_shards
from bloomery.orchestration.run_plan import RunPlan
from bloomery.orchestration.watcher import Watcher
from bloomery.orchestration.workflow_command import record_command
from bloomery.orchestration.workflow_end import RecordedWorkflow
from bloomery.spec.refuse_unsupported import refuse_untrainable
from bloomery.spec.transformers_families.choose import family_for_export


@contextmanager
def exit_on_error(logger: logging.Logger) -> Iterator[None]:
    """Turn a BloomeryError into one logged line and its exit code, without a traceback."""
    try:
        yield
    except BloomeryError as error:
        logger.error(f"error: {error}")
        raise SystemExit(error.exit_code) from error


class WorkflowSession:
    """One workflow, from building its graph to its end."""

    def __init__(self, plan: RunPlan, logger: logging.Logger) -> None:
        self.training_wanted = False
        """Whether the graph contains a training."""
        self.export_wanted = False
        """Whether the graph contains an export."""
        self._plan = plan
        self._logger = logger
        self._watcher: Watcher | None = None
        self._recorded: RecordedWorkflow | None = None

    def start(
        self,
        snakemake_logs: Sequence[str],
        *,
        is_main_process: bool,
        on_cluster: bool,
        rules: Collection[str] = (),
        shards_per_job: int = 1,
    ) -> None:
        """Prepare the first job: refuse an unsupported run, remove stale files, start the watcher, set up SLURM jobs.

        A dry-run does not call this method.

        Args:
            snakemake_logs: log files of Snakemake itself.
            is_main_process: whether this process is the workflow, and not one of its jobs.
            on_cluster: whether the jobs run on a cluster.
            rules: names of the rules that will run.
            shards_per_job: largest number of shards that share a SLURM job.

        Raises:
            SystemExit: another workflow holds the run's lock, this version cannot train or export the model, or the
                cluster would refuse jobs of the run.
        """
        with exit_on_error(self._logger):
            self._refuse_second_workflow()
            self._refuse_unsupported()
            if on_cluster and is_main_process:
                refuse_unfit_jobs(self._plan, rules=rules, trains=self.training_wanted, shards_per_job=shards_per_job)
        self._remove_other_shards()
        if is_main_process:
            record_command(self._plan.paths)
        if on_cluster and slurm_jobs.end_data_jobs(self._plan.paths):
            # The cancelled jobs removed files, so Snakemake must build the graph again.
            slurm_jobs.start_again()
        if is_main_process:
            self._recorded = RecordedWorkflow.begin(self._plan.paths, self._plan.config)
            # The watcher inherits the token, so it must start before `hide_token` removes the token.
            self._watcher = Watcher.start(self._plan.paths.run)
        if on_cluster:
            slurm_jobs.remember_workflow(self._plan.paths, map(Path, snakemake_logs))
            slurm_jobs.hide_token()
            # sbatch would copy these secrets into files of the scheduler. Only the watcher needs them.
            for name in self._plan.config.alerts.secret_variables:
                os.environ.pop(name, None)

    def stop(self, *, failed: bool = False) -> None:
        """Record the end of the workflow, push the logs once more, and end the watcher.

        A killed workflow does not call this method. Its watcher detects that the workflow ended, and stops.
        """
        if self._recorded is not None:
            self._recorded.end(failed=failed)
        if self._watcher is not None:
            self._watcher.stop()

    def explain_failure(self, snakemake_logs: Sequence[str]) -> None:
        """After a failure, log where the log files are and the command that resumes the run.

        `bloomery.orchestration.workflow_log` prints only the command if a user interrupted the workflow.
        """
        command = typed_command()
        self._logger.error(
            f"Logs of the jobs: {self._plan.paths.run}/logs. Snakemake's own log: {', '.join(snakemake_logs)}.\n"
            f"Finished jobs are not repeated. Fix the cause, then resume with: {command}",
            extra={"resume_command": command},
        )

    def _refuse_second_workflow(self) -> None:
        """Raise TryAgainError if another workflow holds the lock of the run."""
        if isinstance(self._plan.lock, TryAgainError):
            raise self._plan.lock

    def _refuse_unsupported(self) -> None:
        """Raise ConfigError if the graph contains a training or an export that this version does not support."""
        config = self._plan.config
        if self.training_wanted:
            refuse_untrainable(config.model)
        if self.export_wanted:
            if not config.export.enabled:
                raise ConfigError(
                    "this target needs the exported model, but export.enabled is false",
                    where="export.enabled",
                    expected="the target `all` or `train`, with which the run ends after its training; or "
                    "export.enabled true",
                )
            family_for_export(config.model)

    def _remove_other_shards(self) -> None:
        """Remove the shards of an earlier configuration of the run.

        Users read these folders with a file pattern, which must match only the shards of this configuration.
        """
        for path in other_shards(self._plan.paths, self._plan.parts):
            path.unlink()
