"""Test the facts of a run that `bloomery summary` shows."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.mark.parametrize("run", ["sample", "mine"])
def test_the_next_command_uses_the_slurm_profile_for_a_run_on_a_cluster(tmp_path: Path, run: str) -> None:
    from bloomery.contracts.paths import RunPaths
    from monitoring.summary import ModelFacts, gather_summary
    from monitoring.summary_cli import next_command

    paths = RunPaths(tmp_path / run)
    paths.config.mkdir(parents=True)
    local = "snakemake --profile workflow/profiles/local --configfile CONFIG"
    assert next_command(gather_summary(paths.run)).startswith("make run (" if run == "sample" else f"{local} (")
    paths.monitoring.mkdir()
    paths.slurm_runs.write_text("0a1b\n")
    facts = gather_summary(paths.run)
    assert next_command(facts).startswith("snakemake --profile slurm --configfile CONFIG (")
    facts.models.append(ModelFacts("m", "f", 1, 1, 0.0, 1e-4, True, "", ""))
    assert next_command(facts).startswith(
        "snakemake --profile slurm --configfile config/udhr.yaml"
        if run == "sample"
        else "snakemake --profile workflow/"
    )


def test_the_summary_counts_removed_documents_even_if_there_are_none() -> None:
    from monitoring.summary import CorpusFacts, RunSummary
    from monitoring.summary_cli import lines

    def said(removed: dict[str, int]) -> str:
        return dict(lines(RunSummary("runs/a", CorpusFacts(3, 0, 3, 9, 1, removed), None, None, [], None, {})))[
            "documents removed"
        ]

    assert said({}) == "0"
    assert said({"min_words": 2, "exact": 1}) == "3: 2 min words, 1 exact"
