"""Compare the results that ranks computed from the same micro-batch, and decide which ranks computed wrongly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bloomery.config.training import ParallelConfig
from bloomery.spec.layout import RankCoordinates, rank_of

_NAMED = 4
"""Maximum number of results that a message names."""

Kind = Literal["unstable", "odd", "unclear"]
"""`unstable`: the rank computed two different results. `odd`: most replicas agree on another result. `unclear`: the
replicas disagree, each repeats its own result, and no result has a majority."""


@dataclass(frozen=True)
class Result:
    """A result of a computation, such as a gradient."""

    step: int
    """Number of the step that computed the result. All ranks number the steps in the order of computation."""
    name: str


@dataclass(frozen=True)
class Computation:
    """Results that one rank computed twice from the same micro-batch."""

    node: str
    """Name of the rank's node."""
    results: list[Result]
    """The results in the order in which they were computed."""
    first: list[int]
    """Fingerprints of the first computation."""
    second: list[int]
    """Fingerprints of the second computation."""


@dataclass(frozen=True)
class Difference:
    """The earliest results that differ."""

    kind: Kind
    ranks: list[int]
    """Ranks that computed wrongly, or that may have computed wrongly if `kind` is `unclear`."""
    nodes: list[str]
    """Names of the nodes of `ranks`."""
    names: list[str]
    """Names of the results that differ."""
    replicas: int
    """Number of replicas of the training."""
    everywhere: bool
    """Whether every replica computed two different results."""

    @property
    def message(self) -> str:
        """Description for a person, with ranks, nodes and results."""
        who = _joined([f"rank {rank} on node {node}" for rank, node in zip(self.ranks, self.nodes, strict=True)])
        more = f" and {len(self.names) - _NAMED} more" if len(self.names) > _NAMED else ""
        what = ", ".join(self.names[:_NAMED]) + more
        if self.kind == "unstable":
            said = f"{who} computed {what} twice from the same samples and weights, with different results"
            if self.everywhere:
                said += (
                    f"; {'every replica' if self.replicas > 1 else 'the only replica'} did so, so the cause may also "
                    "be kernels that are not deterministic"
                )
        elif self.kind == "odd":
            said = f"{who} computed {what} differently from most replicas, from the same samples and weights"
        else:
            said = (
                f"{who} computed {what} from the same samples and weights, with different results; each repeats its "
                "own result, so one of them is wrong, but it is unknown which"
            )
        return said


def first_difference(parallel: ParallelConfig, computations: Sequence[Computation]) -> Difference | None:
    """Return the earliest difference in the order of computation. Return None if all results are equal.

    Args:
        parallel: layout of the ranks.
        computations: computation of each rank, in the order of the ranks. Ranks that differ only in their replica
            must list the same results.
    """
    found: dict[int, list[tuple[Kind, list[int], str, bool]]] = {}
    for pipeline in range(parallel.pipeline):
        for tensor in range(parallel.tensor):
            ranks = [rank_of(parallel, RankCoordinates(pipeline, data, tensor)) for data in range(parallel.data)]
            for number, result in enumerate(computations[ranks[0]].results):
                values = {rank: (computations[rank].first[number], computations[rank].second[number]) for rank in ranks}
                if judged := _judge(values):
                    kind, wrong = judged
                    found.setdefault(result.step, []).append((kind, wrong, result.name, len(wrong) == len(ranks)))
    if not found:
        return None
    earliest = found[min(found)]
    # Ranks that cannot repeat a result are at fault, even if other results of this step are unclear.
    kinds: tuple[Kind, ...] = ("unstable", "odd", "unclear")
    kind = next(kind for kind in kinds if any(each[0] == kind for each in earliest))
    chosen = [each for each in earliest if each[0] == kind]
    ranks = sorted({rank for _, wrong, _, _ in chosen for rank in wrong})
    return Difference(
        kind=kind,
        ranks=ranks,
        nodes=[computations[rank].node for rank in ranks],
        names=list(dict.fromkeys(name for _, _, name, _ in chosen)),
        replicas=parallel.data,
        everywhere=kind == "unstable" and all(everywhere for *_, everywhere in chosen),
    )


def _judge(values: dict[int, tuple[int, int]]) -> tuple[Kind, list[int]] | None:
    """Judge the two fingerprints that each replica's rank computed of one result.

    Return the kind of the difference and the ranks that are or may be at fault. Return None if all results are equal.
    """
    if unstable := [rank for rank, (first, second) in values.items() if first != second]:
        return "unstable", unstable
    usual, count = Counter(first for first, _ in values.values()).most_common(1)[0]
    if count == len(values):
        return None
    if 2 * count > len(values):
        return "odd", [rank for rank, (first, _) in values.items() if first != usual]
    return "unclear", list(values)


def _joined(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
