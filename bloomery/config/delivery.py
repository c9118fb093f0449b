"""What leaves the run: the exported model and where it is published."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from bloomery.config.section import Name, NotBool, Section


class ExportConfig(Section):
    """Checkpoint to transformers folder."""

    model_name: Name | None = None
    """Name of the exported model's folder; null: the run's name."""
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
    """Type of the exported weights."""
    vocabulary: Literal["keep", "trim"] = "keep"
    """`keep` the padded embedding rows (as BLOOM did) or `trim` them to the tokenizer's size."""
    tolerance: Annotated[float, Field(gt=0), NotBool] = 1e-4
    """Greatest difference of fp32 logits from the training model's, relative to the largest logit."""


class PublishConfig(Section):
    """Model and logs go to the Hub when HF_ENDPOINT and a token (HF_TOKEN or `hf auth`) are there; else to a folder."""

    hub: bool = True
    """Use the Hub when both HF_ENDPOINT and a token are there; false: always the local folder."""
    owner: Name | None = None
    """Namespace on the Hub; null: the token's user."""
    model_repository: Name | None = None
    """Repository of the model; null: the exported model's name."""
    logs_repository: Name | None = None
    """Repository of the logs; null: `<model>-logs`."""
    private: bool = True
    """Make the repositories private."""
    sync_minutes: Annotated[float, Field(gt=0, le=1440), NotBool] = 5.0
    """Minutes between two pushes of the logs while the workflow runs. The Hub allows some 100 commits an hour."""
