"""Define parity.json, the proof that an exported model computes the same as the trained one.

No model is published without it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from bloomery.base.atomic import read_json, write_json
from bloomery.base.errors import InputError
from bloomery.config.explain_value import wrong_values
from bloomery.config.section import Count
from bloomery.contracts.file_entry import FileEntry
from bloomery.contracts.safe_path import SafeName, SafePath

PARITY_NAME = "parity.json"


class HeldOutLoss(BaseModel):
    """Mean cross-entropy on reference samples of one validation set, in nats per token."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    samples: Count
    training: float
    """Loss of the training model."""
    exported: float
    """Loss of the exported model."""


class Generation(BaseModel):
    """Greedy text of the exported model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    """Validation set whose sample begins the text; `train` for a training sample."""
    prompt: str
    """Beginning of the sample."""
    text: str
    """Greedy continuation of the prompt, without the prompt. The checkpoint's weights choose the same tokens."""


class Parity(BaseModel):
    """Result of the parity check, the software versions that it used, and the files that it covers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str
    """Name of the exported model."""
    checkpoint: SafeName
    """Folder of the checkpoint below train/checkpoints."""
    chosen: bool = False
    """Whether a user chose the checkpoint (`--checkpoint`). Otherwise it was the last one of the finished training."""
    iteration: Count
    consumed_tokens: Count
    parameters: Count
    """Number of parameters of the exported model. Tied parameters count once."""
    dtype: str
    """Type of the exported weights."""
    rounded_to: str | None = None
    """Type of the training's weights if the exported ones are their fp32 master weights. The logits and texts in this
    file were then computed with the exported weights rounded to this type. None if no weight was rounded."""
    vocabulary_rows: Count
    """Number of rows of the exported embedding."""
    samples: Count
    """Number of reference samples that were compared."""
    tokens: Count
    """Number of token positions that were compared."""
    tolerance: float
    max_difference: float
    """Largest difference between the fp32 logits of the two models, divided by max(1, largest logit)."""
    max_absolute_difference: float
    max_logit: float
    argmax_agreement: float
    """Share of positions at which both models give the same token the largest logit."""
    held_out: dict[str, HeldOutLoss] = {}
    """Loss on the reference samples of each validation set. Empty if the checkpoint has no such samples."""
    generations: list[Generation] = []
    """Greedy texts of the exported model."""
    versions: dict[str, str]
    made_from: dict[str, str] = {}
    """Digests of the checkpoint, the tokenizer and the configuration that the model was exported from."""
    files: dict[SafePath, FileEntry]
    """Every file of the exported model's folder except parity.json."""

    @model_validator(mode="before")
    @classmethod
    def _without_old_keys(cls, value: Any) -> Any:
        """Drop the keys of a text that earlier versions sampled at random."""
        if isinstance(value, dict):
            return {key: item for key, item in value.items() if key not in ("prompt", "text")}
        return value

    @property
    def passed(self) -> bool:
        """Whether the difference is within the tolerance. NaN is never within it."""
        return self.max_difference <= self.tolerance


def write_parity(folder: Path, parity: Parity) -> None:
    """Write parity.json into an exported model's folder."""
    write_json(folder / PARITY_NAME, parity.model_dump(mode="json"))


def read_parity(folder: Path) -> Parity:
    """Read an exported model's parity.json.

    Raises:
        InputError: the file is missing or damaged.
    """
    path = folder / PARITY_NAME
    if not path.is_file():
        raise InputError(
            "the exported model has no parity.json",
            where=str(folder),
            expected="a model that `bloomery export model` has verified; export the model again",
        )
    try:
        return Parity.model_validate(read_json(path))
    except ValidationError as error:
        raise InputError(
            f"not a parity report: {wrong_values(error, Parity)}",
            where=str(path),
            expected="the parity.json that `bloomery export model` of this version wrote; export the model again",
        ) from error
