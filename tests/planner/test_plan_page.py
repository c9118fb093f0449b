"""Test the pages of the presets."""

from __future__ import annotations

from repository import ROOT

from bloomery.checks.load_config import load_config
from planner.answers import answers
from planner.plan_page import index_page

PRESETS = sorted((ROOT / "config/models").glob("*.yaml"))


def test_the_table_of_presets_is_up_to_date() -> None:
    plans = [(path.stem, answers(load_config(path))) for path in PRESETS]
    assert (ROOT / "docs/models/README.md").read_text() == index_page(plans)
