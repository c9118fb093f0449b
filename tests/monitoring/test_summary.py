"""The facts of a run."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.mark.parametrize("run", ["sample", "mine"])
def test_summary_says_the_command_of_the_cluster_where_the_run_was_on_one(tmp_path: Path, run: str) -> None:
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


def test_summary_of_a_corpus_from_which_nothing_was_removed() -> None:
    from monitoring.summary import CorpusFacts, RunSummary
    from monitoring.summary_cli import lines

    def said(removed: dict[str, int]) -> str:
        return dict(lines(RunSummary("runs/a", CorpusFacts(3, 0, 3, 9, 1, removed), None, None, [], None, {})))[
            "documents removed"
        ]

    assert said({}) == "0"
    assert said({"min_words": 2, "exact": 1}) == "3: 2 min words, 1 exact"
