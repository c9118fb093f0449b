"""Test the rows that `summary` and `status` share: the pages of the reports, and files that cannot be compared."""

from __future__ import annotations

from pathlib import Path

import pytest
from fabricated_run import NOW, configuration, make_run
from fabricated_tables import write_result, write_tables

from bloomery.base.atomic import read_json, write_json
from bloomery.contracts import lineage
from monitoring import status_cli, summary_cli
from monitoring.shared_rows import report_pages
from monitoring.status import gather_status
from monitoring.summary import gather_summary


@pytest.mark.parametrize("changed", [False, True])
def test_a_report_of_another_corpus_is_marked_beside_its_path(tmp_path: Path, *, changed: bool) -> None:
    paths = make_run(tmp_path, configuration(), shards=2)
    write_tables(paths)
    assert report_pages(paths) == {}
    texts = lineage.clean_texts(paths.corpus / "clean", ["s/00000", "s/00001"])
    (paths.results / "report").mkdir(parents=True)
    write_result(paths, "report/corpus.json", {lineage.TEXTS: texts})
    paths.report.mkdir()
    (paths.report / "corpus.html").touch()
    if changed:
        section = paths.config / "clean.json"
        write_json(section, read_json(section) | {"changed": True})
    page = f"{paths.report.as_posix()}/corpus.html"
    mark = " [OLDER THAN its configuration (config/clean.json)]" if changed else ""
    assert dict(summary_cli.lines(gather_summary(paths.run)))["corpus report"] == page + mark
    assert dict(status_cli.lines(gather_status(paths.run, NOW)))["reports"] == page + mark


def test_a_file_that_cannot_be_compared_is_shown(tmp_path: Path) -> None:
    paths = make_run(tmp_path, configuration(), shards=2)
    write_tables(paths)
    damaged = paths.corpus / "keys/s/00001.json"
    damaged.write_text("{")
    for rows in (summary_cli.lines(gather_summary(paths.run)), status_cli.lines(gather_status(paths.run, NOW))):
        assert dict(rows)["not compared"].startswith(f"{damaged} cannot be read, so an artefact may be out of date")


def test_without_a_command_the_target_that_builds_stale_artefacts_is_named(tmp_path: Path) -> None:
    paths = make_run(tmp_path, configuration(), shards=2)
    write_tables(paths)
    section = paths.config / "clean.json"
    write_json(section, read_json(section) | {"changed": True})
    target = gather_summary(paths.run).rebuild_target
    repeat = f"repeat the command that started the run with the target {target}"
    record = {"command": "snakemake", "folder": str(Path.cwd()), "run": str(paths.run)}
    for recorded, how in ((None, repeat), (record, f"snakemake {target}"), (record | {"run": str(tmp_path)}, repeat)):
        if recorded is not None:
            write_json(paths.workflow_command, recorded)
        facts = gather_summary(paths.run)
        shown = [dict(summary_cli.lines(facts)), dict(status_cli.lines(gather_status(paths.run, NOW)))]
        assert all(rows["out of date"].endswith(f"; to build them again: {how}") for rows in shown)
        assert summary_cli.next_command(facts) == how
