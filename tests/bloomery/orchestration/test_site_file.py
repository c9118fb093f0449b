"""Test the site file that holds the answers of `bloomery cluster init`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bloomery.base.errors import ConfigError
from bloomery.config.keys import all_keys
from bloomery.config.site import Site, read_site
from bloomery.orchestration.detect_cluster import Cluster, cluster_from
from bloomery.orchestration.site_file import render, write_site
from bloomery.orchestration.site_questions import collect, nested

DATA = Path(__file__).parent / "data"


def cluster(name: str, accounts: str = "") -> Cluster:
    return cluster_from((DATA / f"sinfo_{name}.txt").read_text(), (DATA / "scontrol_config.txt").read_text(), accounts)


def answers(found: Cluster | None, **given: Any) -> dict[str, Any]:
    return collect(found, {key.replace("__", "."): value for key, value in given.items()}, modules=[], scratch=None)


def test_the_site_file_explains_every_key_and_can_be_read_back(tmp_path: Path) -> None:
    values = nested(answers(cluster("eight_gpus"), account="007", modules=["gcc/12", "null"], scratch="/s"))
    site = write_site(tmp_path / "site.yaml", values, ["A cluster."])
    written = (tmp_path / "site.yaml").read_text()
    assert (site.account, site.modules) == ("007", ["gcc/12", "null"])
    assert read_site(tmp_path / "site.yaml") == Site.model_validate(values)
    for path in all_keys(Site):
        if not path.startswith("internet."):
            assert f"\n{'  ' * path.count('.')}{path.rsplit('.', 1)[-1]}:" in written
    meaning = "Longest time limit that the partition or QoS allows, in minutes. Jobs never request more."
    assert (
        f"# {meaning} Default (null):\n"
        "  # each job requests the time that its Snakemake rule states.\n"
        "  max_minutes: 1200" in written
    )
    assert max(len(line) for line in written.splitlines()) <= 120
    assert not list(tmp_path.glob(".*"))


def test_nothing_is_written_if_an_answer_is_invalid(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"jobs\.partition: 'a b' is not valid"):
        write_site(tmp_path / "site.yaml", {"jobs": {"partition": "a b"}}, [])
    assert not list(tmp_path.iterdir())


def test_a_site_file_without_answers_is_the_default_site(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text(render({}, []))
    assert read_site(tmp_path / "site.yaml") == Site()
