"""Test the masks of dropout: their definition, their independence, their slices, and where they are applied."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from dropout_masks import ATTENTION, factors, key_of, random_numbers
from fabricated_training import stage

from bloomery.config.stages import TrainStage
from bloomery.config.training import DropoutConfig
from training.model import dropout
from training.model.dropout import DropoutNumbers, Place, drop, threshold

CPU = torch.device("cpu")
RATE = 0.1


def _numbers(iteration: int = 3, samples: tuple[int, ...] = (5, 2**40), layer: int = 4, seed: int = 7) -> torch.Tensor:
    holder = DropoutNumbers(DropoutConfig(hidden=RATE), CPU)
    with holder.step(seed, iteration, [samples]):
        holder.next_micro_batch()
        found = holder.of_layer(layer)
    assert found is not None
    return found


def _kept(place: Place = Place.AFTER_ATTENTION, count: int = 4096, **changes: int) -> torch.Tensor:
    return drop(torch.ones(2, count), _numbers(**changes), place, threshold(RATE)) > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("first", "count"), [(0, 1), (0, 128), (5, 700), (127, 130), (256, 128), (2**36 + 9, 333)])
def test_the_kernel_and_the_operations_follow_the_definition(dtype: torch.dtype, first: int, count: int) -> None:
    numbers, x = _numbers()[Place.ATTENTION], torch.randn(2, count, dtype=torch.float32).to(dtype)
    limit = threshold(RATE)
    scale = 65536 / (65536 - limit)
    by_kernel = dropout._by_kernel(x, numbers, limit, first)
    for row, sample in enumerate((5, 2**40)):
        random = random_numbers(key_of(7, 3), sample + (8 * 4 + ATTENTION) * 2**44, first, count)
        factor = torch.where(torch.from_numpy(random) < limit, 0.0, torch.tensor(scale, dtype=torch.float32))
        assert torch.equal(by_kernel[row], (x[row].float() * factor).to(dtype))
    assert torch.equal(by_kernel, dropout._by_operations(x, numbers, limit, first))


@pytest.mark.slow
def test_the_compiled_operations_drop_the_same_elements_and_are_not_compiled_for_every_shape() -> None:
    """A GPU uses these operations, compiled: for activations and attention weights of every length and batch size."""
    from torch._dynamo import config

    compiled = dropout._compiled()
    with config.patch(recompile_limit=6, fail_on_recompile_limit_hit=True):
        for batch, shape, first, limit in itertools.product(
            (1, 2), ((16, 8), (24, 8), (32, 8), (2, 16, 16), (2, 24, 24)), (0, 770), (6554, 13107)
        ):
            x = torch.randn(batch, *shape, requires_grad=True)
            numbers = _numbers()[Place.ATTENTION][:batch]
            rows = x.detach().flatten(1)
            assert torch.equal(compiled(rows, numbers, limit, first), dropout._by_kernel(rows, numbers, limit, first))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_kernel_drops_the_same_elements_below_the_diagonal_of_causal_weights(dtype: torch.dtype) -> None:
    numbers, x = _numbers()[Place.ATTENTION], torch.randn(2, 3 * 70 * 70).to(dtype)
    below = torch.ones(70, 70, dtype=torch.bool).tril().expand(3, -1, -1).flatten()
    first = 5 * 70 * 70
    whole, causal = (dropout._by_kernel(x, numbers, threshold(RATE), first, length) for length in (0, 70))
    assert torch.equal(causal, whole.masked_fill(~below, 0.0))
    for wrong in (71, 70 * 70 * 2):
        with pytest.raises(ValueError, match="whole rows of square matrices"):
            dropout._by_kernel(x, numbers, threshold(RATE), first, wrong)


def test_special_values_are_kept_as_in_a_product() -> None:
    x = torch.tensor([[torch.inf, -torch.inf, torch.nan, 3e38, -0.0, 1e-45] * 100] * 2)
    numbers = _numbers()[Place.ATTENTION]
    for dtype in (torch.float32, torch.bfloat16):
        found = [each(x.to(dtype), numbers, 30_000, 0) for each in (dropout._by_kernel, dropout._by_operations)]
        torch.testing.assert_close(*found, rtol=0, atol=0, equal_nan=True)


def test_the_share_of_dropped_elements_is_the_probability_and_the_mean_stays() -> None:
    numbers, x = _numbers(), torch.ones(2, 500_000)
    for probability in (0.1, 0.5, 0.9):
        y = drop(x, numbers, Place.EMBEDDING, threshold(probability))
        # Five standard deviations of a share of a million elements.
        assert float((y == 0).double().mean()) == pytest.approx(probability, abs=5 * 0.5 / 1000)
        assert float(y.double().mean()) == pytest.approx(1.0, abs=5 * (probability / (1 - probability)) ** 0.5 / 1000)
    assert drop(x, numbers, Place.EMBEDDING, 0) is x
    assert drop(x, None, Place.EMBEDDING, 5) is x


def test_every_part_of_the_key_gives_another_mask() -> None:
    masks = [
        _kept(),
        _kept(iteration=4),
        _kept(seed=8),
        _kept(layer=5),
        _kept(Place.AFTER_FEED_FORWARD),
        _kept(samples=(6, 9)),  # type: ignore[arg-type]
    ]
    assert torch.equal(masks[0], _kept())
    rows = torch.stack(masks).flatten(0, 1).double()
    correlation = torch.corrcoef(rows) - torch.eye(len(rows))
    # The correlation of independent masks has the standard deviation 1 / sqrt(elements).
    assert float(correlation.abs().max()) < 5 / rows.size(1) ** 0.5


def test_a_part_of_a_sample_has_the_mask_of_the_whole() -> None:
    numbers, x = _numbers(), torch.randn(2, 8, 12, 12)
    whole = drop(x, numbers, Place.ATTENTION, threshold(RATE))
    for parts in (1, 2, 4, 8):
        size = 8 // parts
        pieces = [
            drop(part, numbers, Place.ATTENTION, threshold(RATE), number * size * 144)
            for number, part in enumerate(x.split(size, dim=1))
        ]
        assert torch.equal(torch.cat(pieces, dim=1), whole)


def test_the_gradient_has_the_mask_of_the_activation() -> None:
    x = torch.randn(2, 40, 8).transpose(1, 2).requires_grad_()
    y = drop(x, _numbers(), Place.ATTENTION, threshold(RATE))
    gradient = torch.randn(2, 8, 40)
    y.backward(gradient)
    for row, sample in enumerate((5, 2**40)):
        factor = torch.from_numpy(factors(7, 3, sample, 4, ATTENTION, (8, 40), RATE))
        torch.testing.assert_close(y[row].double(), x[row].double() * factor, rtol=1e-6, atol=0)
        assert x.grad is not None
        torch.testing.assert_close(x.grad[row].double(), gradient[row].double() * factor, rtol=1e-6, atol=0)


def test_nothing_is_dropped_outside_of_a_training_step() -> None:
    holder = DropoutNumbers(DropoutConfig(hidden=RATE), CPU)
    with holder.step(1, 1, [[1], [2]]):
        assert holder.of_layer(0) is None
        holder.next_micro_batch()
        first = holder.of_layer(0)
        holder.next_micro_batch()
        second = holder.of_layer(0)
        assert first is not None
        assert second is not None
        assert not torch.equal(first, second)
    assert holder.of_layer(0) is None
    with pytest.raises(AssertionError, match="a training step with dropout needs the context"):
        holder.next_micro_batch()


def test_without_dropout_no_numbers_are_made() -> None:
    holder = DropoutNumbers(DropoutConfig(), CPU)
    holder.next_micro_batch()
    assert holder.of_layer(0) is None


def test_a_block_computes_the_same_with_and_without_recomputation(mesh: Any) -> None:
    """A recomputation of an earlier micro-batch must not use the numbers of the newest one."""
    from training.model.block import TransformerBlock
    from training.model.kernels import kernels_here

    found = []
    for what in ("none", "selective", "full"):
        raw = stage(precision="fp32").model_dump(mode="json")
        raw["training"] |= {"activation_checkpointing": what, "dropout": {"attention": RATE, "hidden": RATE}}
        run = TrainStage.model_validate(raw)
        holder = DropoutNumbers(run.training.dropout, CPU)
        block = TransformerBlock(mesh, run.model, run.training, kernels_here(run.model, run.training, CPU), 2, holder)
        random = torch.Generator().manual_seed(4)
        with torch.no_grad():
            for parameter in block.parameters():
                parameter.normal_(0.0, 0.2, generator=random)
        x = torch.randn(2, 32, 32, generator=random).requires_grad_()
        with holder.step(1, 1, [[1, 2], [3, 4]]):
            holder.next_micro_batch()
            first = block(x)
            holder.next_micro_batch()
            second = block(x)
            (first.square().sum() + 2 * second.square().sum()).backward()
        assert not torch.equal(first, second)
        found.append([first, second, x.grad, *(parameter.grad for parameter in block.parameters())])
    for other in found[1:]:
        assert all(torch.equal(one, two) for one, two in zip(found[0], other, strict=True))
