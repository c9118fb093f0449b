"""Compare LAMB with a transcription of the published formulas, on tensors that are cut at any element."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from lamb_reference import Reference

from bloomery.config.training import ResolvedOptimizer
from bloomery.spec.placement import Initializer, Parameter, Placement
from training.optim.apex_lamb import ApexLamb
from training.optim.lamb import PREVIOUS_SUMS, Lamb
from training.optim.lamb_passes import Mean
from training.optim.segment_map import Segment, SegmentMap

SHAPES = {"wide": (40, 33), "zero": (17,), "deep": (7, 5, 3), "bias": (29,)}
"""Parameters. `zero` and `bias` have no weight decay, and `zero` starts at 0."""
DIALECTS: list[dict[str, Any]] = [
    {"dialect": "apex"},
    {"dialect": "apex", "use_nvlamb": True},
    {"dialect": "floor"},
    {"dialect": "innovation"},
    {"dialect": "embedding_gain", "alpha": 0.7},
]
DECAY, RATE, STEPS = 0.01, 0.02, 10


def _config(lamb: dict[str, Any]) -> ResolvedOptimizer:
    return ResolvedOptimizer(
        kind="lamb",
        learning_rate=RATE,
        beta2=0.999,
        epsilon=1e-6,
        weight_decay=DECAY,
        lamb=lamb,  # type: ignore[arg-type]
    )


def _parameters() -> list[Parameter]:
    return [
        Parameter(name, shape, Placement.REPLICATED, 0, name, Initializer.NORMAL, name in ("wide", "deep"))
        for name, shape in SHAPES.items()
    ]


def _whole_map() -> SegmentMap:
    """Return the map of one rank: a group with weight decay and a group without, with padding at the end."""
    parameters, groups = _parameters(), []
    for decays in (True, False):
        first, group = 0, []
        for number, parameter in enumerate(parameters):
            if parameter.decays == decays:
                group.append(Segment(number, first, parameter.count, is_owned=True))
                first += parameter.count
        groups.append(group)
    return SegmentMap(parameters, groups, 0, 1)


def _start(dtype: torch.dtype) -> dict[str, torch.Tensor]:
    random = torch.Generator().manual_seed(1)
    return {
        name: torch.zeros(shape, dtype=dtype) if name == "zero" else torch.randn(shape, generator=random).to(dtype)
        for name, shape in SHAPES.items()
    }


def _flat(values: dict[str, torch.Tensor], where: SegmentMap, group: int) -> torch.Tensor:
    parts = [values[where.parameters[each.parameter].name].flatten() for each in where.groups[group]]
    return torch.cat([*parts, torch.zeros(3)]).float()


def _groups(where: SegmentMap, start: dict[str, torch.Tensor]) -> list[dict[str, Any]]:
    return [
        {"params": [torch.nn.Parameter(_flat(start, where, number))], "weight_decay": decay}
        for number, decay in enumerate((DECAY, 0.0))
    ]


def _built(lamb: dict[str, Any], where: SegmentMap, start: dict[str, torch.Tensor]) -> Lamb:
    return Lamb(_groups(where, start), _config(lamb), where)


def _gradients(step: int) -> dict[str, torch.Tensor]:
    random = torch.Generator().manual_seed(100 + step)
    return {name: torch.randn(shape, generator=random) for name, shape in SHAPES.items()}


def _set_gradients(optimizer: torch.optim.Optimizer, where: SegmentMap, gradients: dict[str, torch.Tensor]) -> None:
    for number, group in enumerate(optimizer.param_groups):
        group["params"][0].grad = _flat(gradients, where, number)


def _weights(optimizer: torch.optim.Optimizer, where: SegmentMap) -> dict[str, torch.Tensor]:
    found = {}
    for group, segments in zip(optimizer.param_groups, where.groups, strict=True):
        flat = group["params"][0].detach()
        for each in segments:
            parameter = where.parameters[each.parameter]
            found[parameter.name] = flat[each.first : each.first + each.count].view(parameter.shape).clone()
    return found


def _reference(lamb: dict[str, Any], dtype: torch.dtype = torch.float32) -> Reference:
    decays = {parameter.name: DECAY if parameter.decays else 0.0 for parameter in _parameters()}
    return Reference(_start(dtype), decays, **lamb)


@pytest.mark.parametrize("lamb", DIALECTS, ids=lambda lamb: "-".join(map(str, lamb.values())))
def test_ten_steps_equal_the_published_formulas(mesh: Any, lamb: dict[str, Any]) -> None:
    """Zero-initialised tensors and tensors without weight decay are included. The ratios are equal, too."""
    where, reference = _whole_map(), _reference(lamb)
    optimizer = _built(lamb, where, _start(torch.float32))
    for step in range(STEPS):
        gradients = _gradients(step)
        _set_gradients(optimizer, where, gradients)
        optimizer.step()
        reference.step(gradients, RATE)
        ratios = optimizer.trust_ratios()
        assert ratios is not None
        assert ratios == pytest.approx([reference.ratios[name] for name in SHAPES], rel=1e-5)
    for name, found in _weights(optimizer, where).items():
        torch.testing.assert_close(found, reference.weights[name], rtol=0, atol=1e-6)
        assert not torch.equal(found, _start(torch.float32)[name])
    for group in optimizer.param_groups:
        assert torch.equal(group["params"][0].detach()[-3:], torch.zeros(3)), "the padding changed"


def test_the_kernel_and_torch_make_the_same_update(mesh: Any) -> None:
    """GPUs use torch's operations. The result does not depend on the number of threads."""
    where = _whole_map()
    results = []
    for threads, by_torch in ((1, False), (2, False), (1, True)):
        optimizer = _built({"dialect": "floor"}, where, _start(torch.float32))
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            if by_torch:
                optimizer._passes = Mean(_config({"dialect": "floor"}))
            for step in range(STEPS):
                _set_gradients(optimizer, where, _gradients(step))
                optimizer.step()
        finally:
            torch.set_num_threads(before)
        results.append(_weights(optimizer, where))
    for name, one in results[0].items():
        assert torch.equal(one, results[1][name])
        torch.testing.assert_close(one, results[2][name], rtol=0, atol=1e-6)


