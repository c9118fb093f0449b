"""Claim: damage to a file of a run causes no traceback, no write outside of the run, and no call that takes over 5 s.

python bench/fuzz.py --mutations 10000 > bench/results/fuzz.json

tests/support/hostile_run.py makes a finished run. Each mutation copies the run, changes one of its files (manifest,
parity.json, reference, metrics, card, index, segments and others) and calls the commands that read this file. A command
must succeed or raise an error of Bloomery. In addition, every single value of the JSON files is replaced by several
other values, as in a careless edit (`--no-edits` leaves this out). The seed and the number of a mutation determine the
mutation, so `--no-edits --first NUMBER --mutations 1` repeats the mutation NUMBER. The program prints JSON on stdout,
and each kind of failure on stderr. The exit code is 1 if the result contains a failure.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from hostile_verbs import EDITED, MOST_SECONDS, Result, edit_by_hand, fuzz, kinds

_BATCH = 500
"""Number of mutations in a batch. Each batch makes its own run, which takes a few seconds."""


def _batch(task: tuple[range | str, int]) -> Result:
    """Make the mutations or the edits of a task.

    The first item of `task` is the range of the numbers of the mutations, or the name of the file that is edited. The
    second item is the seed of the mutations.
    """
    import torch
    import transformers

    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as folder:
        numbers, seed = task
        if isinstance(numbers, str):
            return edit_by_hand(Path(folder), [numbers])
        return fuzz(Path(folder), numbers, seed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutations", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first mutation")
    parser.add_argument("--seed", type=int, default=18)
    parser.add_argument("--edits", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    numbers = range(options.first, options.first + options.mutations)
    tasks: list[tuple[range | str, int]] = [(name, 0) for name in EDITED if options.edits]
    tasks += [(numbers[start : start + _BATCH], options.seed) for start in range(0, len(numbers), _BATCH)]
    started = time.monotonic()
    results = []
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        for result in pool.imap_unordered(_batch, tasks):
            results.append(result)
            done = sum(sum(each.mutations.values()) for each in results)
            print(f"{done:,} mutations and edits", file=sys.stderr, flush=True)
            for count, failure in kinds(result.failures):
                print(f"{count} x {failure}", file=sys.stderr, flush=True)
    failures = sorted((each for result in results for each in result.failures), key=lambda each: each.mutation)
    longest = {
        verb: max(each.longest.get(verb, 0.0) for each in results) for result in results for verb in result.longest
    }
    value = {
        "benchmark": "fuzz",
        "seed": options.seed,
        "mutations": dict(sorted(sum((each.mutations for each in results), Counter[str]()).items())),
        "calls_refused": dict(sorted(sum((each.refused for each in results), Counter[str]()).items())),
        "calls_accepted": dict(sorted(sum((each.accepted for each in results), Counter[str]()).items())),
        "longest_seconds": {verb: round(seconds, 2) for verb, seconds in sorted(longest.items())},
        "limit_seconds": MOST_SECONDS,
        "failures": [str(failure) for failure in failures],
        "minutes": round((time.monotonic() - started) / 60, 1),
        "passed": not failures,
    }
    print(json.dumps(value, indent=2))
    return 0 if value["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
