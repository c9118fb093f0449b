"""Train without a workflow: one segment after another until the training is finished, on one machine or several."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from bloomery.base.atomic import known_error
from bloomery.base.digest import digest_json
from bloomery.base.errors import BloomeryError, CheckFailedError, TryAgainError
from bloomery.base.progress import say
from bloomery.contracts.paths import RunPaths
from bloomery.contracts.segment import STOP_FILE, Segment, SegmentStatus, read_segment
from bloomery.contracts.train_stage import read_configured
from training.nodes.follow import Follower
from training.nodes.node_group import NodeGroup
from training.nodes.place import NodePlace
from training.processes.stop_signals import StopSignals
from training.segments.launch import finish, launch_segment


def run_segment_on_nodes(config: Path, run: Path, number: int, output: Path, place: NodePlace) -> None:
    """Take part in segment `number` as the machine at `place`. Node 0 writes the segment to `output`.

    Raises:
        ConfigError: the nodes do not have the processes that the layout needs, or node 0 refuses this node.
        BloomeryError: any error of `launch_segment`, on every node with the same exit code.
    """
    if place.rank > 0:
        _follow(config, run, number, output, place)
        return
    with _node_group(config, run, number, place) as nodes:
        launch_segment(config, run, number, output, nodes=nodes)


def run_training(config: Path, run: Path, place: NodePlace | None = None) -> None:
    """Run the remaining segments of the training in `run`, and record its end in train/finished.json.

    Segments and their limits are those of the workflow, so a workflow can continue the chain and the reverse.

    Args:
        config: configuration of the training stage (config/train.json).
        run: folder of the run.
        place: place of this machine among several. None trains on this machine alone.

    Raises:
        TryAgainError: the training was stopped on request. The same command resumes from the checkpoint.
        CheckFailedError: there are more than `max_segments` segments, or the reasons of `launch_segment` apply.
        BloomeryError: any other error of `launch_segment`, on every node with the same exit code.
    """
    paths = RunPaths(run)
    if place is None:
        with StopSignals(raise_error=True):
            _run_chain(config, paths, None)
    elif place.rank > 0:
        _follow(config, run, None, paths.finished, place)
    else:
        with _node_group(config, run, None, place) as nodes:
            _run_chain(config, paths, nodes)


def _run_chain(config: Path, paths: RunPaths, nodes: NodeGroup | None) -> None:
    """Run segments until one of them finishes the training."""
    most = read_configured(config, paths).training.segment.max_segments
    number = _next_number(paths)
    while True:
        if number > most:
            raise CheckFailedError(
                f"the training is not finished after {most} segments",
                where=str(paths.segments),
                expected="a larger training.segment.max_segments",
            )
        segment = launch_segment(config, paths.run, number, paths.segments / f"{number}.json", nodes=nodes)
        if segment is None or segment.status is SegmentStatus.FINISHED:
            last = finish(paths.run, paths.finished)
            say(f"the training is finished after iteration {last.iteration}")
            return
        _refuse_to_continue(paths, segment)
        number += 1


def _next_number(paths: RunPaths) -> int:
    """Return the number of the first segment that has no record or that finished the training.

    A finished segment is launched again. The launcher returns at once if its record is still valid, and trains further
    if the training has become longer.
    """
    number = 1
    while (path := paths.segments / f"{number}.json").exists():
        if read_segment(path).status is SegmentStatus.FINISHED:
            return number
        number += 1
    return number


def _refuse_to_continue(paths: RunPaths, segment: Segment) -> None:
    """Raise TryAgainError if a stop was requested although the segment ended for another reason, such as a crash."""
    file = paths.control / STOP_FILE
    if not file.exists():
        return
    file.unlink(missing_ok=True)
    raise TryAgainError(
        f"stopped after segment {segment.number}, which ended with status {segment.status.value!r}",
        where=str(paths.train),
        expected="run the same command again to resume",
    )


@contextlib.contextmanager
def _node_group(config: Path, run: Path, number: int | None, place: NodePlace) -> Iterator[NodeGroup]:
    """Accept the other nodes while the context is open, and tell them at its end how the command of node 0 ended."""
    paths = RunPaths(run)
    stage = read_configured(config, paths)
    place.check_world(stage.training.parallel)
    with StopSignals(raise_error=True) as stop:
        nodes = NodeGroup(place, paths, digest_json(stage.model_dump(mode="json")), number)
        exit_code, message = 1, "node 0 ended with an unexpected error"
        try:
            yield nodes
            exit_code, message = 0, "the segment has ended" if number else "the training is finished"
        except (BloomeryError, OSError) as error:
            known = known_error(error)
            exit_code, message = known.exit_code if known else 1, str(known or error)
            raise
        finally:
            stop.raise_error = False
            nodes.close(exit_code, message, linger=lambda: exit_code == 0 and not stop.asked)


def _follow(config: Path, run: Path, number: int | None, ended: Path, place: NodePlace) -> None:
    """Take part as a node other than node 0."""
    paths = RunPaths(run)
    stage = read_configured(config, paths)
    place.check_world(stage.training.parallel)
    configuration = digest_json(stage.model_dump(mode="json"))
    with StopSignals(raise_error=False) as stop:
        Follower(place, config, paths, stage, configuration, number, ended).follow(stop)
