"""Run suites of tests, print the time of each suite, and end with a table of all suites.

`suites.py cluster --beside workflow unit --beside slow` runs three lanes at the same time: cluster in the first one,
workflow and then unit in the second one, and slow in the third one. Neither workflow nor cluster keeps two cores busy.
If a suite fails, the others still run. The exit code is 1 if a suite failed. Each suite prints its ten slowest tests.
More options of pytest can be given in PYTEST_ADDOPTS.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass

from repository import ROOT

# One worker per core, but at most four, because the libraries of more workers would fill the memory.
_WORKERS = ("--numprocesses=logical", "--maxprocesses=4")
_BY_FILE = (*_WORKERS, "--dist=loadfile")
"""Options that run all tests of a file in one worker, which keeps the fixtures of the file."""
_BY_TEST = (*_WORKERS, "--dist=worksteal")
"""Options that distribute single tests, for suites in which a few files take most of the time."""
SUITES: dict[str, tuple[str, tuple[str, ...]]] = {
    "unit": ("not slow and not distributed and not workflow and not cluster", _BY_FILE),
    "slow": ("slow and not distributed and not workflow and not cluster", _BY_FILE),
    "distributed": ("distributed and not workflow and not cluster", _BY_TEST),
    "workflow": ("workflow and not cluster", ()),
    "cluster": ("cluster", ()),
}
"""Marker expression and options of pytest for each suite. Every test belongs to exactly one suite."""
_THREADS = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
"""Settings of torch's threads. By default, torch starts one thread per core, and a thread that waits for the others
keeps its core busy. Beside other tests, a training then needs three times the processor time."""
_SHOWN = 10


@dataclass
class Outcome:
    """Result of a suite."""

    suite: str
    seconds: float
    code: int
    summary: str
    """Last line of pytest with the counts of tests."""
    failures: list[str]

    @property
    def passed(self) -> bool:
        return self.code == 0


def budgets() -> dict[str, float]:
    """Return the minutes that each suite may take, from the table in CONTRIBUTING.md."""
    rows = re.findall(r"^\| (\w+) \| [^|]* \| ([\d.]+) min \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    return {suite: float(minutes) for suite, minutes in rows}


def run_suite(suite: str, *, aside: bool) -> Outcome:
    """Run one suite. With `aside`, print its output when it has ended, so that it does not mix with other output."""
    expression, options = SUITES[suite]
    command = [sys.executable, "-m", "pytest", "-q", f"--durations={_SHOWN}", *options, "-m", expression]
    # Some machines set this variable. Without stored bytecode, pytest would process every test file again in every
    # worker, and Python would compile all imports in every command.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment |= _THREADS
    print(f"suite {suite}{' (its output is printed at its end)' if aside else ''}", flush=True)
    began, said = time.monotonic(), []
    with tempfile.TemporaryFile("w+", encoding="utf-8") as kept:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        )
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            print(line, end="", file=kept if aside else sys.stdout, flush=not aside)
        code = process.wait()
        seconds = time.monotonic() - began
        kept.seek(0)
        sys.stdout.write(kept.read())
    print(f"suite {suite}: {seconds:.0f} s{'' if code == 0 else ', FAILED'}", flush=True)
    failures = [line.rstrip() for line in said if re.match(r"(FAILED|ERROR) tests/", line)]
    counts = [line.strip("= \n") for line in said if re.search(r"\d+ (passed|failed|error|skipped)|no tests ran", line)]
    return Outcome(suite, seconds, code, counts[-1] if counts else "no summary", failures)


def table(outcomes: list[Outcome], seconds: float) -> str:
    """Return a table of all suites, followed by the failures."""
    allowed = budgets()
    lines = [f"{'suite':<12} {'seconds':>7} {'budget':>7}  result"]
    for each in outcomes:
        budget = f"{60 * allowed[each.suite]:.0f}" if each.suite in allowed else "-"
        over = ", OVER ITS BUDGET" if each.suite in allowed and each.seconds > 60 * allowed[each.suite] else ""
        lines.append(f"{each.suite:<12} {each.seconds:>7.0f} {budget:>7}  {each.summary}{over}")
    lines.append(f"{'all':<12} {seconds:>7.0f}")
    for each in outcomes:
        if not each.passed:
            lines += [f"FAILED: suite {each.suite} (pytest ended with code {each.code})", *each.failures]
    return "\n".join(lines)


def main() -> int:
    """Run the suites that the arguments name. Return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites", nargs="+", choices=SUITES, help="suites to run one after the other")
    parser.add_argument(
        "--beside",
        nargs="+",
        action="append",
        default=[],
        choices=SUITES,
        help="suites to run one after the other, at the same time as the other lanes; can be repeated",
    )
    chosen = parser.parse_args()
    began, outcomes = time.monotonic(), {}

    def run(suites: list[str], aside: bool) -> None:
        for suite in suites:
            outcomes[suite] = run_suite(suite, aside=aside)

    lanes = [threading.Thread(target=run, args=(lane, True)) for lane in chosen.beside]
    for lane in lanes:
        lane.start()
    run(chosen.suites, False)
    for lane in lanes:
        lane.join()
    ended = [outcomes[suite] for suite in SUITES if suite in outcomes]
    print(f"\n{table(ended, time.monotonic() - began)}", flush=True)
    if lost := sorted({*chosen.suites, *itertools.chain(*chosen.beside)} - outcomes.keys()):
        print(f"FAILED: these suites did not end: {', '.join(lost)}")
    return 1 if lost or not all(outcome.passed for outcome in ended) else 0


if __name__ == "__main__":
    sys.exit(main())
