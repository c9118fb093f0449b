"""Test the suggestion of the key that the author of an unknown key probably meant."""

from __future__ import annotations

import pytest

from bloomery.config.replace_wrong_values import Location
from bloomery.config.run import RunConfig
from bloomery.config.suggest_key import key_paths, suggestion


@pytest.mark.parametrize(
    ("location", "value", "right"),
    [
        (("model", "hidden"), 1, "model.hidden_size"),
        (("model", "layer"), 7, "model.layers"),
        (("optimizer",), {"lr": 1}, "training.optimizer"),
        (("optimizer",), "fused", "training.optimizer"),
        (("training", "beta1"), 0.9, "training.optimizer.beta1"),
        (("training", "checkpoint", "schedule", 2, "until"), 1, "training.checkpoint.schedule[2].until_iteration"),
        (("sources", 3, "text_fild"), "x", "sources[3].text_field"),
        (("paths",), ["x"], "sources[].paths"),
        (("corpus", "judge", "recipes", "web", "min_word"), 1, "corpus.judge.recipes.web.min_words"),
        (("corpus", "judge", "thresholds", "fr", "max_top_2gram"), 1, "corpus.judge.thresholds.fr.max_top_2gram_ratio"),
    ],
)
def test_the_right_path_is_suggested(location: Location, value: object, right: str) -> None:
    assert suggestion(location, RunConfig, value).startswith(f"; did you mean {right!r}?")


def test_a_name_like_no_other_lists_the_keys_of_a_small_section() -> None:
    assert suggestion(("training", "parallel", "xyz"), RunConfig) == (
        "; the keys of this section are data, pipeline, sequence_parallel, tensor"
    )
    assert suggestion(("xyz",), RunConfig) == "; config/README.md lists the keys of this section"


def test_a_key_of_another_kind_of_source_is_no_typing_error() -> None:
    assert (
        suggestion(("sources", 0, "dataset"), RunConfig)
        == "; only sources of another kind have this key, so remove it or change `kind`"
    )


def test_paths_say_where_lists_and_mappings_are() -> None:
    found = set(key_paths(RunConfig))
    assert {"sources[].paths", "corpus.judge.thresholds.<name>.min_words", "training.skip[].to_sample"} <= found
