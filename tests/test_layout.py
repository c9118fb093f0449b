"""The tests mirror the source tree: a reader finds the tests of a module by its path."""

from __future__ import annotations

from pathlib import Path

import pytest
from repository import ROOT

TESTS = ROOT / "tests"
# Folders whose tests belong to no single package: behaviour across modules, compiled kernels, benchmarks, helpers.
OUTSIDE = {"integration", "csrc", "bench", "support"}
# Tests of a whole folder -> why they name no module of it.
FOLDER_TESTS = {
    "data_prep/corpus/test_chain.py": "all verbs of the corpus, one after the other",
    "data_prep/corpus/test_roots_defects.py": "one defect of the ROOTS scripts a test, over the whole corpus package",
    "data_prep/corpus/dedup/test_dedup.py": "deduplication as a whole: keys, candidates, components and verdicts",
    "data_prep/corpus/lines/test_lines.py": "repeated lines as a whole: counted, found and stripped",
    "data_prep/corpus/sources/test_max_documents.py": "a limit that all kinds of sources share",
    "data_prep/report/test_corpus_report.py": "what the whole report must not contain, and that its numbers agree",
    "data_prep/report/test_other_runs.py": "the whole report of runs other than the sample",
    "training/test_minimal_install.py": "the whole package without what only the workflow needs",
}


def mirrored_tests() -> list[Path]:
    """Every test file that must mirror a module, relative to tests."""
    paths = [path.relative_to(TESTS) for path in sorted(TESTS.rglob("test_*.py"))]
    return [path for path in paths if len(path.parts) > 1 and path.parts[0] not in OUTSIDE]


def modules(folder: Path) -> set[str]:
    return {path.stem for path in (ROOT / folder).glob("*.py")} - {"__init__"}


@pytest.mark.parametrize("path", [path for path in mirrored_tests() if str(path) not in FOLDER_TESTS], ids=str)
def test_a_test_file_lies_and_is_named_as_its_module(path: Path) -> None:
    name = path.stem.removeprefix("test_")
    found = modules(path.parent)
    assert any(name == module or name.startswith(f"{module}_") for module in found), (
        f"tests/{path}: expected: test_<module>.py or test_<module>_<topic>.py, for a module of {path.parent}/"
    )


def test_the_list_of_folder_tests_is_up_to_date() -> None:
    for path in map(Path, FOLDER_TESTS):
        assert (TESTS / path).is_file(), path
        assert (ROOT / path.parent).is_dir(), path


def test_every_other_test_lies_in_a_folder_that_is_known_here() -> None:
    assert len(mirrored_tests()) > 200
    tops = {path.relative_to(TESTS).parts[0] for path in TESTS.rglob("test_*.py") if path.parent != TESTS}
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert tops <= packages | OUTSIDE
