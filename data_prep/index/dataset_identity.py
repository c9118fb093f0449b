"""The identity of a dataset's samples. A training can resume on a rebuilt index only if the identities are equal."""

from __future__ import annotations

from collections.abc import Iterable

from bloomery.base.digest import digest_json
from bloomery.config.stages import IndexStage


def dataset_identity(name: str, stage: IndexStage, files: Iterable[tuple[str, str, str]], samples: int) -> str:
    """Return the digest of everything that decides the sequence of a dataset's samples.

    Args:
        name: name of the dataset, which seeds its random numbers.
        stage: settings of the index stage. Seed, sequence length, validation share and order count; the weights and
            the numbers of samples do not.
        files: digests of `.bin`, `.idx` and sidecar of the token files that hold the dataset's documents, in order.
            Other token files of the index do not count.
        samples: number of samples taken of the dataset. It counts only in order `megatron`, where it changes the
            sequence.
    """
    decides = stage.model_dump(mode="json", exclude={"train_samples", "validation_samples", "blend"})
    number = samples if stage.order == "megatron" else None
    return digest_json({"name": name, "stage": decides, "files": [list(own) for own in files], "samples": number})
