"""Test that an engine is refused if DeepSpeed built it differently from the configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from fabricated_training import stage
from ranks import run_ranks

from bloomery.base.errors import CheckFailedError

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

ROWS = 64


def _as_it_is(_: Any) -> None:
    """Leave the optimizer or the engine unchanged."""


@dataclass(frozen=True)
class Case:
    """One engine and the beginning of its expected error."""

    precision: str
    refusal: str
    told: dict[str, Any] = field(default_factory=dict)
    """Keys of DeepSpeed's configuration whose values differ from ours."""
    handed: Callable[[Any], object] = _as_it_is
    """Function that changes the base optimizer before DeepSpeed gets it, or returns another one."""
    built: Callable[[Any], object] = _as_it_is
    """Function that changes DeepSpeed's engine into a state that no configuration causes."""


def _another_optimizer(optimizer: Any) -> Any:
    import torch

    return torch.optim.Adam(optimizer.param_groups, lr=0.01)


def _leave_a_parameter_out(optimizer: Any) -> None:
    optimizer.param_groups[0]["params"].pop()


def _leave_a_group_out(optimizer: Any) -> None:
    del optimizer.param_groups[1]


def _decay_what_does_not(optimizer: Any) -> None:
    optimizer.param_groups[1]["weight_decay"] = 0.25


def _exchange_parameters(optimizer: Any) -> None:
    """Exchange parameters between the groups with and without weight decay."""
    decays, rest = (group["params"] for group in optimizer.param_groups)
    decays[0], rest[0] = rest[0], decays[0]


def _masters(engine: Any) -> Any:
    wrapper = engine.optimizer
    bf16 = type(wrapper).__name__ == "BF16_Optimizer"
    return wrapper.fp32_groups_flat_partition if bf16 else wrapper.single_partition_of_fp32_groups


def _round_masters(engine: Any) -> None:
    _masters(engine)[1] = _masters(engine)[1].bfloat16()


def _keep_all_of_the_state(engine: Any) -> None:
    """Simulate two replicas that each hold the master weights of both."""
    engine.optimizer.partition_count[1] = 2


def _sum_in_bf16(engine: Any) -> None:
    sums = engine.optimizer.fp32_groups_gradients_flat
    sums[0] = sums[0].bfloat16()


def _round_a_weight(engine: Any) -> None:
    weight = next(engine.module.parameters())
    weight.data = weight.data.bfloat16()


BF16_SUMS = {"data_types": {"grad_accum_dtype": "bf16"}}
CASES = [
    *(Case(precision, "built") for precision in ("bf16", "fp16", "fp32")),
    Case("bf16", "optimizer wrapper: DeepSpeedZeroOptimizer", BF16_SUMS),
    Case("bf16", "gradient accumulation type: torch.bfloat16", built=_sum_in_bf16),
    Case("bf16", "gradient communication type: torch.bfloat16", {"communication_data_type": "bf16"}),
    Case("bf16", "gradient clipping: 0.5", {"gradient_clipping": 0.5}),
    Case("bf16", "ZeRO stage: 0", BF16_SUMS | {"zero_optimization": {"stage": 0}}),
    Case("fp16", "dynamic loss scale: False", {"fp16": {"enabled": True, "loss_scale": 128}}),
    Case("fp16", "initial loss scale: 256", {"fp16": {"enabled": True, "initial_scale_power": 8}}),
    Case("fp16", "minimum loss scale: 4", {"fp16": {"enabled": True, "min_loss_scale": 4}}),
    Case("fp16", "gradient accumulation type: torch.float16", {"data_types": {"grad_accum_dtype": "fp16"}}),
    Case("fp32", "gradient accumulation type: torch.bfloat16", BF16_SUMS),
    Case("fp32", "gradient communication type: torch.bfloat16", {"communication_data_type": "bf16"}),
    Case("fp32", "data types of weights that differ from torch.float32: [torch.bfloat16]", built=_round_a_weight),
    *(
        case
        for precision in ("bf16", "fp32")
        for case in (
            Case(precision, "base optimizer: <class 'torch.optim.adam.Adam'>", handed=_another_optimizer),
            Case(precision, "number of parameter groups: (1, 1, 1)", handed=_leave_a_group_out),
            Case(precision, "parameter group 1: weight decay: 0.25", handed=_decay_what_does_not),
            Case(precision, "parameter group 0: number of parameters: ", handed=_leave_a_parameter_out),
            Case(
                precision,
                "parameter group 0: number of parameters that were not passed to DeepSpeed: 1",
                handed=_exchange_parameters,
            ),
            Case(precision, "parameter group 1: data type of master weights: torch.bfloat16", built=_round_masters),
            Case(
                precision,
                "parameter group 1: number of master weights in this replica's share: ",
                built=_keep_all_of_the_state,
            ),
        )
    ),
]


def _errors() -> list[str]:
    """Return the error of building each case's engine."""
    import deepspeed

    from training.loop import build_engine as module
    from training.parallel.mesh import build_mesh

    right, initialize, mesh = module.deepspeed_json, deepspeed.initialize, build_mesh(stage().training.parallel)

    def build(case: Case) -> str:
        def initialize_otherwise(optimizer: Any, **given: Any) -> Any:
            engine, *rest = initialize(optimizer=case.handed(optimizer) or optimizer, **given)
            case.built(engine)
            return engine, *rest

        module.deepspeed_json = lambda training: right(training) | case.told
        deepspeed.initialize = initialize_otherwise
        try:
            module.build_trainer(stage(precision=case.precision), mesh, ROWS)
        except CheckFailedError as error:
            return str(error)
        return "built"

    return [build(case) for case in CASES]


def test_an_engine_that_differs_from_the_configuration_is_refused() -> None:
    """Some cases cannot occur with today's DeepSpeed, but a later version may cause them."""
    (errors,) = run_ranks(_errors, 1)
    for error, case in zip(errors, CASES, strict=True):
        what = error.removeprefix("deepspeed.initialize: DeepSpeed's engine differs from the configuration; ")
        assert what.startswith(case.refusal), (case, error)
