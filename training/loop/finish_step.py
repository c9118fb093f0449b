"""Finish a step: poll, write the step's records, and act on the guards' verdict, which can be a roll-back."""

from __future__ import annotations

import torch.distributed as dist

from bloomery.base.errors import CheckFailedError
from bloomery.contracts.metrics_record import EnergyRecord, EventRecord
from training.checkpoint.collective_calls import from_rank_0
from training.checkpoint.randomness import random_states
from training.guards.anomaly_guard import Verdict
from training.guards.incident import Incident, write_incident
from training.guards.replicas import check_replicas
from training.loop.control import Order, Poll
from training.loop.energy import Energy
from training.loop.train_step import TrainedStep, record_of
from training.loop.training_state import TrainingState
from training.resume.policy import shown
from training.resume.roll_back import RollBack, roll_back

_ORDERS = {"log": Order.GO, "skip": Order.GO, "roll_back": Order.ROLL_BACK, "stop": Order.FAIL}


def finish_step(run: TrainingState, done: TrainedStep) -> Poll:
    """Poll, write the step's records, and act on the guards' verdict. Return the poll's result. Collective.

    Raises:
        CheckFailedError: a guard ends the training.
    """
    verdict = run.anomalies.seen(done.outcome)
    if run.trainer.mesh.rank != 0:
        # Only rank 0's verdict counts, so that all ranks act alike even if their values differ in the last bit.
        verdict = None
    poll = run.poll(Order.GO if verdict is None else _ORDERS[verdict.action], done.work_seconds)
    if run.metrics is not None:
        run.metrics.step(record_of(run, done, poll))
        slow = run.slow_ranks.seen(done.outcome.iteration, poll.work_seconds)
        if slow is not None:
            run.note(slow.message)
        if verdict is not None:
            incident = Incident(
                iteration=done.outcome.iteration,
                event=verdict.event,
                action=verdict.action,
                values=verdict.values,
                from_sample=done.outcome.from_sample,
                to_sample=done.outcome.to_sample,
                message=verdict.message,
            )
            _report(run, incident)
    if run.energy is not None and run.energy.is_due():
        record_energy(run, poll.energy)
    if poll.order is Order.ROLL_BACK:
        go_back(run, verdict)
    elif poll.order is Order.FAIL:
        # `from_rank_0` waits until rank 0 has written its records. Without it, another rank could exit first, and its
        # error would end rank 0.
        raise CheckFailedError(
            from_rank_0(lambda: "" if verdict is None else verdict.message),
            where=f"iteration {done.outcome.iteration}, samples {done.outcome.from_sample} to "
            f"{done.outcome.to_sample - 1}",
            expected="a finite loss and gradient norm without repeated spikes; try a lower learning rate or a longer "
            "warm-up, or inspect these samples (files in train/incidents)",
        )
    return poll


def record_changes(run: TrainingState) -> None:
    """Record an event that lists the configuration keys that changed since the loaded checkpoint."""
    if run.metrics is None or not run.checkpoints.changed:
        return
    position = run.position
    changed = run.checkpoints.changed
    changes = "; ".join(f"{each.key}: {shown(each.before)} -> {shown(each.after)}" for each in changed)
    run.metrics.event(
        EventRecord(
            **run.stamp(),
            event="resumed",
            action="log",
            message=f"configuration keys with new values from iteration {position.iteration + 1} on: {changes}",
        )
    )


def go_back(run: TrainingState, verdict: Verdict | None) -> None:
    """Roll back to an earlier checkpoint and skip the samples that the verdict names. Rank 0 does the work.
    Collective."""
    run.finish_save()

    def go() -> RollBack:
        assert verdict is not None
        return roll_back(run.paths, verdict.skip.start, verdict.skip.stop, verdict.message)

    back = from_rank_0(go)
    to = f"from checkpoint {back.checkpoint}" if back.checkpoint else "from the beginning"
    run.note(f"the next segment starts {to} and skips samples {back.from_sample} to {back.to_sample - 1}")


def guard_replicas(run: TrainingState) -> None:
    """Compare all replicas of weights, optimizer state and random number states. Record a difference. Collective.

    Raises:
        CheckFailedError: replicas differ. Every rank raises the error, which names tensors and ranks.
    """
    iteration = run.position.iteration
    try:
        check_replicas(run.trainer, random_states(run.trainer.mesh.device), iteration)
    except CheckFailedError as error:
        if run.metrics is not None:
            _report(run, Incident(iteration=iteration, event="drift", action="stop", message=error.what))
        dist.barrier()
        raise


def _report(run: TrainingState, incident: Incident) -> None:
    """Write the incident and record its event. The launcher later adds the texts of the samples to it. Call this on
    rank 0."""
    assert run.metrics is not None
    write_incident(run.paths.incidents, incident)
    run.metrics.event(
        EventRecord(
            **run.stamp(),
            event=incident.event,
            action=incident.action,
            message=incident.message,
            from_sample=incident.from_sample,
            to_sample=incident.to_sample,
        )
    )


def record_energy(run: TrainingState, total: Energy) -> None:
    """Record the energy that all nodes have used so far in this segment."""
    if run.metrics is not None:
        run.metrics.energy(
            EnergyRecord(
                **run.stamp(),
                energy_kwh=total.kwh,
                co2_kg=total.co2_kg,
                nodes=total.nodes,
                estimated_kwh=total.estimated_kwh,
            )
        )
