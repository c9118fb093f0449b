"""Test that the tests mirror the source tree, so that a reader finds the tests of a module by its path."""

from __future__ import annotations

from pathlib import Path

from repository import ROOT

TESTS = ROOT / "tests"
# Folders that mirror no package: tests across modules, compiled kernels, benchmarks, helpers.
OUTSIDE = {"integration", "csrc", "bench", "support"}
# Test files for a whole folder, with the reason why they belong to no single module.
FOLDER_TESTS = {
    "data_prep/corpus/test_chain.py": "all verbs of the corpus, one after another",
    "data_prep/corpus/test_roots_defects.py": "each test covers one defect of the ROOTS scripts in the whole package",
    "data_prep/corpus/test_earlier_version.py": "several verbs refuse tables of an earlier version",
    "data_prep/corpus/dedup/test_dedup.py": "deduplication as a whole: keys, candidates, components and verdicts",
    "data_prep/corpus/lines/test_lines.py": "repeated lines as a whole: counting, finding and stripping",
    "data_prep/corpus/sources/test_max_documents.py": "all kinds of sources share this limit",
    "data_prep/report/test_other_runs.py": "the whole report of runs other than the sample",
    "training/test_minimal_install.py": "the whole package without the packages that only the workflow needs",
}


def mirrored_tests() -> list[Path]:
    """Return every test file that must mirror a module, relative to tests."""
    paths = [path.relative_to(TESTS) for path in sorted(TESTS.rglob("test_*.py"))]
    return [path for path in paths if len(path.parts) > 1 and path.parts[0] not in OUTSIDE]


def modules(folder: Path) -> set[str]:
    return {path.stem for path in (ROOT / folder).glob("*.py")} - {"__init__"}


def test_every_test_file_has_the_folder_and_name_of_its_module() -> None:
    wrong = []
    for path in mirrored_tests():
        name = path.stem.removeprefix("test_")
        named = any(name == module or name.startswith(f"{module}_") for module in modules(path.parent))
        if not named and str(path) not in FOLDER_TESTS:
            wrong.append(str(path))
    assert not wrong, (
        "expected: test_<module>.py or test_<module>_<topic>.py in the folder that mirrors the folder of the module"
    )


def test_every_folder_test_exists() -> None:
    for path in map(Path, FOLDER_TESTS):
        assert (TESTS / path).is_file(), path
        assert (ROOT / path.parent).is_dir(), path


def test_every_test_folder_is_known() -> None:
    assert len(mirrored_tests()) > 200
    tops = {path.relative_to(TESTS).parts[0] for path in TESTS.rglob("test_*.py") if path.parent != TESTS}
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert tops <= packages | OUTSIDE
