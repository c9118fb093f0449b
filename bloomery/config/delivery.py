"""Delivery of a run: the exported model, and where the model and the logs are published."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from bloomery.config.section import Name, NotBool, Section


class ExportConfig(Section):
    """Export of a checkpoint as a transformers model folder."""

    model_name: Name | None = None
    """Name of the exported model's folder. Default (null): the run's name."""
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
    """Data type of the exported weights."""
    vocabulary: Literal["keep", "trim"] = "keep"
    """Embedding rows of the exported model. `keep`: all padded rows, as BLOOM has. `trim`: only the rows of the
    tokenizer's entries."""
    tolerance: Annotated[float, Field(gt=0), NotBool] = 1e-4
    """Maximum difference between the fp32 logits of the exported model and of the training model, relative to the
    largest logit. The export fails above it."""


class PublishConfig(Section):
    """Publishing of the model and the logs: on the Hub if HF_ENDPOINT and a token (HF_TOKEN or `hf auth login`) are
    set, otherwise in a local folder."""

    hub: bool = True
    """Publish on the Hub if HF_ENDPOINT and a token are set. If false, always publish to the local folder."""
    owner: Name | None = None
    """Namespace (user or organisation) on the Hub. Default (null): the token's user."""
    model_repository: Name | None = None
    """Name of the model's repository. Default (null): the exported model's name."""
    logs_repository: Name | None = None
    """Name of the repository of the logs. Default (null): `<model>-logs`."""
    private: bool = True
    """Create the repositories as private. Existing repositories keep their visibility."""
    sync_minutes: Annotated[float, Field(gt=0, le=1440), NotBool] = 5.0
    """Minutes between two pushes of the logs while the workflow runs. The Hub allows about 100 commits per hour."""
