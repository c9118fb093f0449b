"""Test the plan of a run, which lists the rules' parts, partitions and files and writes the sections."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest
from planned_run import TOKENIZER, earlier_run, planned, release, small_config, token_source

from bloomery.base.errors import ConfigError, InputError, TryAgainError
from bloomery.orchestration.run_lock import RunLock
from bloomery.orchestration.run_plan import read_config

WEB = ["web/00000", "web/00001", "web/00002"]


@pytest.fixture(autouse=True)
def _no_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("BLOOMERY_SITE", raising=False)
    monkeypatch.delenv("HF_TOKEN", raising=False)


def test_a_plan_lists_the_parts_of_text_sources(tmp_path: Path) -> None:
    plan = planned(tmp_path, index={"shards_per_file": 2})
    assert [part.name for part in plan.text_parts] == [*WEB, "books/00000"]
    assert plan.adopted_parts == []
    assert plan.token_groups == {"web/00000": WEB[:2], "web/00002": WEB[2:], "books/00000": ["books/00000"]}
    assert plan.dedup_shards == [*WEB, "books/00000"]
    assert list(plan.partitions) == [0, 1]
    assert isinstance(plan.lock, RunLock)
    assert plan.paths.control.is_dir()
    assert (plan.paths.config / "ingest/web/00002.json").is_file()
    assert (plan.evaluation_files, plan.tokenizer_files, plan.online) == ([], [], None)


def test_lines_are_stripped_only_if_enabled(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    assert (plan.strips_lines, list(plan.line_partitions), plan.text_group) == (False, [], "read")
    release(plan)
    lines = {"lines": {"enabled": True, "partitions": 3}, "dedup": {"partitions": 2}}
    plan = planned(tmp_path, corpus=lines)
    assert (plan.strips_lines, list(plan.line_partitions), plan.text_group) == (True, [0, 1, 2], "strip")


def test_a_run_of_token_files_alone_has_no_partitions(tmp_path: Path) -> None:
    gate = {"report": {"parallel": str(tmp_path), "gate": {"max_parity": 2.0}}}
    source = token_source(tmp_path)
    corpus = {"lines": {"enabled": True}, "dedup": {"against": [str(earlier_run(tmp_path / "old"))]}}
    plan = planned(tmp_path, sources=[source], tokenizer=TOKENIZER | gate, corpus=corpus)
    assert [part.name for part in plan.adopted_parts] == ["tokens/00000"]
    assert plan.text_parts == []
    assert plan.token_groups == {}
    assert (plan.dedup_shards, list(plan.partitions), list(plan.line_partitions)) == ([], [], [])
    assert plan.tokenizer_gate is None
    assert plan.text_group == "read"


def test_the_tokenizer_gate_is_planned_for_text_sources(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    assert plan.tokenizer_gate is None
    release(plan)
    report = {"report": {"parallel": str(tmp_path), "gate": {"max_parity": 2.0}}}
    gate = planned(tmp_path, tokenizer=report).tokenizer_gate
    assert gate is not None


def test_deduplication_includes_the_shards_of_an_earlier_run(tmp_path: Path) -> None:
    old = earlier_run(tmp_path / "old")
    plan = planned(tmp_path, corpus={"dedup": {"against": [str(old)]}})
    assert plan.dedup_shards[-1] == "_earlier/0/old/00000"
    assert plan.earlier_parts == ["_earlier/0/old/00000"]
    release(plan)
    (old / "corpus/duplicates/clusters.json").unlink()
    with pytest.raises(InputError, match=r"the corpus of this earlier run has no duplicates/clusters\.json"):
        planned(tmp_path, name="other", corpus={"dedup": {"against": [str(old)]}})
    # A job uses the planned list of parts, because the corpus of the earlier run may have changed since the planning.
    job = planned(tmp_path, is_main_process=False, corpus={"dedup": {"against": [str(old)]}})
    assert job.earlier_parts == ["_earlier/0/old/00000"]


def test_a_job_reads_the_parts_that_the_main_process_wrote(tmp_path: Path) -> None:
    main = planned(tmp_path)
    (tmp_path / "texts/web/3.jsonl").write_bytes(b" " * 1500)
    job = planned(tmp_path, is_main_process=False)
    assert job.parts == main.parts
    assert job.lock is None
    release(main)
    assert len(planned(tmp_path).parts) == len(main.parts) + 1


def test_nothing_is_written_while_another_workflow_holds_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = planned(tmp_path)
    (tmp_path / "texts/web/3.jsonl").write_bytes(b" " * 1500)
    with caplog.at_level(logging.WARNING):
        second = planned(tmp_path, seed=7)
    assert isinstance(second.lock, TryAgainError)
    assert second.parts == first.parts
    assert not (first.paths.config / "ingest/web/00003.json").exists()
    assert [record.message for record in caplog.records] == [f"{second.lock}; this workflow writes no files of the run"]


def test_a_plan_lists_files_of_tokenizers_and_evaluation_texts(tmp_path: Path) -> None:
    for name in ("own", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tokenizer.json").touch()
    (tmp_path / "evaluation.jsonl").touch()
    references = [{"name": "other", "tokenizer": str(tmp_path / "other")}]
    plan = planned(
        tmp_path,
        corpus={"decontaminate": {"paths": [str(tmp_path / "*.jsonl")]}},
        tokenizer={"existing": str(tmp_path / "own"), "report": {"references": references}},
    )
    assert plan.tokenizer_files == [tmp_path / "own/tokenizer.json"]
    assert plan.evaluation_files == [str(tmp_path / "evaluation.jsonl")]
    assert plan.references_are_local
    release(plan)
    references.append({"name": "hub", "tokenizer": "owner/name"})
    assert not planned(tmp_path, tokenizer={"report": {"references": references}}).references_are_local


def test_a_wrong_site_is_refused_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLOOMERY_SITE", str(tmp_path / "missing.yaml"))
    with pytest.raises(ConfigError, match="no such file"):
        planned(tmp_path)
    assert not (tmp_path / "runs").exists()


def test_the_internet_partition_of_the_site_is_used_only_without_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site.yaml").write_text("internet: {partition: transfer}\n")
    plan = planned(tmp_path)
    assert plan.online is not None
    assert plan.online.partition == "transfer"
    release(plan)
    monkeypatch.setenv("HF_TOKEN", "hf_" + "secret")
    assert planned(tmp_path).online is None


def test_a_duplicate_key_in_a_configuration_file_is_refused(tmp_path: Path) -> None:
    given = small_config(tmp_path).model_dump(mode="json")
    (tmp_path / "run.yaml").write_text("name: one\nname: two\n")
    with pytest.raises(ConfigError, match="the key 'name' is written twice"):
        read_config(given, [str(tmp_path / "run.yaml")])


def test_configuration_problems_name_the_file_or_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("name: one\n")
    with pytest.raises(ConfigError, match=r"^run\.yaml: \d+ problem"):
        read_config({"name": "one", "seed": "x"}, [Path("run.yaml")])
    with pytest.raises(ConfigError, match=r"^--config: \d+ problem"):
        read_config({"name": "one", "seed": "x"}, [])


def test_planning_imports_no_heavy_library() -> None:
    code = (
        "import sys\n"
        "from bloomery.orchestration import job_environment, rule_inputs, segment_chain, slurm_jobs, workflow_session\n"
        "print({'pyarrow', 'numpy', 'torch', 'transformers', 'huggingface_hub'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
