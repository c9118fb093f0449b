"""The configuration of the last stages of a run: export of the model, and publishing of the model and the logs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from bloomery.config.section import Name, NotBool, Section


class ExportConfig(Section):
    """Export of a checkpoint as a transformers model folder."""

    enabled: bool = True
    """If true, the run exports and publishes its model. If false, the run ends after its training, and only the logs
    are published. Networks that no class of transformers computes exactly, such as those with `activation: swiglu`,
    need false."""
    model_name: Name | None = None
    """Name of the exported model's folder. Default (null): the run's name."""
    dtype: Literal["bfloat16", "float16", "float32"] | None = None
    """Data type of the exported weights. Default (null): the data type of the trained weights (bfloat16, float16 or
    float32, depending on `training.precision`). `float32` exports the fp32 master weights of the optimizer, whose
    rounded values are the trained weights. Any other type rounds the weights: the exported model then does not
    reproduce the logits of the training and fails the parity check."""
    vocabulary: Literal["keep", "trim"] = "keep"
    """Rows of the embedding matrix that are exported. `keep`: all rows, including the rows added as padding, as in
    BLOOM's published models, but without `model.masked_rows`. `trim`: only the rows that belong to tokens of the
    tokenizer."""
    tolerance: Annotated[float, Field(gt=0), NotBool] = 1e-4
    """Maximum difference between the fp32 logits of the exported model and of the training model, relative to the
    largest logit. If the difference is larger, the export fails."""


class PublishConfig(Section):
    """Publishing of the model and the logs. They are published on the Hugging Face Hub if HF_ENDPOINT and a token
    (HF_TOKEN or `hf auth login`) are set, otherwise in a local folder."""

    hub: bool = True
    """If true, publish on the Hugging Face Hub if the environment variable HF_ENDPOINT and a token of the Hub are set,
    otherwise to the local folder `runs/<name>/published/`. If false, always publish to the local folder."""
    owner: Name | None = None
    """User or organisation on the Hub that owns the published repositories. Default (null): the user to whom the
    token of the Hub belongs."""
    model_repository: Name | None = None
    """Name of the Hub repository for the exported model. Default (null): the exported model's name."""
    logs_repository: Name | None = None
    """Name of the Hub repository for the logs. Default (null): the exported model's name, followed by `-logs`."""
    private: bool = True
    """If true, the Hub repositories are created as private. Existing repositories keep their visibility."""
    sync_minutes: Annotated[float, Field(gt=0, le=1440), NotBool] = 5.0
    """Minutes between two uploads of the logs while the workflow runs. Each upload makes at least one commit, and
    the Hub allows about 100 commits per hour."""
