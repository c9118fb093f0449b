"""What a dataset's samples follow from: a training goes on over a rebuilt index only where this is the same."""

from __future__ import annotations

from collections.abc import Iterable

from bloomery.base.digest import digest_json
from bloomery.config.stages import IndexStage


def dataset_identity(name: str, stage: IndexStage, files: Iterable[tuple[str, str, str]], samples: int) -> str:
    """Digest of what decides the sequence of a dataset's samples, however many of them are taken.

    Args:
        name: of the dataset, which keys its random numbers.
        stage: its seed, sequence length, share held out and order; not its weights, nor the number of samples.
        files: digests of `.bin`, `.idx` and sidecar of the token files that hold its documents, in order. Other files
            may come and go.
        samples: taken of it. Megatron's order alone is another one for another number.
    """
    decides = stage.model_dump(mode="json", exclude={"train_samples", "validation_samples", "blend"})
    number = samples if stage.order == "megatron" else None
    return digest_json({"name": name, "stage": decides, "files": [list(own) for own in files], "samples": number})
