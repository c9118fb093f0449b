"""parity.json: proof that an exported model computes what the trained one did. Nothing is published without it."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from bloomery.base.atomic import read_json, write_json
from bloomery.base.errors import InputError
from bloomery.contracts.checkpoint import FileEntry

PARITY_NAME = "parity.json"


class Parity(BaseModel):
    """The check, what it was made with, and every file of the folder that it speaks for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str
    """Name of the exported model."""
    checkpoint: str
    """Folder of the checkpoint below train/checkpoints."""
    iteration: int
    consumed_tokens: int
    parameters: int
    """Parameters of the exported model (tied ones once)."""
    dtype: str
    """Type of the exported weights."""
    vocabulary_rows: int
    """Rows of the exported embedding."""
    samples: int
    """Reference samples compared."""
    tokens: int
    """Positions compared."""
    tolerance: float
    max_difference: float
    """Greatest difference of fp32 logits, divided by max(1, greatest logit)."""
    max_absolute_difference: float
    max_logit: float
    argmax_agreement: float
    """Share of positions where both models prefer the same token."""
    prompt: str
    """Beginning of a reference sample."""
    text: str
    """Greedy continuation of the prompt by the exported model, without the prompt."""
    versions: dict[str, str]
    files: dict[str, FileEntry]
    """Every other file of the folder."""

    @property
    def passed(self) -> bool:
        """Whether the difference is within the tolerance (never for NaN)."""
        return self.max_difference <= self.tolerance


def write_parity(folder: Path, parity: Parity) -> None:
    """Write parity.json into an exported model's folder."""
    write_json(folder / PARITY_NAME, parity.model_dump(mode="json"))


def read_parity(folder: Path) -> Parity:
    """Read an exported model's parity.json. Raises InputError when there is none or it is damaged."""
    path = folder / PARITY_NAME
    if not path.is_file():
        raise InputError(
            "the exported model has no parity.json", where=str(folder), expected="a model that `export` has verified"
        )
    try:
        return Parity.model_validate(read_json(path))
    except ValidationError as error:
        raise InputError(f"not a parity report: {error}", where=str(path)) from error
