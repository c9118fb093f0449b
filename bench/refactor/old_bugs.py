"""Reintroduce ten old bugs, one at a time, and check that the tests catch each of them.

`old_bugs.toml` lists the bugs. The program copies the tree, with the compiled kernels, to a temporary folder, and
changes only this copy. It first runs every listed test without a bug, and all must pass. Then it puts one bug at a
time into the copy and runs the tests of this bug, and each must fail. The program prints a table to stdout. `--json`
also writes the results to a file.

The exit code is 1 if a bug is not caught, or if the text that it replaces does not occur exactly once. The list names
test functions without files, because files of tests may move. The program searches for the file that defines a test.

    python bench/refactor/old_bugs.py [--only COMMIT ...] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
BUGS = Path(__file__).with_suffix(".toml")
PACKAGES = ("bloomery", "data_prep", "training", "export", "monitoring", "planner")
TIMEOUT_SECONDS = 300.0
TESTS_FAILED = 1
"""Exit code of pytest if tests ran and some failed. Higher codes mean that tests could not run."""


class NotCheckedError(Exception):
    """The list of bugs does not fit this tree, or the tests cannot run."""


@dataclass(frozen=True)
class Bug:
    """One entry of `old_bugs.toml`, which explains each field."""

    commit: str
    subject: str
    wrong: str
    file: str
    present: str
    bug: str
    tests: tuple[str, ...]


@dataclass(frozen=True)
class Tests:
    """One run of pytest."""

    code: int
    passed: frozenset[str]
    """Test functions whose cases all passed."""
    failed: dict[str, str]
    """Test functions with at least one failed case, mapped to the first line of the first failure."""
    seconds: dict[str, float]
    """Seconds of each test function, summed over its cases."""
    output: str


@dataclass(frozen=True)
class Result:
    """The result for one bug."""

    commit: str
    subject: str
    wrong: str
    file: str
    tests: tuple[str, ...]
    caught: bool
    failures: tuple[str, ...]
    """First line of each test's failure with the bug, which shows whether the test fails for the right reason."""
    problem: str
    """Reason why the bug counts as not caught, or an empty text if it was caught."""
    clean_seconds: float
    """Seconds of the bug's tests without the bug."""
    bug_seconds: float
    """Seconds of the bug's tests with the bug, including the start of pytest."""


def read_bugs(path: Path) -> list[Bug]:
    """Read the list of bugs."""
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["bug"]
    return [Bug(**entry | {"tests": tuple(entry["tests"])}) for entry in entries]


