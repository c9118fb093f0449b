"""Test the guard's verdicts about loss and gradient norm, without torch and without other processes."""

from __future__ import annotations

import math
from typing import Any

import pytest

from bloomery.config.training_loop import GuardsConfig
from bloomery.contracts.metrics_record import MetricsRecord
from training.guards.anomaly_guard import AnomalyGuard, Outcome, Verdict, past_iterations

BATCH = 4


def guards(**values: Any) -> GuardsConfig:
    spike = {"window_iterations": 16, "deviations": 6.0, "action": values.pop("spike", "log")}
    return GuardsConfig.model_validate({"spike": spike, "roll_back_iterations": 3, **values})


def outcome(iteration: int, loss: float = 2.0, norm: float = 0.2, **values: Any) -> Outcome:
    return Outcome(
        iteration=iteration,
        from_sample=BATCH * (iteration - 1),
        to_sample=BATCH * iteration,
        loss=loss,
        grad_norm=norm,
        **{"left_out": not math.isfinite(norm), **values},
    )


def calm(watch: AnomalyGuard, iterations: int) -> None:
    for iteration in range(1, iterations + 1):
        assert watch.seen(outcome(iteration, norm=0.2 + 0.01 * (iteration % 3))) == []


def said(verdicts: list[Verdict]) -> Verdict:
    (verdict,) = verdicts
    return verdict


def record(iteration: int, loss: float | None = 2.0, norm: float | None = 0.2, **values: Any) -> MetricsRecord:
    zeros = dict.fromkeys(("tokens_per_second", "tflops_hardware", "tflops_model", "samples_per_second"), 0.0)
    return MetricsRecord(
        iteration=iteration,
        consumed_samples=BATCH * iteration,
        consumed_tokens=0,
        global_batch_size=BATCH,
        learning_rate=0.1,
        loss=loss,
        grad_norm=norm,
        seconds=1.0,
        total_iterations=100,
        segment=1,
        time="2026-01-01T00:00:00Z",
        **zeros,
        **values,
    )


def test_action_log_reports_a_spike_once_and_skips_no_update() -> None:
    watch = AnomalyGuard(guards())
    calm(watch, 20)
    assert not watch.leaves_out(50.0)
    verdict = said(watch.seen(outcome(21, norm=50.0)))
    assert (verdict.event, verdict.action) == ("spike", "log")
    assert verdict.values["grad_norm"] == 50.0
    assert watch.seen(outcome(22, norm=60.0)) == []


def test_action_skip_skips_and_reports_each_update_of_a_spike() -> None:
    watch = AnomalyGuard(guards(spike="skip"))
    calm(watch, 20)
    assert not watch.leaves_out(0.21)
    for iteration in (21, 22):
        assert watch.leaves_out(50.0)
        verdict = said(watch.seen(outcome(iteration, norm=50.0, left_out=True)))
        assert verdict.action == "skip"
        assert "the update is skipped" in verdict.message


def test_a_roll_back_also_skips_the_samples_of_the_iterations_before_the_event() -> None:
    watch = AnomalyGuard(guards(spike="roll_back"))
    calm(watch, 20)
    verdict = said(watch.seen(outcome(21, norm=50.0)))
    assert (verdict.action, verdict.skip) == ("roll_back", range(BATCH * 17, BATCH * 21))


def test_the_training_stops_after_max_roll_backs() -> None:
    watch = AnomalyGuard(guards(non_finite="roll_back", max_roll_backs=2), roll_backs=2)
    verdict = said(watch.seen(outcome(1, loss=math.nan, norm=math.inf)))
    assert verdict.action == "stop"
    assert "already rolled back 2 times" in verdict.message
    assert verdict.values == {"loss": None, "grad_norm": None}


@pytest.mark.parametrize("policy", ["skip", "roll_back", "stop"])
def test_an_update_that_is_not_finite_is_skipped_and_its_policy_is_applied(policy: str) -> None:
    watch = AnomalyGuard(guards(non_finite=policy))
    assert watch.leaves_out(math.inf)
    verdict = said(watch.seen(outcome(1, loss=math.nan, norm=math.inf)))
    assert (verdict.event, verdict.action) == ("non_finite", policy)
    assert "the loss is nan and the gradient norm is inf at iteration 1" in verdict.message


def test_too_many_skipped_updates_in_a_row_stop_the_training_even_across_a_restart() -> None:
    policy = guards(max_skipped_updates=3)
    watch = AnomalyGuard(policy)
    actions = [said(watch.seen(outcome(iteration, norm=math.inf))).action for iteration in (1, 2, 3, 4)]
    assert actions == ["skip", "skip", "skip", "stop"]
    past = [record(1), *(record(n, norm=None, update_skipped=True) for n in (2, 3, 4))]
    assert said(AnomalyGuard(policy, past).seen(outcome(5, norm=math.inf))).action == "stop"
    assert said(AnomalyGuard(policy, [*past, record(5)]).seen(outcome(6, norm=math.inf))).action == "skip"


def test_after_a_restart_an_fp16_overflow_at_the_minimum_scale_counts_as_not_finite() -> None:
    policy = guards(max_skipped_updates=3)
    for scale, action in ((1.0, "stop"), (2.0, "skip")):
        past = [record(n, norm=None, update_skipped=True, loss_scale=scale) for n in (1, 2, 3)]
        assert said(AnomalyGuard(policy, past, least_scale=1.0).seen(outcome(4, norm=math.inf))).action == action


