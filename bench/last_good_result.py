"""Make jobs of a finished run fail, or kill them, and check that the last good results stay in place.

    python bench/last_good_result.py --run runs/sample --config config/sample.yaml > bench/results/last_good_result.json

The rules are those whose result is a folder or has several files (tokenizer, index, reports, export, publication and
logs), and the rule that encodes the token files of the index. Each try makes Snakemake run one of these rules again on
a copy of the run. Either the job fails while it writes, because no file may be larger than a limit, or the whole
workflow is killed with SIGKILL at a random moment of the job. After each try, every documented path must lead to the
same bytes as before. After the last try, the workflow must finish the run again.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml
from _support import ROOT, machine, report, workflow_command

from bloomery.base.digest import sha256_file

RULES = (
    "sync_logs",
    "publish_run",
    "export_model",
    "report_training",
    "report_tokenizer",
    "report_corpus",
    "build_index",
    "encode",
    "train_tokenizer",
)
"""The disturbed rules. The last one of the workflow comes first, so that the workflow need not run all later stages
again after each try."""
LARGEST_FILE = 20_000
"""Size in bytes of the largest file that a job can write if it is made to fail. Each of these jobs writes a larger
file."""
SHOWN = (
    "tokenizer/tokenizer.json",
    "tokenizer/tokenizer_config.json",
    "index/index.json",
    "index/arrays",
    "index/token_files",
    "report/corpus.html",
    "report/corpus.json",
    "report/tokenizer.html",
    "report/training.html",
    "export",
    "published",
)
"""Documented paths of the results."""


@dataclass(frozen=True)
class Try:
    """One disturbed job."""

    rule: str
    how: str
    """`failure` or `kill`."""
    seconds: float
    """Time after which the workflow was killed, or the time that the failing workflow took."""
    lost: tuple[str, ...]
    """Paths of results that are missing or changed afterwards."""


def digests(run: Path) -> dict[str, str]:
    """Return the digest of every file below the documented paths of the results."""
    found = {}
    for shown in SHOWN:
        path = run / shown
        folders = os.walk(path, followlinks=True) if path.is_dir() else [(path.parent, [], [path.name])]
        for folder, _, names in folders:
            for file in (Path(folder) / name for name in names):
                found[file.relative_to(run).as_posix()] = sha256_file(file) if file.is_file() else "missing"
    return found


def logs_of(run: Path, rule: str) -> list[Path]:
    """Return the logs of a rule's jobs."""
    return [*run.glob(f"logs/{rule}.log"), *run.glob(f"logs/{rule}/*/*.log")]


def disturb(run: Path, config: Path, rule: str, how: str, delay: float) -> Try:
    """Run `rule` of the run again and disturb it. A kill comes `delay` seconds after the job has begun.

    First, the workflow completes the jobs that an earlier try left incomplete, so that only this job is disturbed.
    """
    workflow = [*workflow_command(ROOT, config), "--until", rule]
    subprocess.run(workflow, check=False, capture_output=True)
    before = digests(run)
    for log in logs_of(run, rule):
        log.unlink()
    start = time.monotonic()
    process = subprocess.Popen(
        [*workflow, "--forcerun", rule],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=_limit_files if how == "failure" else None,
    )
    if how == "kill":
        while process.poll() is None and not logs_of(run, rule):
            time.sleep(0.02)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(delay)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    seconds = time.monotonic() - start
    if not logs_of(run, rule):
        return Try(rule, how, seconds, ("the job did not begin",))
    if how == "failure" and process.returncode == 0:
        return Try(rule, how, seconds, ("the job did not fail",))
    after = digests(run)
    return Try(rule, how, seconds, tuple(name for name in before if after.get(name) != before[name]))


def _limit_files() -> None:
    """Prevent this process and its children from writing a file that is larger than `LARGEST_FILE`."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))


def tries(run: Path, config: Path, count: int, seed: int) -> Iterator[Try]:
    """Disturb each rule several times, then the next rule. In every fourth try the job fails."""
    draw = random.Random(seed)
    for number in range(count):
        rule, how = RULES[number * len(RULES) // count], "failure" if number % 4 == 0 else "kill"
        yield disturb(run, config, rule, how, draw.uniform(0.0, 3.0))


def main() -> int:
    """Disturb a copy of the run, and let the workflow finish the run again. Return 1 if a result was lost."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--run", type=Path, required=True, help="folder of a finished run")
    arguments.add_argument("--config", type=Path, required=True, help="configuration of the run")
    arguments.add_argument("--tries", type=int, default=100)
    arguments.add_argument("--seed", type=int, default=0)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run, config = Path(folder) / given.run.name, Path(folder) / "run.yaml"
        shutil.copytree(given.run, run, symlinks=True)
        config.write_text(yaml.safe_dump(yaml.safe_load(given.config.read_text()) | {"root": folder}))
        found = []
        for each in tries(run, config, given.tries, given.seed):
            found.append(each)
            outcome = ", ".join(each.lost[:3]) or "ok"
            print(
                f"{len(found):>4} {each.rule:<17} {each.how:<8} {each.seconds:6.1f} s  {outcome}",
                file=sys.stderr,
                flush=True,
            )
        done = subprocess.run(workflow_command(ROOT, config), check=False, capture_output=True)
    lost = [asdict(each) for each in found if each.lost]
    counts = {
        f"{rule}, {how}": sum((each.rule, each.how) == (rule, how) for each in found)
        for rule in RULES
        for how in ("failure", "kill")
    }
    result = {
        "seed": given.seed,
        "tries": len(found),
        "tries_by_rule": counts,
        "lost": lost,
        "exit_code_of_the_next_workflow": done.returncode,
        "machine": machine(),
    }
    return report("last_good_result", result, passed=not lost and done.returncode == 0)


if __name__ == "__main__":
    sys.exit(main())
