"""Settings of the executor. Snakemake makes a command-line option of each field and reads the fields' types.

Therefore this module must not postpone the evaluation of annotations.
"""

from dataclasses import dataclass, field

from snakemake_executor_plugin_slurm import ExecutorSettings as SlurmSettings


@dataclass
class ExecutorSettings(SlurmSettings):  # type: ignore[misc]
    """Settings of the original plugin, and the longest pause between two looks at the states of the jobs."""

    longest_poll_seconds: float = field(
        default=60.0,
        metadata={
            "help": "Longest pause between two looks at the states of the jobs, in seconds. The pause begins with "
            "init-seconds-before-status-checks and grows by 10 s while no job ends.",
            "env_var": False,
            "required": False,
            "type": float,
        },
    )
