"""Find problems in what the processes measured together: links that are broken or slow, and wrong clocks.

The functions here read no clock, file or device.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median, median_low

from bloomery.config.training_loop import PreflightConfig
from bloomery.contracts.preflight import CommunicationState, Problem, ProblemKind, Step
from training.preflight.judge import median_of_others

_LEAST_DELAY_SECONDS = 0.05
"""Smallest delay of an all-reduce that counts as slow. Shorter ones occur on busy CPUs without any fault."""
_CLOCK_SECONDS = 1.0
"""Difference between clocks that is reported. It is far above the time that a barrier takes."""
_ORDER = list(Step)


def judge_communication(states: Sequence[CommunicationState], limits: PreflightConfig) -> list[Problem]:
    """Return the problems in what the processes measured together.

    Args:
        states: the reports of all processes, in the order of their ranks. Ranks that did not report are absent.
        limits: the limits that apply.
    """
    if failed := [state for state in states if state.error is not None]:
        return _failures(failed)
    return [*_slow_inside(states, limits), *_slow_pairs(states, limits), *_clocks(states, limits)]


def _failures(failed: Sequence[CommunicationState]) -> list[Problem]:
    """Return one problem for each node whose communication failed first.

    A process waits for others that failed earlier. So only the failures of the earliest step are causes. Between two
    nodes, those that have measured the fewest pairs failed first, and either of the two may be at fault.
    """
    earliest = min(_ORDER.index(state.step) for state in failed)
    first = [state for state in failed if _ORDER.index(state.step) == earliest]
    if _ORDER[earliest] is Step.PAIRS:
        fewest = min(len(state.pairs) for state in first)
        first = [state for state in first if len(state.pairs) == fewest]
    of_one_node = _ORDER[earliest] in (Step.INSIDE, Step.PAIRS)
    causes = {state.host: state for state in reversed(first)} if of_one_node else {"": first[0]}
    return [
        Problem(
            kind=ProblemKind.CHECK,
            message=state.error or "",
            host=state.host if of_one_node else None,
            rank=state.rank,
            exclude=of_one_node,
        )
        for state in reversed(causes.values())
    ]


def _slow(seconds: float, usual: float, ratio: float) -> bool:
    """Whether an all-reduce is slow compared with the usual time."""
    return seconds > ratio * usual and seconds - usual > _LEAST_DELAY_SECONDS


def _slow_inside(states: Sequence[CommunicationState], limits: PreflightConfig) -> list[Problem]:
    """Return the nodes whose processes communicate slowly among themselves."""
    times: dict[str, float] = {}
    for state in states:
        if state.inside_seconds is not None:
            times[state.host] = max(state.inside_seconds, times.get(state.host, 0.0))
    if len(times) < 2:
        return []
    ratio = limits.slow_link_ratio if len(times) > 2 else limits.slow_link_ratio**2
    return [
        Problem(
            kind=ProblemKind.SLOW,
            message=f"an all-reduce among the processes of this node takes {1000 * seconds:.3g} ms; the median of the "
            f"other nodes is {1000 * usual:.3g} ms",
            host=host,
            ends_segment=False,
        )
        for host, seconds in times.items()
        if _slow(seconds, usual := median_of_others(times, host), ratio)
    ]


def _slow_pairs(states: Sequence[CommunicationState], limits: PreflightConfig) -> list[Problem]:
    """Return the nodes whose links to all neighbours are slow, and a note on single slow links."""
    first = [state for state in states if state.pairs]
    if len(first) < 3:
        return []  # there are no other pairs to compare with
    # Each node is compared with the links between other nodes. The lower median is right even if half of them are slow.
    usual = {
        state.host: median_low(
            pair.seconds for other in first for pair in other.pairs if state.host not in (other.host, pair.peer)
        )
        for state in first
    }
    slow = {
        state.host: [pair for pair in state.pairs if _slow(pair.seconds, usual[state.host], limits.slow_link_ratio)]
        for state in first
    }
    # A slow node makes the links of its two neighbours slow too, but only one link of each.
    at_fault = {state.host for state in first if len(slow[state.host]) == len(state.pairs) > 1}
    found = [
        Problem(
            kind=ProblemKind.SLOW,
            message=f"an all-reduce with {' and with '.join(pair.peer for pair in slow[host])} takes "
            f"{' and '.join(f'{1000 * pair.seconds:.3g} ms' for pair in slow[host])}; the median of other pairs of "
            f"nodes is {1000 * usual[host]:.3g} ms",
            host=host,
            ends_segment=False,
        )
        for host in slow
        if host in at_fault
    ]
    seen: set[frozenset[str]] = set()
    for host, pairs in slow.items():
        for pair in pairs:
            link = frozenset((host, pair.peer))
            if link & at_fault or link in seen:
                continue
            seen.add(link)
            found.append(
                Problem(
                    kind=ProblemKind.SLOW,
                    message=f"an all-reduce between {host} and {pair.peer} takes {1000 * pair.seconds:.3g} ms; the "
                    f"median of other pairs of nodes is {1000 * usual[host]:.3g} ms",
                    ends_segment=False,
                    exclude=False,
                )
            )
    return found


def _clocks(states: Sequence[CommunicationState], limits: PreflightConfig) -> list[Problem]:
    """Return the nodes whose clock differs from the median of all nodes."""
    clocks: dict[str, float] = {}
    for state in states:
        if state.clock is not None:
            clocks.setdefault(state.host, state.clock)
    if len(clocks) < 2:
        return []
    usual = median(clocks.values())
    found = []
    for host, clock in clocks.items():
        offset = clock - usual
        if abs(offset) <= _CLOCK_SECONDS:
            continue
        found.append(
            Problem(
                kind=ProblemKind.CLOCK,
                message=f"the clock of this node is {abs(offset):.3g} s {'ahead of' if offset > 0 else 'behind'} the "
                "median of all nodes",
                host=host,
                ends_segment=False,
                exclude=abs(offset) > limits.max_clock_offset_seconds,
            )
        )
    return found
