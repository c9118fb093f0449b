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
