"""Test the facts of a run that `bloomery summary` shows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bloomery.base.atomic import write_json
from bloomery.base.errors import InputError
from bloomery.contracts.paths import RunPaths
from monitoring.summary import gather_summary
from monitoring.summary_cli import lines


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
    facts.models.append(ModelFacts("m", "f", "step00000100", 1, 1, 0.0, 1e-4, True, []))
    assert next_command(facts) == f"{command} --report mine/report.zip"


@pytest.mark.parametrize(
    ("on_cluster", "command"),
    [(False, "make run CONFIG=config/udhr.yaml"), (True, "snakemake --profile slurm --configfile config/udhr.yaml")],
)
def test_summary_of_the_finished_sample_names_a_larger_run(on_cluster: bool, command: str) -> None:
    from monitoring.summary import ModelFacts, RunSummary
    from monitoring.summary_cli import next_command

    model = ModelFacts("m", "f", "step00000100", 1, 1, 0.0, 1e-4, True, [])
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


@pytest.mark.parametrize(
    ("deleted", "missing"),
    [
        ([], set()),
        (["raw"], {"documents read"}),
        (["raw/s/00001.json"], {"documents read"}),
        (["clean"], {"documents removed", "documents kept"}),
        (["raw", "clean"], {"documents read", "documents removed", "documents kept"}),
    ],
)
def test_the_rows_of_deleted_tables_are_left_out(tmp_path: Path, deleted: list[str], missing: set[str]) -> None:
    paths = run_with_counts(tmp_path)
    for name in deleted:
        path = paths.corpus / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    rows = dict(lines(gather_summary(paths.run)))
    corpus = {"documents read", "documents removed", "documents kept"}
    assert corpus - set(rows) == missing
    assert rows.get("documents read") in (None, "6 (2 unreadable rows quarantined)")
    assert rows.get("documents kept") in (None, "4 in 1 languages, 20 B of text")


def test_a_damaged_manifest_of_a_table_is_an_error(tmp_path: Path) -> None:
    paths = run_with_counts(tmp_path)
    manifest = paths.corpus / "raw/s/00001.json"
    manifest.write_text('{"counts": {')
    with pytest.raises(InputError, match="not valid JSON") as found:
        gather_summary(paths.run)
    assert str(manifest) in str(found.value)


def run_with_counts(folder: Path) -> RunPaths:
    """Return a run with two raw and two clean shards, of which only the manifests exist."""
    paths = RunPaths(folder / "run")
    parts = ["s/00000", "s/00001"]
    write_json(paths.config / "parts.json", parts)
    write_json(paths.corpus / "mixture.json", {})
    out = {"documents": 2, "bytes": 10}
    removed = {"min_words": {"documents": 1, "bytes": 5}}
    for part in parts:
        write_json(paths.corpus / f"raw/{part}.json", {"counts": {"documents": 3, "bad_rows": 1}})
        counts = {"out": out, "languages": {"en": {"out": out, "removed": removed}}}
        write_json(paths.corpus / f"clean/{part}.json", {"counts": counts})
    return paths
