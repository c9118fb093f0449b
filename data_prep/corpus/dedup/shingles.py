"""Shingles of the documents that have near candidates, in a temporary file, and the Jaccard similarity of pairs."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bloomery.base.atomic import explained
from bloomery.config.stages import DedupStage
from data_prep.corpus import _text
from data_prep.corpus.catalogue import Catalogue, Nodes
from data_prep.corpus.columns import flags_of, text_buffers


class ShingleStore:
    """Sorted shingle hashes of documents; 8 bytes a shingle on disk, mapped, so memory is what the system spares."""

    def __init__(self, stage: DedupStage, catalogue: Catalogue, nodes: Nodes, folder: Path) -> None:
        """Read the texts of sorted `nodes` once. The temporary file lies in `folder` and has no name."""
        near = stage.dedup.near
        bounds = [np.zeros(1, np.int64)]
        total = 0
        with explained(folder), tempfile.TemporaryFile(dir=folder) as file:
            for batch in catalogue.texts(nodes):
                data, offsets = text_buffers(batch["text"])
                unspaced = flags_of(batch["language"], stage.unspaced)
                values, cuts = _text.shingles(data, offsets, unspaced, near.word_ngram, near.character_ngram)
                file.write(values.tobytes())
                bounds.append(cuts[1:] + total)
                total += len(values)
            file.flush()
            self._values: npt.NDArray[np.uint64] = (
                np.memmap(file, dtype=np.uint64, mode="r", shape=(total,)) if total else np.empty(0, np.uint64)
            )
        self._nodes = nodes
        self._bounds = np.concatenate(bounds)

    def jaccard(self, first: Nodes, second: Nodes) -> npt.NDArray[np.float64]:
        """Similarity of each pair: shared shingles over all shingles of the two."""
        left, right = np.searchsorted(self._nodes, first), np.searchsorted(self._nodes, second)
        result = np.empty(len(first))
        for i, (a, b) in enumerate(zip(left.tolist(), right.tolist(), strict=True)):
            one = self._values[self._bounds[a] : self._bounds[a + 1]]
            two = self._values[self._bounds[b] : self._bounds[b + 1]]
            shared = len(np.intersect1d(one, two, assume_unique=True))
            result[i] = shared / (len(one) + len(two) - shared)
        return result