def test_scaling_the_weights_scales_the_step(mesh: Any) -> None:
    """Without weight decay, the update does not depend on the weights, and the trust ratio is proportional to them."""
    where, steps = _whole_map(), []
    for factor in (1.0, 64.0):
        start = {name: factor * value for name, value in _start(torch.float32).items()}
        optimizer = _built({"use_nvlamb": True}, where, start)
        for group in optimizer.param_groups:
            group["weight_decay"] = 0.0
        _set_gradients(optimizer, where, _gradients(0))
        optimizer.step()
        steps.append({name: value - start[name] for name, value in _weights(optimizer, where).items()})
    for name in ("wide", "deep", "bias"):
        # The difference of fp32 weights has the rounding of the weights.
        torch.testing.assert_close(64.0 * steps[0][name], steps[1][name], rtol=1e-4, atol=1e-4)


def test_calls_for_single_groups_make_the_step_of_one_call(mesh: Any) -> None:
    """DeepSpeed's wrapper for fp16 and fp32 calls `step` for one group at a time."""
    where, found, copied = _whole_map(), [], []
    for separately in (False, True):
        optimizer = _built({}, where, _start(torch.float32))
        optimizer.copy_weights = copied.append
        for step in range(3):
            gradients = _gradients(step)
            if not separately:
                _set_gradients(optimizer, where, gradients)
                optimizer.step()
                continue
            groups = optimizer.param_groups
            for number, group in enumerate(groups):
                optimizer.param_groups = [group]
                group["params"][0].grad = _flat(gradients, where, number)
                optimizer.step()
                group["params"][0].grad = None
            optimizer.param_groups = groups
        found.append(_weights(optimizer, where))
    assert all(torch.equal(found[0][name], found[1][name]) for name in SHAPES)
    assert copied == [[0], [0], [0]]


@pytest.mark.usefixtures("apex")
@pytest.mark.parametrize("use_nvlamb", [False, True])
def test_apex_makes_the_same_update_and_goes_on_with_our_state(mesh: Any, use_nvlamb: bool) -> None:
    """apex's kernels need a GPU, so a substitute with its interface makes the second half of the updates."""
    where, lamb = _whole_map(), {"use_nvlamb": use_nvlamb}
    ours = _built(lamb, where, _start(torch.float32))
    mixed: torch.optim.Optimizer = _built(lamb, where, _start(torch.float32))
    for step in range(STEPS):
        if step == STEPS // 2:
            before, mixed = mixed, ApexLamb(_groups(where, _weights(mixed, where)), _config(lamb), where)
            for old, new in zip(before.param_groups, mixed.param_groups, strict=True):
                mixed.state[new["params"][0]].update(before.state[old["params"][0]])
        for optimizer in (ours, mixed):
            _set_gradients(optimizer, where, _gradients(step))
            optimizer.step()
    for name, found in _weights(mixed, where).items():
        torch.testing.assert_close(found, _weights(ours, where)[name], rtol=0, atol=1e-6)


