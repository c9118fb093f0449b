"""Test the measured accuracy per language, and that the documentation states the same figures."""

import json
import re
import shutil
import subprocess
import sys
from typing import Any

import pytest
from repository import ROOT

from data_prep.corpus.sources.udhr import DECLARATIONS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    if shutil.which("npm") is None:
        pytest.skip("no npm client on this machine (apt-get install npm)")
    command = [sys.executable, "bench/langid_accuracy.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    if "npm failed" in done.stderr:
        pytest.skip("the npm client reaches no registry")
    assert done.returncode == 0, done.stderr[-2000:]
    value: dict[str, Any] = json.loads(done.stdout)
    return value


def test_the_mean_over_41_languages_is_95_percent_or_more(result: dict[str, Any]) -> None:
    measured = {language: row["right_percent"] for language, row in result["languages"].items()}
    assert len(DECLARATIONS) == 41
    assert sum(measured[language] for language in DECLARATIONS) / 41 >= 95
    assert min(measured.values()) >= 90
    assert min(row["paragraphs"] for row in result["languages"].values()) >= 50


def test_languages_are_confused_only_with_related_languages(result: dict[str, Any]) -> None:
    taken = {
        (language, label)
        for language, row in result["languages"].items()
        for label, percent in row["accepted_as_percent"].items()
        if percent > 5
    }
    assert taken == {("ak", "tw"), ("tw", "ak"), ("rn", "rw"), ("rw", "rn"), ("st", "nso"), ("tn", "nso")}
    assert result["languages"]["zht"]["accepted_as_percent"].get("zhs", 0) <= 2
    assert result["unseen"]["paragraphs"] > 20_000
    assert result["unseen"]["claimed"] <= 25


def test_the_documentation_states_the_measured_numbers(result: dict[str, Any]) -> None:
    text = (ROOT / "docs/language-identification.md").read_text()
    told = {
        code: (int(paragraphs), float(right))
        for code, paragraphs, right in re.findall(r"^\| [^|]*`(\w+)` \| (\d+) \| ([\d.]+) \|", text, re.MULTILINE)
    }
    assert told.keys() == result["languages"].keys()
    for code, row in result["languages"].items():
        assert told[code][0] == row["paragraphs"], code
        assert told[code][1] == pytest.approx(row["right_percent"], abs=1), code
    (mean,) = re.findall(r"\*\*([\d.]+)\*\* \| \|$", text, re.MULTILINE)
    assert float(mean) == pytest.approx(result["mean_percent"], abs=0.1)
    kept = json.loads((ROOT / "bench/results/langid_accuracy.json").read_text())
    assert kept["languages"].keys() == result["languages"].keys()
    assert kept["mean_percent"] == pytest.approx(result["mean_percent"], abs=0.1)
