"""Test that compiled blocks give the same results as uncompiled ones."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from fabricated_training import stage
from ranks import run_ranks

from bloomery.config.stages import TrainStage

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

ROWS = 256


def step(mesh: Any, run: TrainStage) -> tuple[float, list[torch.Tensor]]:
    """Return the loss and the gradients."""
    from training.model.initialize import initialize
    from training.model.pipeline import BloomPipeline

    network = BloomPipeline(mesh, run.model, run.training, ROWS)
    initialize(network, mesh, run.model, ROWS, seed=3)
    tokens = torch.randint(0, ROWS, (2, 33), generator=torch.Generator().manual_seed(0))
    with network.dropout.step(run.seed, 1, [range(len(tokens))]):
        x = network(tokens[:, :-1])
    loss = network.loss_fn(x, tokens[:, 1:])
    loss.backward()
    return loss.item(), [parameter.grad for parameter in network.parameters() if parameter.grad is not None]


def compiled_and_not(
    what: str,
    attention: str = "auto",
    model: dict[str, Any] | None = None,
    dropout: dict[str, float] | None = None,
    **parallel: Any,
) -> dict[str, int]:
    """Compare compiled and uncompiled blocks on this rank, and return the compiler's counters.

    Graphs are captured and differentiated, but not translated to C++. That step takes a minute and is torch's own code.
    """
    from functools import partial
    from unittest.mock import patch

    from torch._dynamo.utils import counters

    from training.parallel.mesh import build_mesh

    found, mesh = [], None
    for compile_blocks in (False, True):
        raw = stage(precision="fp32").model_dump(mode="json")
        raw["model"] |= {"heads": 4, "hidden_size": 48, "layers": 3} | (model or {})
        raw["training"]["parallel"] |= parallel
        raw["training"] |= {"activation_checkpointing": what, "kernels": {"compile": compile_blocks}}
        raw["training"]["dropout"] = dropout or {}
        raw["training"]["kernels"]["attention"] = attention
        run = TrainStage.model_validate(raw)
        mesh = mesh or build_mesh(run.training.parallel)
        with patch("torch.compile", partial(torch.compile, backend="aot_eager")):
            found.append(step(mesh, run))
    (loss, grads), (again, compiled) = found
    assert again == pytest.approx(loss, rel=1e-6)
    for one, other in zip(grads, compiled, strict=True):
        assert (one - other).norm() <= 1e-5 * max(1e-2, float(one.norm()))
    return dict(counters["stats"]) | {"breaks": sum(counters["graph_break"].values())}


def test_the_three_blocks_share_one_graph() -> None:
    (counts,) = run_ranks(compiled_and_not_alone, 1)
    assert (counts["unique_graphs"], counts["breaks"]) == (1, 0)


def test_blocks_with_dropout_share_one_graph_and_drop_the_same_elements() -> None:
    """The layer is a part of the random numbers' input, so it is not compiled into the graph."""
    (counts,) = run_ranks(compiled_with_dropout, 1)
    assert (counts["unique_graphs"], counts["breaks"]) == (1, 0)


@pytest.mark.parametrize("positions", ["alibi", "rotary"])
def test_flex_attention_is_part_of_the_graph(positions: str) -> None:
    """The mask, ALiBi's slopes and the rotations are constants of the block's graph, so they cause no graph break."""
    # The head size is the smallest that FlexAttention supports.
    model = {"positions": positions, "embedding_layernorm": positions == "alibi", "hidden_size": 64}
    (counts,) = run_ranks(compiled_flex, 1, model)
    assert counts["breaks"] == 0


def test_split_compiled_blocks_give_the_same_results() -> None:
    """Collectives break the graph, and the code between them is compiled."""
    for counts in run_ranks(compiled_and_not_split, 2, timeout=300):
        assert counts["unique_graphs"] > 1


def test_split_blocks_that_recompute_selectively_are_not_compiled() -> None:
    """A compiled graph reuses its buffers, so activations that are kept in them would be overwritten."""
    for counts in run_ranks(compiled_and_not_split_selective, 2):
        assert counts.get("unique_graphs", 0) == 0


def graphs_of_a_curriculum(lengths: range) -> int:
    """Return the number of graphs that are captured when a network gets each of the lengths."""
    from functools import partial
    from unittest.mock import patch

    from torch._dynamo.utils import counters

    from training.model.pipeline import BloomPipeline
    from training.parallel.mesh import build_mesh

    raw = stage(precision="fp32").model_dump(mode="json")
    raw["training"]["kernels"] = {"compile": True}
    raw["training"]["curriculum"] = {"start_length": lengths.start, "length_step": lengths.step, "samples": 64}
    run = TrainStage.model_validate(raw)
    with patch("torch.compile", partial(torch.compile, backend="eager")), torch.no_grad():
        network = BloomPipeline(build_mesh(run.training.parallel), run.model, run.training, ROWS)
        for length in lengths:
            x = torch.zeros(1, length, dtype=torch.int64)
            for function in network.forward_funcs:
                x = function(x)
    return int(counters["stats"]["unique_graphs"])


def test_every_length_of_a_curriculum_is_compiled() -> None:
    """By default, torch compiles only 8 lengths, and the full length would then run uncompiled until the end."""
    lengths = range(2, 24, 2)
    assert run_ranks(graphs_of_a_curriculum, 1, lengths) == [len(lengths)]


def compiled_flex(model: dict[str, Any]) -> dict[str, int]:
    from unittest.mock import patch

    from torch.nn.attention import flex_attention

    # On a CPU, torch refuses the backward pass of FlexAttention, and our kernel choice refuses FlexAttention. Both
    # checks are disabled here.
    with (
        patch.object(flex_attention, "_validate_device", lambda *tensors: None),
        patch("bloomery.spec.choose_kernels._flex_lacks", lambda *facts: None),
    ):
        return compiled_and_not("full", "flex", model)


def compiled_and_not_alone() -> dict[str, int]:
    return compiled_and_not("selective")


def compiled_with_dropout() -> dict[str, int]:
    return compiled_and_not("full", dropout={"attention": 0.2, "hidden": 0.1})


def compiled_and_not_split() -> dict[str, int]:
    return compiled_and_not("full", tensor=2, sequence_parallel=True)


def compiled_and_not_split_selective() -> dict[str, int]:
    return compiled_and_not("selective", tensor=2)
