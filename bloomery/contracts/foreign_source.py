"""Define source.json, the record of the foreign checkpoint that an exported model was made from."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from bloomery.base.atomic import write_json
from bloomery.config.model import ModelConfig
from bloomery.config.section import Count
from bloomery.contracts.file_entry import FileEntry
from bloomery.contracts.safe_path import SafePath

SOURCE_NAME = "source.json"


class ForeignSource(BaseModel):
    """The checkpoint of another project: what it is, and the files that were read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    layout: str
    """Layout of the checkpoint, such as `universal checkpoint of DeepSpeed`."""
    tensor_parallel: Count
    """Number of tensor ranks whose pieces were merged."""
    dtype: str
    """Data type of the weights in the checkpoint."""
    model: ModelConfig
    """Network, as the arguments of the training and the files state it."""
    on_drift: Literal["mean-fp32", "rank0"] | None
    """Value that replaced the replicas in `drift`. None if drift would have been an error."""
    drift: dict[str, float | None]
    """Greatest difference between two replicas of each parameter whose replicas differed. None if it is not finite."""
    files: dict[SafePath, FileEntry]
    """Every file that was read, by its path in the checkpoint's folder, with its hash before the export."""


def write_source(folder: Path, source: ForeignSource) -> None:
    """Write source.json into an exported model's folder."""
    write_json(folder / SOURCE_NAME, source.model_dump(mode="json"))
