"""Assumptions of a plan: the machine, its speed and its failures. No stage reads them, so changing them reruns nothing.

If a value is null, the plan either estimates it or leaves out the results that need it, and states which it did.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from bloomery.base.units import Bytes
from bloomery.config.section import Name, NotBool, Positive, Section

_AtLeastZero = Annotated[float, Field(ge=0), NotBool]


def _no_dust(value: float) -> float:
    if value < 1e-100:  # a rate computed from a smaller value would overflow
        raise ValueError("a number of at least 10^-100")
    return value


_AboveZero = Annotated[float, Field(gt=0), AfterValidator(_no_dust), NotBool]


class FaultsConfig(Section):
    """Interruptions of a training, from which the plan and `bloomery plan simulate` compute the time that is lost."""

    days_between_failures: _AboveZero | None = None
    """Mean time between two failures that interrupt the training, in days, counted over all nodes of the training
    together. Default (null): the plan assumes no failures."""
    restart_minutes: _AtLeastZero = 15.0
    """Time from a failure, or from the start of a job, to the first new iteration, in minutes. It includes the
    detection of the failure, the start of the processes and the loading of the checkpoint."""
    days_between_maintenances: _AboveZero | None = None
    """Mean time between two maintenance periods of the cluster, in days. Default (null): the plan assumes no
    maintenance."""
    maintenance_hours: _AtLeastZero = 12.0
    """Mean duration of a maintenance period of the cluster, in hours."""
    queue_hours: _AtLeastZero = 0.0
    """Mean time that a training job waits in the queue, in hours. Use 0 if the nodes are reserved for the training."""
    job_hours: _AboveZero | None = None
    """Time limit of one training job, in hours. Default (null): no limit."""


class PlanConfig(Section):
    """Assumptions of `bloomery plan`. No stage of the workflow reads them."""

    gpu: Annotated[Name | None, Field(examples=["a100-80gb"])] = None
    """Type of the GPUs, such as `a100-80gb`. `bloomery plan gpus` lists the known names. Default (null): unknown type;
    the plan then computes times only if `tflops_hardware` is set."""
    gpus_per_node: Positive = 8
    """Number of GPUs in each node."""
    network_gb_per_second: _AboveZero | None = None
    """Network bandwidth from one GPU to other nodes, in GB (10^9 bytes) per second. Default (null): the value that
    `bloomery/spec/data/gpus.toml` assumes for this type of GPU."""
    tflops_hardware: _AboveZero | None = None
    """Speed of one GPU at the full global batch size, in TFLOP/s, including the operations of recomputed activations.
    Default (null): an estimate for the type of GPU."""
    save_seconds: _AtLeastZero | None = None
    """Time for which the training waits at each save, in seconds, including the time to compute the checkpoint's
    reference logits. Default (null): the checkpoint's size divided by `write_gb_per_second`, plus the estimated time of
    the reference logits if the type of GPU is known."""
    write_gb_per_second: _AboveZero | None = None
    """Rate at which all nodes together write a checkpoint, in GB (10^9 bytes) per second. It is used only if
    `save_seconds` is null; if both are null, the plan counts no time for saves."""
    validation_seconds: _AtLeastZero = 0.0
    """Time of one validation over all validation sets, in seconds."""
    disk: Bytes | None = None
    """Disk space that the run may use. A configuration whose run would need more is rejected before anything starts.
    Default (null): the disk space is not checked."""
    corpus_tokens: Annotated[Positive | None, Field(examples=[3500000000])] = None
    """Estimated number of tokens of the corpus. The plan computes the size of the token index from it, and, if
    `training.train_epochs` is set, the length of the training. `bloomery config check --data` prints an estimate.
    Default (null): the plan assumes that the training reads every token once. To plan a training with
    `training.train_epochs`, set this key."""
    corpus_documents: Annotated[Positive | None, Field(examples=[5000000])] = None
    """Estimated number of documents of the corpus, for the size of the token index. `bloomery config check --data`
    prints an estimate. Default (null): one document for every 683 tokens, as in BLOOM's corpus."""
    corpus_languages: Annotated[Annotated[int, Field(gt=0, le=8000), NotBool] | None, Field(examples=[24])] = None
    """Number of languages of the corpus, for the size of the token index and of the logs, because each language has
    its own arrays and its own validation set. Default (null): the languages that `sources` and
    `corpus.mixture.weights` name, and at least 41 if a source `udhr` names no languages."""
    grid: Annotated[Name | None, Field(examples=["france"])] = None
    """Electricity grid, such as `france`, for the CO2 estimate. `bloomery plan grids` lists the known names. Default
    (null): no CO2 estimate."""
    watts_per_gpu: _AboveZero | None = None
    """Mean power of one GPU, in watts. Default (null): the GPU's thermal design power."""
    pue: Annotated[float, Field(ge=1.0), NotBool] = 1.2
    """Power usage effectiveness of the data centre: its total power divided by the power of its computers."""
    faults: FaultsConfig = FaultsConfig()
    """Interruptions of the training that the plan assumes."""
    assumed: Annotated[
        dict[str, str], Field(examples=[{"training.optimizer.epsilon": "the paper states no value"}])
    ] = {}
    """Keys of this configuration whose values the publications about the model do not state, each with the reason for
    the value that is assumed instead. The plan lists these keys."""
    notes: Annotated[list[str], Field(examples=[["The paper and the log differ in the warm-up."]])] = []
    """Notes that the plan prints for its readers, for example where publications about the model disagree."""