def test_the_search_for_a_loss_scale_causes_no_event() -> None:
    watch = AnomalyGuard(guards(max_skipped_updates=1))
    for iteration in range(1, 6):
        assert watch.seen(outcome(iteration, norm=math.inf, left_out=True, overflowed=True)) == []
    assert said(watch.seen(outcome(6, loss=math.nan, norm=math.inf, overflowed=True))).event == "non_finite"


def test_a_resumed_guard_gives_the_same_verdict_as_an_uninterrupted_one() -> None:
    policy = guards(spike="roll_back")
    watch = AnomalyGuard(policy)
    calm(watch, 20)
    past = [record(n, norm=0.2 + 0.01 * (n % 3)) for n in range(1, 21)]
    event = outcome(21, norm=50.0)
    assert AnomalyGuard(policy, past).seen(event) == watch.seen(event)


def climbing(last: int, begin: int = 320, **values: Any) -> list[MetricsRecord]:
    """Return records of a loss that climbs by 0.1 % in each iteration after iteration `begin`."""
    noise = (1.0, 1.005, 0.995, 1.002)
    return [
        record(number, loss=2.0 * noise[number % 4] * (1 + 0.001 * max(0, number - begin)), norm=0.2, **values)
        for number in range(1, last + 1)
    ]


def watched(policy: GuardsConfig, records: list[MetricsRecord], past: int = 0, **given: Any) -> dict[int, Verdict]:
    """Return the verdict on each iteration, of a guard that is resumed after `past` iterations."""
    watch = AnomalyGuard(policy, records[:past][-past_iterations(policy) :], **given)
    found = {}
    for each in records[past:]:
        assert each.loss is not None
        for verdict in watch.seen(outcome(each.iteration, each.loss, sequence_length=each.sequence_length)):
            found[each.iteration] = verdict
    return found


def test_a_slow_divergence_is_reported_once_with_its_measured_values() -> None:
    found = watched(guards(divergence={"window_iterations": 512}), climbing(480))
    assert list(found) == [384]
    verdict = found[384]
    assert (verdict.event, verdict.action) == ("divergence", "log")
    assert verdict.values["level"] == pytest.approx(2.08, abs=0.02)
    assert verdict.values["best"] == pytest.approx(2.0, abs=0.01)
    assert verdict.values["grad_norm_ratio"] == 1.0
    assert "the loss climbs: at iteration 384" in verdict.message
    assert watched(guards(divergence=None), climbing(480)) == {}


def test_a_divergence_rolls_back_to_before_its_beginning_until_no_roll_back_is_left() -> None:
    policy = guards(divergence={"window_iterations": 512, "action": "roll_back"}, max_roll_backs=1)
    (verdict,) = watched(policy, climbing(400)).values()
    assert (verdict.action, verdict.skip.stop) == ("roll_back", BATCH * 384)
    assert BATCH * 280 < verdict.skip.start <= BATCH * (336 - policy.roll_back_iterations)
    assert f"skips samples {verdict.skip.start} to {verdict.skip.stop - 1}" in verdict.message
    (last,) = watched(policy, climbing(400), roll_backs=1).values()
    assert last.action == "stop"
    assert "already rolled back 1 times" in last.message


def test_a_divergence_can_stop_the_training() -> None:
    (verdict,) = watched(guards(divergence={"action": "stop"}), climbing(400)).values()
    assert verdict.action == "stop"
    assert "training.guards.divergence.action = stop" in verdict.message


def test_a_divergence_and_a_spike_of_the_same_iteration_are_both_reported() -> None:
    watch = AnomalyGuard(guards(divergence={"window_iterations": 512}), climbing(383))
    spike, divergence = watch.seen(outcome(384, climbing(384)[-1].loss or 0.0, norm=90.0))
    assert (spike.event, divergence.event) == ("spike", "divergence")


@pytest.mark.parametrize("past", [300, 383, 384, 385])
def test_a_resumed_guard_reports_a_divergence_like_an_uninterrupted_one(past: int) -> None:
    policy = guards(divergence={"window_iterations": 512, "action": "roll_back"})
    records = climbing(1400, begin=1200, sequence_length=512)
    whole = watched(policy, records)
    assert list(whole) == [1264]
    past += 1264 - 384
    assert watched(policy, records, past) == {at: verdict for at, verdict in whole.items() if at > past}


def test_a_change_of_the_mixture_is_not_a_divergence() -> None:
    def jump(iteration: int) -> float:
        return 2.0 if iteration <= 400 else 2.3

    records = [record(number, loss=jump(number)) for number in range(1, 801)]
    assert list(watched(guards(spike="log"), records)) != []
    changed = watched(guards(), records, mixture_changes=[400 * BATCH])
    assert [verdict.event for verdict in changed.values()] == ["spike"]
    assert "divergence" in {verdict.event for verdict in watched(guards(), records).values()}
    # The same holds if the training is resumed after the change.
    assert watched(guards(), records, past=420, mixture_changes=[400 * BATCH]) == {}
