"""Finish a step: poll, write the step's records, and act on the guards' verdict, which can be a roll-back."""

from __future__ import annotations

import torch.distributed as dist

from bloomery.base.errors import CheckFailedError, InputError
from bloomery.checkpoint.drift import DriftError
from bloomery.contracts.checkpoint import step_name
from bloomery.contracts.metrics_record import EnergyRecord, EventRecord
from bloomery.contracts.resume_policy import shown
from bloomery.spec.next_step import PlannedStep
from training.checkpoint.collective_calls import from_every_rank, from_rank_0
from training.checkpoint.damaged_state import DamagedStateError, not_finite_error
from training.checkpoint.finite import not_finite_in_trainer
from training.data.batches import micro_batches
from training.guards.anomaly_guard import Verdict
from training.guards.incident import Incident, incident_files, read_incident, write_incident
from training.guards.replay import replay
from training.guards.replicas import nodes_text
from training.loop.control import Order, Poll
from training.loop.energy import Energy
from training.loop.train_step import TrainedStep, record_of
from training.loop.training_state import TrainingState
from training.resume.roll_back import RollBack, roll_back

_DRIFTS_NAMED = 8
"""Maximum number of earlier drifts that an error names."""
_ORDERS = {"log": Order.GO, "skip": Order.GO, "roll_back": Order.ROLL_BACK, "stop": Order.FAIL}


def finish_step(run: TrainingState, done: TrainedStep) -> Poll:
    """Poll, write the step's records, and act on the guards' verdicts. Return the poll's result. Collective.

    Raises:
        CheckFailedError: a guard ends the training.
        DamagedStateError: a guard would end the training, but the state in memory is not finite. The damaged state may
            be the cause, instead of the samples or the configuration, so a restart may succeed.
    """
    verdicts = run.anomalies.seen(done.outcome)
    if run.trainer.mesh.rank != 0:
        # Only rank 0's verdicts count, so that all ranks act alike even if their values differ in the last bit.
        verdicts = []
    # The verdict with the most severe action decides. If several verdicts have this action, the one that names the most
    # samples to skip decides.
    verdict = max(verdicts, key=lambda each: (_ORDERS[each.action], len(each.skip)), default=None)
    poll = run.poll(Order.GO if verdict is None else _ORDERS[verdict.action], done.work_seconds)
    if run.metrics is not None:
        run.metrics.step(record_of(run, done, poll))
        slow = run.slow_ranks.seen(done.outcome.iteration, poll.work_seconds)
        if slow is not None:
            run.note(slow.message)
        for each in verdicts:
            incident = Incident(
                iteration=done.outcome.iteration,
                event=each.event,
                action=each.action,
                values=each.values,
                from_sample=done.outcome.from_sample,
                to_sample=done.outcome.to_sample,
                message=each.message,
            )
            _report(run, incident)
    if run.energy is not None and run.energy.is_due():
        record_energy(run, poll.energy)
    if poll.order is Order.ROLL_BACK:
        go_back(run, verdict)
    elif poll.order is Order.FAIL:
        if run.trainer.stage.training.guards.non_finite != "stop":
            _check_finite_state(run)
        # `from_rank_0` waits until rank 0 has written its records. Without it, another rank could exit first, and its
        # error would end rank 0.
        raise CheckFailedError(
            from_rank_0(lambda: "" if verdict is None else verdict.message),
            where=f"iteration {done.outcome.iteration}, samples {done.outcome.from_sample} to "
            f"{done.outcome.to_sample - 1}",
            expected="a finite loss and gradient norm without repeated spikes or divergence; try a lower learning rate "
            "or a longer warm-up, or inspect these samples (files in train/incidents)",
        )
    return poll


def record_changes(run: TrainingState) -> None:
    """Record events that list what changed since the loaded checkpoint was saved, and the damaged checkpoints that
    were skipped."""
    if run.metrics is None:
        return
    iteration, checkpoints, found = run.position.iteration, run.checkpoints, []
    if checkpoints.changed:
        changes = "; ".join(f"{each.key}: {shown(each.before)} -> {shown(each.after)}" for each in checkpoints.changed)
        found.append(f"configuration keys with new values from iteration {iteration + 1} on: {changes}")
    if checkpoints.changed_versions:
        changes = "; ".join(checkpoints.changed_versions)
        found.append(f"software that changed since {step_name(iteration)}: {changes}")
    for name, problem in checkpoints.damaged.items():
        found.append(f"checkpoint {name} was skipped, because it is damaged: {problem}")
    for message in found:
        run.metrics.event(EventRecord(**run.stamp(), event="resumed", action="log", message=message))


