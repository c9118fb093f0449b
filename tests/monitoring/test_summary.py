"""Test the facts of a run that `bloomery summary` shows."""

from __future__ import annotations

from pathlib import Path

import pytest


def test_summary_says_the_command_that_resumes_the_run_as_it_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bloomery.base.atomic import write_json
    from bloomery.contracts.paths import RunPaths
    from monitoring.summary import ModelFacts, gather_summary
    from monitoring.summary_cli import next_command

    paths = RunPaths(tmp_path / "mine")
    paths.config.mkdir(parents=True)
    assert next_command(gather_summary(paths.run)).startswith("the command that started the run")
    command = "snakemake --profile slurm --configfile 'my run.yaml'"
    paths.monitoring.mkdir()
    write_json(paths.workflow_command, {"command": command, "folder": str(tmp_path)})
    assert next_command(gather_summary(paths.run)) == f"cd {tmp_path} && {command} (to resume the run)"
    monkeypatch.chdir(tmp_path)
    facts = gather_summary(Path("mine"))
    assert next_command(facts) == f"{command} (to resume the run)"
    facts.models.append(ModelFacts("m", "f", "step00000100", 1, 1, 0.0, 1e-4, True, "", ""))
    assert next_command(facts) == f"{command} --report mine/report.zip"


@pytest.mark.parametrize(
    ("on_cluster", "command"),
    [(False, "make run CONFIG=config/udhr.yaml"), (True, "snakemake --profile slurm --configfile config/udhr.yaml")],
)
def test_summary_of_the_finished_sample_names_a_larger_run(on_cluster: bool, command: str) -> None:
    from monitoring.summary import ModelFacts, RunSummary
    from monitoring.summary_cli import next_command

    model = ModelFacts("m", "f", "step00000100", 1, 1, 0.0, 1e-4, True, "", "")
    facts = RunSummary("runs/sample", None, None, None, None, [model], None, {}, on_cluster=on_cluster)
    assert next_command(facts) == command


def test_the_summary_counts_removed_documents_even_if_there_are_none() -> None:
    from monitoring.summary import CorpusFacts, RunSummary
    from monitoring.summary_cli import lines

    def said(removed: dict[str, int]) -> str:
        return dict(lines(RunSummary("runs/a", CorpusFacts(3, 0, 3, 9, 1, removed), None, None, None, [], None, {})))[
            "documents removed"
        ]

    assert said({}) == "0"
    assert said({"min_words": 2, "exact": 1}) == "3: 2 min words, 1 exact"


def test_the_speed_of_a_training_with_slow_iterations_is_the_quotient(tmp_path: Path) -> None:
    from step_records import step

    from bloomery.contracts.metrics_record import dump_record
    from bloomery.contracts.paths import RunPaths
    from monitoring.summary import gather_summary
    from monitoring.summary_cli import lines

    paths = RunPaths(tmp_path)
    paths.logs.mkdir(parents=True)
    slow = step(1, seconds=97.0, tokens_per_second=1000 / 97)
    fast = [step(number, seconds=1.0, tokens_per_second=1000.0) for number in (2, 3, 4)]
    (paths.logs / "metrics.jsonl").write_text("".join(dump_record(record) + "\n" for record in (slow, *fast)))
    rows = dict(lines(gather_summary(tmp_path)))
    assert rows["speed"] == (
        "40 tokens/s = 4,000 tokens / 1 min 40 s of iterations, without starts, validations and saves "
        "(median of the iterations: 1,000 tokens/s)"
    )
    assert rows["training loss"] == "4.900 in the first iteration, 4.600 in the last"
