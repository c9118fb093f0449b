"""Test that the repository's files about packaging, documentation and CI agree with each other."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from repository import ROOT

from bloomery.config.key_reference import json_schema, reference_page

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def normal(requirement: str) -> tuple[str, str]:
    """Return name and version range of a requirement, for example (`torch`, `<3,>=2`) for `Torch >=2,<3`."""
    name, specifier = re.fullmatch(r"([A-Za-z0-9_.-]+)(.*)", requirement.replace(" ", "")).groups()
    return re.sub(r"[-_.]+", "-", name).lower(), ",".join(sorted(specifier.split(",")))


def locked() -> dict[str, str]:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    return dict(normal(line) for line in lines if line and not line.startswith("#"))


def test_the_conda_environment_has_the_requirements_of_pyproject() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    pip = next(entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict))
    wanted = [*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"]]
    assert sorted(map(normal, pip)) == sorted(map(normal, wanted))
    assert f"python{PROJECT['project']['requires-python']}" in environment["dependencies"]


def test_the_rules_use_the_same_conda_environment() -> None:
    assert (ROOT / "workflow/envs/bloomery.yaml").resolve() == (ROOT / "environment.yml").resolve()


def test_the_lock_file_covers_all_requirements_for_use_and_development() -> None:
    packaging = pytest.importorskip("packaging.requirements")
    project = PROJECT["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"], *PROJECT["build-system"]["requires"]]
    versions = locked()
    for requirement in map(packaging.Requirement, wanted):
        version = versions[normal(requirement.name)[0]].removeprefix("==")
        assert requirement.specifier.contains(version), (requirement, version)


def test_the_lock_file_pins_no_cuda_packages() -> None:
    text = (ROOT / "requirements.lock").read_text()
    entries = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9A-Za-z.]+", line) for line in entries)
    # nvidia-ml-py is pure Python and can be imported without a GPU.
    cuda = [line for line in entries if line.startswith(("nvidia", "triton")) and not line.startswith("nvidia-ml-py=")]
    assert not cuda
    assert entries == sorted(entries, key=lambda line: line.split("==")[0].lower())


def test_the_key_reference_is_up_to_date() -> None:
    assert (ROOT / "config/README.md").read_text() == reference_page(), (
        "run: bloomery config reference --output config/README.md"
    )


def test_every_key_has_a_description() -> None:
    for definition in [json_schema(), *json_schema()["$defs"].values()]:
        for name, value in definition["properties"].items():
            assert value.get("description"), (definition["title"], name)


def test_the_slurm_profile_is_available_as_slurm() -> None:
    assert (ROOT / "slurm/config.yaml").is_file()
    assert (ROOT / "slurm").readlink() == Path("workflow/profiles/slurm")


def test_the_licence_is_apache() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert PROJECT["project"]["license"] == "Apache-2.0"


def test_the_version_is_the_same_in_package_project_and_changelog() -> None:
    import bloomery

    assert bloomery.__version__ == PROJECT["project"]["version"]
    assert f"## [{bloomery.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_continuous_integration_runs_make_test() -> None:
    script = ROOT / ".ci/run"
    assert os.access(script, os.X_OK)
    assert "exec make test" in script.read_text()


def test_files_stay_short() -> None:
    paths = [
        path
        for room in ("bloomery", "data_prep", "training", "export", "monitoring")
        for path in (ROOT / room).rglob("*.py")
    ]
    long = {str(path.relative_to(ROOT)): lines for path in paths if (lines := len(path.read_text().splitlines())) > 400}
    assert not long
    assert len((ROOT / "workflow/Snakefile").read_text().splitlines()) < 100


def test_config_schema_prints_the_json_schema() -> None:
    done = subprocess.run([sys.executable, "-m", "bloomery.cli", "config", "schema"], capture_output=True, check=True)
    assert json.loads(done.stdout) == json_schema()