def report_damaged_state(run: TrainingState, error: DamagedStateError) -> None:
    """Record an incident and its event for a damaged state. Return when rank 0 has written them. Collective."""
    if run.metrics is not None:
        incident = Incident(
            iteration=error.iteration,
            event=error.event,
            action="restart",
            message=error.what,
            # A drift in another segment is a new event. Other damage may be the repetition of an earlier incident.
            segment=run.number if error.event == "drift" else None,
            nodes={str(rank): node for rank, node in error.nodes.items()},
        )
        _report(run, incident)
    dist.barrier()


def _check_finite_state(run: TrainingState) -> None:
    """Check the state in memory on all ranks. Collective.

    Raises:
        DamagedStateError: the state is not finite on some rank.
    """
    tensors = from_every_rank(lambda: not_finite_in_trainer(run.trainer))
    if problems := [(rank, tensor) for rank, tensor in enumerate(tensors) if tensor is not None]:
        # A background save may hold an earlier, finite state.
        run.finish_save()
        raise not_finite_error(problems, run.position.iteration)


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


def drift_error(run: TrainingState, error: DriftError) -> DamagedStateError:
    """Return the error that ends the segment because replicas drifted, so that the next segment resumes. Collective.

    A checkpoint that is still being written is finished, because its replicas were compared before it was copied.

    Raises:
        DamagedStateError: the state is not finite. This error describes the damage better than a drift.
    """
    run.finish_save()
    _check_finite_state(run)
    return DamagedStateError(
        f"{error.what}; nodes to check: {nodes_text(error.nodes)}{from_rank_0(lambda: _earlier_drifts(run))}",
        where=error.where,
        expected=error.expected,
        event="drift",
        iteration=run.position.iteration,
        nodes=error.nodes,
    )


def _earlier_drifts(run: TrainingState) -> str:
    """Return a phrase that names iteration and nodes of each earlier drift of this training, for a message."""
    found = []
    for path in incident_files(run.paths.incidents):
        try:
            incident = read_incident(path)
        except InputError:
            continue
        if incident.event == "drift" and incident.nodes:
            places = nodes_text({int(rank): node for rank, node in incident.nodes.items()})
            found.append(f"iteration {incident.iteration} ({places})")
    return f"; earlier drifts of this training: {', '.join(found[-_DRIFTS_NAMED:])}" if found else ""


def guard_replay(run: TrainingState, planned: PlannedStep) -> None:
    """Replay a micro-batch of the iteration that was just trained. Record a difference. Collective.

    The replays take turns among the micro-batches of the global batch.

    Raises:
        CheckFailedError: results differ and `training.guards.replay_action` is `stop`, or the weights of the replicas
            differ. Every rank raises the error.
    """
    iteration, guards, size = run.position.iteration, run.trainer.stage.training.guards, planned.micro_batch_size
    assert guards.replay_every_iterations is not None
    number = iteration // guards.replay_every_iterations % (planned.global_batch_size // size)
    samples = planned.batch.samples[number * size : (number + 1) * size]
    batch = next(micro_batches(run.reader.train, samples, size, 0, 1, planned.sequence_length))
    difference = replay(run.trainer, batch)
    if difference is None:
        return
    # Replicas with different weights compute different results even if their arithmetic is correct.
    run.check_replicas()
    if run.metrics is not None:
        _report(
            run,
            Incident(iteration=iteration, event="replay", action=guards.replay_action, message=difference.message),
        )
    if guards.replay_action == "stop":
        dist.barrier()
        raise CheckFailedError(
            difference.message,
            where=f"iteration {iteration}",
            expected="equal bits; test the devices of these nodes, exclude a faulty node, move away the checkpoints "
            "that were saved after the last replay without a difference (replays are "
            "training.guards.replay_every_iterations iterations apart), and run the same command again; or set "
            "training.guards.replay_action to log, to record such differences without stopping",
        )


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
