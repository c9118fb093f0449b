"""What becomes of a step: its record, what the guards say of it, and going back."""

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
    """Poll, write the step's records and act on the guards' verdict. Collective.

    Raises:
        CheckFailedError: a guard ends the training.
    """
    verdict = run.anomalies.seen(done.outcome)
    if run.trainer.mesh.rank != 0:
        # All saw the same numbers; were there a bit of difference, they would still do the same.
        verdict = None
    poll = run.poll(Order.GO if verdict is None else _ORDERS[verdict.action], done.work_seconds)
    if run.metrics is not None:
        run.metrics.step(record_of(run, done, poll.work_seconds))
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
        # Rank 0 has written all that is to be read before any rank leaves with an error, which ends the others.
        raise CheckFailedError(
            from_rank_0(lambda: "" if verdict is None else verdict.message),
            where=f"iteration {done.outcome.iteration}, samples {done.outcome.from_sample} to "
            f"{done.outcome.to_sample - 1}",
            expected="a finite, calm training: a lower learning rate or a longer warm-up, or look at those samples "
            "(train/incidents)",
        )
    return poll


def record_changes(run: TrainingState) -> None:
    """What the configuration has otherwise than the checkpoint that this segment goes on from."""
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
            message=f"from iteration {position.iteration + 1} on {changes}",
        )
    )


def go_back(run: TrainingState, verdict: Verdict | None) -> None:
    """Set checkpoints aside and skip the samples of an event, by rank 0, whose verdict it is. Collective."""
    run.finish_save()

    def go() -> RollBack:
        assert verdict is not None
        return roll_back(run.paths, verdict.skip.start, verdict.skip.stop, verdict.message)

    back = from_rank_0(go)
    to = f"after checkpoint {back.checkpoint}" if back.checkpoint else "from the beginning"
    run.note(f"going on {to}, without samples {back.from_sample} to {back.to_sample - 1}")


def guard_replicas(run: TrainingState) -> None:
    """Compare all replicas of weights and random numbers. Collective.

    Raises:
        CheckFailedError: on every rank, with tensors and ranks.
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
    """An event's record, and its incident, which the launcher adds the texts to. On rank 0."""
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
    """Energy of all nodes so far in this segment."""
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
