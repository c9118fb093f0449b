"""The identity of a dataset's samples. A training can resume on a rebuilt index only if the identities are equal."""

from __future__ import annotations

from collections.abc import Iterable

from bloomery.base.digest import digest_json
from bloomery.config.stages import IndexStage


def dataset_identity(name: str, stage: IndexStage, files: Iterable[tuple[str, str, str]], samples: int) -> str:
    """Return the digest of everything that decides the sequence of a dataset's samples.

    Args:
        name: name of the dataset, which seeds its random numbers.
        stage: settings of the index stage. The digest depends on seed, sequence length, validation share and order,
            but not on the weights or on the numbers of samples.
        files: digests of `.bin`, `.idx` and sidecar of the token files that hold the dataset's documents, in order.
            The digest does not depend on other token files of the index.
        samples: number of samples that the training reads of the dataset. It is part of the digest only in order
            `megatron`, where it changes the sequence.
    """
    decides = stage.model_dump(mode="json", exclude={"train_samples", "validation_samples", "blend"})
    number = samples if stage.order == "megatron" else None
    return digest_json({"name": name, "stage": decides, "files": [list(own) for own in files], "samples": number})
