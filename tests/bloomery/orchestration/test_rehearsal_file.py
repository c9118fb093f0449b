"""Test the comments in a rehearsal's configuration file."""

from __future__ import annotations

import yaml
from big_run import big

from bloomery.config.site import Site
from bloomery.orchestration.rehearsal import rehearsal
from bloomery.orchestration.rehearsal_file import render

EIGHT = Site.model_validate({"training": {"gpus_per_node": 8}})


def test_comments_state_the_values_of_the_original_run() -> None:
    config = big()
    text = render(rehearsal(config, EIGHT, 2), config.model_dump(mode="json"), "big.yaml", 2, "snakemake")
    assert "  layers: 4  # 70: " in text
    assert "    pipeline: 2  # 12: the layout fills the nodes exactly" in text
    assert "  hub: false  # true: the rehearsal publishes nothing on a Hub" in text
    assert "    max_documents: 1000  # all: less text to process" in text
    assert "learning_rate: 6.0e-05\n" in text
    assert yaml.safe_load(text) == rehearsal(config, EIGHT, 2)