def copy_tree(root: Path, copy: Path) -> None:
    """Copy the files that git does not ignore, and the compiled kernels, from `root` to `copy`."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        check=True,
    )
    names = [os.fsdecode(name) for name in listed.stdout.split(b"\0") if name]
    kernels = [path.relative_to(root).as_posix() for package in PACKAGES for path in (root / package).rglob("*.so")]
    for name in {*names, *kernels}:
        source, target = root / name, copy / name
        if source.is_symlink() or source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)


def check_imports(copy: Path) -> None:
    """Raise NotCheckedError unless every package is imported from the copy."""
    code = f"import importlib\nfor name in {PACKAGES}: print(importlib.import_module(name).__file__)"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=copy, env=_environment(copy), capture_output=True, text=True, check=True
    )
    for line in found.stdout.splitlines():
        if not Path(line).resolve().is_relative_to(copy.resolve()):
            raise NotCheckedError(f"{line} is imported and would be tested instead of the copy in {copy}")


def node_id(copy: Path, function: str) -> str:
    """Return `file::function` for a test function. Raises NotCheckedError unless exactly one file defines it."""
    definition = re.compile(rf"^(?:async )?def {re.escape(function)}\(", re.MULTILINE)
    files = [
        path.relative_to(copy).as_posix()
        for path in sorted((copy / "tests").rglob("test_*.py"))
        if definition.search(path.read_text(encoding="utf-8"))
    ]
    if len(files) != 1:
        raise NotCheckedError(f"{function} is defined in {len(files)} files: {', '.join(files)}")
    return f"{files[0]}::{function}"


def run_tests(copy: Path, functions: Sequence[str], *, until_first: bool = False) -> Tests:
    """Run test functions of the copy in one pytest process, which is killed after `TIMEOUT_SECONDS`.

    With `until_first`, pytest stops at the first failure.
    """
    ids = [node_id(copy, function) for function in functions]
    report = copy / ".old-bugs.xml"
    report.unlink(missing_ok=True)
    temporary = copy.parent / "pytest"
    command = [sys.executable, "-m", "pytest", "--quiet", "--tb=short", "-p", "no:cacheprovider"]
    command.append(f"--basetemp={temporary}")
    process = subprocess.Popen(
        [*command, *(["--exitfirst"] if until_first else []), f"--junitxml={report}", *ids],
        cwd=copy,
        env=_environment(copy),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        output = f"killed after {TIMEOUT_SECONDS:g} s"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    passed, failed, seconds = set[str](), dict[str, str](), dict[str, float]()
    cases = ElementTree.parse(report).iter("testcase") if report.is_file() else ()
    for case in cases:
        function = case.get("name", "").partition("[")[0]
        seconds[function] = seconds.get(function, 0.0) + float(case.get("time", 0))
        problem = next((found for kind in ("failure", "error") if (found := case.find(kind)) is not None), None)
        if problem is not None:
            message = problem.get("message", "").partition("\n")[0]
            failed.setdefault(function, message.replace(f"{temporary}/", ""))
        elif case.find("skipped") is None:
            passed.add(function)
    return Tests(process.returncode, frozenset(passed - failed.keys()), failed, seconds, output)


def put_back(copy: Path, bug: Bug) -> str:
    """Put a bug into the copy and return the file's text without it.

    Raises:
        NotCheckedError: The text that the bug replaces does not occur exactly once.
    """
    path = copy / bug.file
    if not path.is_file():
        raise NotCheckedError(f"no file {bug.file}")
    text = path.read_text(encoding="utf-8")
    count = text.count(bug.present)
    if count != 1:
        raise NotCheckedError(f"the text in `present` occurs {count} times in {bug.file}; expected: once")
    _write(path, text.replace(bug.present, bug.bug))
    return text


def check(copy: Path, bug: Bug, clean: Tests) -> Result:
    """Put one bug into the copy, run its tests, and restore the file."""
    clean_seconds = sum(clean.seconds.get(function, 0.0) for function in bug.tests)
    started = time.monotonic()

    def result(problem: str, failures: Sequence[str] = ()) -> Result:
        return Result(
            bug.commit,
            bug.subject,
            bug.wrong,
            bug.file,
            bug.tests,
            not problem,
            tuple(failures),
            problem,
            round(clean_seconds, 1),
            round(time.monotonic() - started, 1),
        )

    broken = [function for function in bug.tests if function not in clean.passed]
    if broken:
        return result(f"does not pass without the bug: {', '.join(broken)}")
    try:
        before = put_back(copy, bug)
    except NotCheckedError as error:
        return result(str(error))
    try:
        found = run_tests(copy, bug.tests, until_first=len(bug.tests) == 1)
    finally:
        _write(copy / bug.file, before)
    if found.code != TESTS_FAILED:
        print(found.output, file=sys.stderr)
        return result("the tests pass with the bug" if found.code == 0 else f"pytest ended with code {found.code}")
    missed = [function for function in bug.tests if function not in found.failed]
    problem = f"does not fail with the bug: {', '.join(missed)}" if missed else ""
    return result(problem, list(found.failed.values()))


def render(results: Sequence[Result]) -> str:
    """Return the table as text."""
    lines = [f"{'commit':8} {'caught':7} {'clean s':>8} {'bug s':>7}  what went wrong, file and tests"]
    for each in results:
        caught = "yes" if each.caught else "NO"
        lines += [
            f"{each.commit:8} {caught:7} {each.clean_seconds:8.1f} {each.bug_seconds:7.1f}  {each.wrong}",
            f"{'':34}{each.file}: {', '.join(each.tests)}",
        ]
        lines += [f"{'':34}{text[:120]}" for text in (*each.failures, each.problem) if text]
    return "\n".join(lines)


def main() -> int:
    """Check all bugs or the bugs of the given commits."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument(
        "--only", nargs="+", metavar="COMMIT", help="check only the bugs of these commits; default: all"
    )
    arguments.add_argument("--json", type=Path, metavar="FILE", help="also write the results to this JSON file")
    chosen = arguments.parse_args()
    bugs = [bug for bug in read_bugs(BUGS) if chosen.only is None or bug.commit in chosen.only]
    if not bugs:
        arguments.error("no bug in old_bugs.toml has one of these commits")
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="old-bugs-") as folder:
        copy = Path(folder) / "tree"
        copy_tree(ROOT, copy)
        try:
            check_imports(copy)
            clean = run_tests(copy, sorted({function for bug in bugs for function in bug.tests}))
        except NotCheckedError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        if clean.code != 0:
            print(clean.output, file=sys.stderr)
        print(f"without a bug: {len(clean.passed)} tests pass, {len(clean.failed)} fail", file=sys.stderr)
        results = []
        for bug in bugs:
            results.append(check(copy, bug, clean))
            last = results[-1]
            print(f"{last.commit} {'caught' if last.caught else 'NOT CAUGHT'} in {last.bug_seconds} s", file=sys.stderr)
    print(render(results))
    caught, seconds = sum(each.caught for each in results), round(time.monotonic() - started, 1)
    print(f"{caught} of {len(results)} bugs are caught, in {seconds} s")
    if chosen.json is not None:
        facts = {"caught": caught, "seconds": seconds, "bugs": [asdict(each) for each in results]}
        chosen.json.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    return 0 if caught == len(results) else 1


def _environment(copy: Path) -> dict[str, str]:
    """Return this program's environment, changed so that Python imports the packages of the copy.

    pytest loads no plugins, because these tests need none, and importing plugins takes longer than most of the tests.
    """
    return os.environ | {"PYTHONPATH": str(copy), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def _write(path: Path, text: str) -> None:
    """Write a source file, and remove its compiled form, which Python would reuse if time and size were equal."""
    path.write_text(text, encoding="utf-8")
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        compiled.unlink()


if __name__ == "__main__":
    sys.exit(main())
