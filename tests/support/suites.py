"""Run suites of tests, say what each took, and end with a table of all of them.

`suites.py unit slow --beside cluster` runs unit and slow one after the other, and cluster at the same time, because it
does not keep a core busy. A suite that fails does not keep the others from running. The exit code
is 1 when a suite failed. Each suite prints its ten slowest tests. PYTEST_ADDOPTS takes further options of pytest.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass

from repository import ROOT

# A worker a core, but not so many that their libraries fill the memory.
_WORKERS = ("--numprocesses=logical", "--maxprocesses=4")
_BY_FILE = (*_WORKERS, "--dist=loadfile")
"""A file stays with its worker and its fixtures."""
_BY_TEST = (*_WORKERS, "--dist=worksteal")
"""Where a few files take most of the time."""
SUITES: dict[str, tuple[str, tuple[str, ...]]] = {
    "unit": ("not slow and not distributed and not workflow and not cluster", _BY_FILE),
    "slow": ("slow and not distributed and not workflow and not cluster", _BY_FILE),
    "distributed": ("distributed and not workflow and not cluster", _BY_TEST),
    "workflow": ("workflow and not cluster", ()),
    "cluster": ("cluster", ()),
}
"""Suite -> (marker expression, options of pytest). Every test belongs to exactly one."""
_SHOWN = 10


@dataclass
class Outcome:
    """How a suite ended."""

    suite: str
    seconds: float
    code: int
    summary: str
    """pytest's last line."""
    failures: list[str]

    @property
    def passed(self) -> bool:
        return self.code == 0


def budgets() -> dict[str, float]:
    """Suite -> minutes that it may take, from the table in CONTRIBUTING.md."""
    rows = re.findall(r"^\| (\w+) \| [^|]* \| ([\d.]+) min \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    return {suite: float(minutes) for suite, minutes in rows}


def run_suite(suite: str, *, aside: bool) -> Outcome:
    """Run one suite; with `aside` its output comes when it has ended, so that it does not mix with another's."""
    expression, options = SUITES[suite]
    command = [sys.executable, "-m", "pytest", "-q", f"--durations={_SHOWN}", *options, "-m", expression]
    # Some machines forbid it; then every worker rewrites every test again, and every verb compiles what it imports.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    print(f"suite {suite}{' (its output comes at its end)' if aside else ''}", flush=True)
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
    """All suites, and where it failed."""
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
    """Run what the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites", nargs="+", choices=SUITES, help="one after the other")
    parser.add_argument("--beside", nargs="+", default=[], choices=SUITES, help="each at the same time as those")
    chosen = parser.parse_args()
    began, outcomes = time.monotonic(), {}

    def run(suite: str, aside: bool) -> None:
        outcomes[suite] = run_suite(suite, aside=aside)

    beside = [threading.Thread(target=run, args=(suite, True)) for suite in chosen.beside]
    for thread in beside:
        thread.start()
    for suite in chosen.suites:
        run(suite, False)
    for thread in beside:
        thread.join()
    ended = [outcomes[suite] for suite in SUITES if suite in outcomes]
    print(f"\n{table(ended, time.monotonic() - began)}", flush=True)
    if lost := sorted({*chosen.suites, *chosen.beside} - outcomes.keys()):
        print(f"FAILED: no end of suite {', '.join(lost)}")
    return 1 if lost or not all(outcome.passed for outcome in ended) else 0


if __name__ == "__main__":
    sys.exit(main())