def test_a_step_makes_one_all_reduce(mesh: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sums of all parameters and groups are added together."""
    where, sizes = _whole_map(), []
    all_reduce = torch.distributed.all_reduce

    def counted(tensor: torch.Tensor, *arguments: Any, **options: Any) -> Any:
        sizes.append(tensor.numel())
        return all_reduce(tensor, *arguments, **options)

    monkeypatch.setattr(torch.distributed, "all_reduce", counted)
    for lamb in ({}, {"norms": "stale"}, {"dialect": "innovation"}):
        optimizer = _built(lamb, where, _start(torch.float32))
        for step in range(3):
            _set_gradients(optimizer, where, _gradients(step))
            optimizer.step()
    assert sizes == [2 * len(SHAPES)] * 6 + [3 * len(SHAPES)] * 3


@pytest.mark.parametrize("norms", ["stale", "stale_weights"])
def test_stale_norms_are_those_of_the_previous_step(mesh: Any, norms: str) -> None:
    """The first step has no previous one, so it uses its own norms."""
    where = _whole_map()
    optimizer = _built({"dialect": "floor", "norms": norms}, where, _start(torch.float32))
    counts = torch.tensor([parameter.count for parameter in where.parameters], dtype=torch.float64)
    sums: list[torch.Tensor] = []
    for step in range(4):
        before = _weights(optimizer, where)
        _set_gradients(optimizer, where, _gradients(step))
        optimizer.step()
        moments = _moments(optimizer, where)
        sums.append(_squares(before, moments, step + 1))
        used = sums[max(0, step - 1)] if norms == "stale" or step == 0 else sums[step - 1].clone()
        if norms == "stale_weights":
            used[:, 1] = sums[step][:, 1]
        right = torch.maximum(used[:, 0].sqrt(), 1e-5 * counts) / used[:, 1].sqrt()
        found = torch.tensor(optimizer.trust_ratios(), dtype=torch.float64)
        torch.testing.assert_close(found, right, rtol=1e-5, atol=0)


def _moments(optimizer: Lamb, where: SegmentMap) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    found = {}
    for group, segments in zip(optimizer.param_groups, where.groups, strict=True):
        state = optimizer.state[group["params"][0]]
        for each in segments:
            mean, square = (state[kind].narrow(0, each.first, each.count) for kind in ("exp_avg", "exp_avg_sq"))
            found[where.parameters[each.parameter].name] = mean, square
    return found


def _squares(
    weights: dict[str, torch.Tensor], moments: dict[str, tuple[torch.Tensor, torch.Tensor]], steps: int
) -> torch.Tensor:
    """Return the sums of squares of weights and updates, [parameters, 2]."""
    rows = []
    for parameter in _parameters():
        weight = weights[parameter.name].flatten().double()
        mean, square = (each.double() for each in moments[parameter.name])
        update = mean / (1 - 0.9**steps) / ((square / (1 - 0.999**steps)).sqrt() + 1e-6)
        update += (DECAY if parameter.decays else 0.0) * weight
        rows.append(torch.stack((weight.square().sum(), update.square().sum())))
    return torch.stack(rows)


def test_stale_sums_survive_a_save(mesh: Any) -> None:
    where = _whole_map()
    one, two = (_built({"norms": "stale", "use_nvlamb": True}, where, _start(torch.float32)) for _ in range(2))
    for step in range(4):
        if step == 2:
            one.save_sums()
            saved = one.param_groups[1][PREVIOUS_SUMS]
            for group, other in zip(one.param_groups, two.param_groups, strict=True):
                flat, target = group["params"][0], other["params"][0]
                target.data.copy_(flat.data)
                two.state[target].update({key: value.clone() for key, value in one.state[flat].items()})
            two.load_sums(saved)
        for optimizer in (one, two)[: 1 + (step >= 2)]:
            _set_gradients(optimizer, where, _gradients(step))
            optimizer.step()
    assert one.trust_ratios() == two.trust_ratios()
    assert all(torch.equal(value, _weights(two, where)[name]) for name, value in _weights(one, where).items())
