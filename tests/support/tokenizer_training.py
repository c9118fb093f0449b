"""Train a tokenizer on the count tables of a run, as `bloomery tokenizer train` does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bloomery.config.stages import TokenizerStage
from data_prep.tokenizer.find_count_tables import find_tables
from data_prep.tokenizer.train import train, with_pre_tokenizer


def train_tokenizer(
    stage: TokenizerStage, counts: Path, parts: Sequence[str], mixture: Path, output: Path
) -> dict[str, Any]:
    """Train on the tables of `parts` (such as `source/00000`) in the folder `counts`, and write `output`."""
    tables = find_tables([counts], parts)
    return train(with_pre_tokenizer(stage.tokenizer, tables), tables, mixture, output.parent)
