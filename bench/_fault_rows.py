"""Turn the results of benchmarks that damage or disturb runs into rows of docs/benchmarks.md.

Each function is named after its benchmark.
"""

from __future__ import annotations

from collections.abc import Iterator

from _benchmark_rows import Result, Row


def last_good_result(result: Result) -> Iterator[Row]:
    """Yield the row of bench/last_good_result.py."""
    rules = {name.partition(",")[0] for name, count in result["tries_by_rule"].items() if count}
    killed = sum(count for name, count in result["tries_by_rule"].items() if name.endswith("kill"))
    yield Row(
        f"last good results that are lost when a job fails or is killed; {result['tries']} jobs of {len(rules)} rules, "
        f"of which {killed} were killed",
        "0",
        f"{len(result['lost'])}",
    )


def hostile_edits(result: Result) -> Iterator[Row]:
    """Yield the row of bench/hostile_edits.py."""
    yield Row(
        f"changed bytes that `bloomery verify` misses, of {result['edits']} in {len(result['kinds'])} kinds of file",
        "0",
        f"{len(result['missed'])}",
    )


def non_finite(result: Result) -> Iterator[Row]:
    """Yield the row of bench/non_finite.py."""
    yield Row(
        f"trainings that finish without a person after one value of their state became NaN, of {result['chains']}",
        f"{result['chains']}",
        f"{result['finished']}; {result['finished_with_equal_losses']} have the losses of the undisturbed training, "
        f"{len(result['finished_with_one_skipped_update'])} skipped one update",
    )


def crashes(result: Result) -> Iterator[Row]:
    """Yield the row of bench/crashes.py."""
    trainings = result["trainings"]
    yield Row(
        "crashes of real trainings (`kill -9` of a rank after a new checkpoint), at a limit of "
        f"{result['limits']['max_crashes']} crashes without progress",
        f"{len(trainings)} of {len(trainings)} trainings finish",
        f"{sum(each['last_status'] == 'finished' for each in trainings)} finished after "
        f"{' and '.join(str(each['crashed_segments']) for each in trainings)} crashes, "
        f"{sum(each['losses_equal'] for each in trainings)} with the losses of the undisturbed training",
    )


def fuzz(result: Result) -> Iterator[Row]:
    """Yield the row of bench/fuzz.py."""
    random = sum(count for name, count in result["mutations"].items() if not name.startswith("every value"))
    edits = sum(result["mutations"].values()) - random
    yield Row(
        f"damaged files of a run that cause a traceback, a write outside of the run, or a wait of more than "
        f"{result['limit_seconds']:g} s; {random:,} random changes and {edits:,} edited values",
        "0",
        f"{len(result['failures'])}",
    )


def alerts(result: Result) -> Iterator[Row]:
    """Yield the rows of bench/alerts.py."""
    found, limits = result["faults"], result["limits"]
    yield Row(
        f"alerts and recoveries that a webhook receives for {found['faults']} different faults",
        f"{limits['alerts']} and {limits['recoveries']}",
        f"{found['alerts']} and {found['recoveries']}; {found['other_messages']} other messages",
    )
    yield Row(
        f"false alarms of all detectors per 100,000 clean iterations; {result['clean_iterations']:,} were simulated",
        f"{limits['false_alarms_per_100000']:g}",
        f"{result['false_alarms_per_100000']:g}",
    )


def chaos(result: Result) -> Iterator[Row]:
    """Yield the rows of bench/chaos.py."""
    faults = result["faults"]
    idle = sorted(each["idle_seconds"] for each in faults)
    kinds = len({each["fault"] for each in faults})
    same = "equal" if result["losses_equal"] and not result["differing_checkpoint_files"] else "different"
    yield Row(
        f"losses and bytes of the last checkpoint after {len(faults)} random faults of {kinds} kinds in one training "
        f"on a real SLURM (seed {result['seed']}, {result['iterations']:,} iterations), without a typed command",
        "equal",
        f"{same}; {len(result['segments'])} segments",
        "the same training on one machine, without faults",
    )
    yield Row(
        "longest time without training after a fault, from the end of an outage or the detection of a hang",
        f"{result['limits']['idle_seconds']:g} s",
        f"{idle[-1]:.0f} s; median {idle[len(idle) // 2]:.0f} s",
    )


def segment_gap(result: Result) -> Iterator[Row]:
    """Yield the row of bench/segment_gap.py."""
    gaps, between = result["gap_seconds"], result["seconds_between_iterations"]
    yield Row(
        f"longest of {len(gaps)} gaps between two segments if every job waits {result['queue_seconds']} s in the queue",
        f"{result['limits']['gap_seconds']:g} s",
        f"{max(gaps):.0f} s; {max(between):.0f} s from the last iteration to the next one",
        f"a job that is submitted after the end of a segment waits {result['queue_seconds']} s",
    )
