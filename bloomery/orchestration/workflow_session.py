"""What one workflow does before its first job and at its end; the hooks of the Snakefile call it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bloomery.base.errors import BloomeryError, TryAgainError
from bloomery.orchestration import slurm_jobs
from bloomery.orchestration.prepare_run import other_shards
from bloomery.orchestration.run_plan import RunPlan
from bloomery.orchestration.sync_process import SyncProcess
from bloomery.spec.refuse_unsupported import refuse_unexportable, refuse_untrainable


@contextmanager
def exit_on_error(logger: logging.Logger) -> Iterator[None]:
    """Turn an error of ours into one logged line and its exit code, without a traceback."""
    try:
        yield
    except BloomeryError as error:
        logger.error(f"error: {error}")
        raise SystemExit(error.exit_code) from error


class WorkflowSession:
    """One workflow from the first look at its graph to its end."""

    def __init__(self, plan: RunPlan, logger: logging.Logger) -> None:
        self.training_wanted = False
        """Whether the graph contains a training."""
        self.export_wanted = False
        """Whether the graph contains an export."""
        self._plan = plan
        self._logger = logger
        self._sync: SyncProcess | None = None

    def start(self, snakemake_logs: Sequence[str], *, is_main_process: bool, on_cluster: bool) -> None:
        """Before the first job: refuse what cannot work, remove stale files, start the sync, join the cluster.

        A dry-run does not come here. `snakemake_logs` are the log files of Snakemake itself.

        Raises:
            SystemExit: another workflow works on this run, or this version cannot train or export the model.
        """
        with exit_on_error(self._logger):
            self._refuse_second_workflow()
            self._refuse_unsupported()
        self._remove_other_shards()
        if on_cluster and slurm_jobs.end_data_jobs(self._plan.paths):
            # The cancelled jobs removed files, so the graph must be built again.
            slurm_jobs.start_again()
        if is_main_process:
            # Before the token leaves the environment.
            self._sync = SyncProcess.start(self._plan.paths.run, hub=self._plan.config.publish.hub)
        if on_cluster:
            slurm_jobs.remember_workflow(self._plan.paths, map(Path, snakemake_logs))
            slurm_jobs.hide_token()

    def stop(self) -> None:
        """At the end, push the logs once more.

        A killed workflow does not come here; its sync process sees that and ends by itself.
        """
        if self._sync is not None:
            self._sync.stop()

    def explain_failure(self, snakemake_logs: Sequence[str]) -> None:
        """After a failure, say where the logs are and how to resume."""
        self._logger.error(
            "Where a job failed, its log is named above under `log:` "
            f"(all logs: {self._plan.paths.run}/logs); Snakemake's own: {', '.join(snakemake_logs)}.\n"
            "When the cause is mended, the same command goes on from here: finished work is kept."
        )

    def _refuse_second_workflow(self) -> None:
        """Raise TryAgainError if another workflow holds the lock of the run."""
        if isinstance(self._plan.lock, TryAgainError):
            raise self._plan.lock

    def _refuse_unsupported(self) -> None:
        """Raise ConfigError if the graph contains a training or an export that this version lacks."""
        config = self._plan.config
        if self.training_wanted:
            refuse_untrainable(config.model, config.training)
        if self.export_wanted:
            refuse_unexportable(config.model)

    def _remove_other_shards(self) -> None:
        """Remove shards that an earlier configuration of the run left behind.

        People read these folders by a pattern, which must match the shards of this configuration only.
        """
        for path in other_shards(self._plan.paths, self._plan.parts):
            path.unlink()
