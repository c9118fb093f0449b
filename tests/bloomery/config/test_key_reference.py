"""Test that the key reference lists every key once, with its type and default."""

from __future__ import annotations

from bloomery.config.key_reference import sections
from bloomery.config.keys import all_keys
from bloomery.config.run import RunConfig


def test_every_leaf_of_the_configuration_is_in_the_reference() -> None:
    listed = {key.path.replace("[]", "").replace(".<language>", "") for _, _, keys in sections() for key in keys}
    known = set(all_keys(RunConfig))
    leaves = {path for path in known if not any(other.startswith(f"{path}.") for other in known)}
    # A recipe has the same keys as `thresholds`, and the reference lists these keys only once.
    assert {leaf.replace("judge.recipes.", "judge.thresholds.") for leaf in leaves} <= listed
    assert not {path for path in listed - known if not path.startswith("sources.")}


def test_a_row_states_type_and_default() -> None:
    rows = {key.path: key for _, _, keys in sections() for key in keys}
    assert (rows["corpus.ingest.shard_bytes"].kind, rows["corpus.ingest.shard_bytes"].default) == (
        "size",
        "`256.0 MiB`",
    )
    assert rows["training.optimizer.schedule"].kind == "`cosine`, `linear`, `constant`, `wsd`"
    assert rows["model.layers"].default == "required"
    assert rows["training.batch.rampup"].kind == "section or null"
    assert rows["corpus.mixture.alpha"].kind == "number > 0, ≤ 1"
