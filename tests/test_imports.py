"""Test the rules of imports (docs/design.md).

A floor of the frame imports only floors below it, a room imports only the frame, and there are no import cycles. Every
import counts, also inside a function and under TYPE_CHECKING.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from repository import ROOT

ROOMS = ("data_prep", "training", "export", "monitoring", "planner")
FLOORS = (
    "base",
    "config",
    "spec",
    "contracts",
    "detect",
    "checkpoint",
    "checks",
    "orchestration",
    "commands",
)
"""The floors of the frame, starting with the lowest. `bloomery/cli.py` is above all of them."""
PURE = ("base", "config", "spec", "contracts", "detect", "checks", "orchestration")
DEEP_LEARNING = {"torch", "deepspeed", "transformers", "apex"}


@cache
def modules() -> dict[str, Path]:
    """Return the file of every module of the packages."""
    found = {}
    for package in ("bloomery", *ROOMS):
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports(path: Path) -> tuple[tuple[str, bool, bool], ...]:
    """Return all imports of a file as (module, imported at import time, imported only for types)."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    lazy = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(node)
    }
    found = []
    for node in ast.walk(tree):
        kind = (node not in lazy, node in for_types)
        if isinstance(node, ast.Import):
            found += [(alias.name, *kind) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            package = node.module or ""
            for alias in node.names:
                name = f"{package}.{alias.name}"
                found.append((name if name in modules() else package, *kind))
    return tuple(found)


def edges() -> Iterator[tuple[str, str]]:
    """Yield (importing module, imported module) for every import between modules of the packages."""
    for module, path in modules().items():
        for name, _, _ in imports(path):
            if name in modules() and name != module:
                yield module, name


def floor_of(module: str) -> int:
    """Return the number of a module's floor in the frame, counted from the lowest floor."""
    _, _, below = module.partition(".")
    name = below.partition(".")[0]
    return FLOORS.index(name) if name in FLOORS else len(FLOORS)


def is_room(module: str) -> bool:
    return module.partition(".")[0] in ROOMS


def external(*folders: str) -> Iterator[tuple[str, str, bool]]:
    """Yield (module, imported top-level package, imported at import time) for modules below `folders`.

    Imports only for types are omitted.
    """
    for module, path in modules().items():
        if any(path.is_relative_to(ROOT / folder) for folder in folders):
            for name, at_import, only_types in imports(path):
                if not only_types:
                    yield module, name.partition(".")[0], at_import


def test_every_folder_of_the_frame_is_a_floor() -> None:
    folders = {path.parent.name for path in (ROOT / "bloomery").glob("*/__init__.py")}
    assert folders == set(FLOORS)
    assert len(modules()) > 400


def test_a_floor_imports_only_floors_below_it() -> None:
    frame = [(one, other) for one, other in edges() if not is_room(one) and not is_room(other)]
    assert not [(one, other) for one, other in frame if floor_of(other) > floor_of(one)]
    assert len(frame) > 300


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_the_frame_and_no_other_room(room: str) -> None:
    own = [(one, other) for one, other in edges() if one.partition(".")[0] == room]
    assert not [(one, other) for one, other in own if is_room(other) and other.partition(".")[0] != room]
    assert not [(one, other) for one, other in own if other == "bloomery.cli"]
    assert own


def test_the_frame_imports_no_room() -> None:
    """`bloomery/cli.py` only names the rooms in its table of verbs, and imports a room when its verb runs."""
    assert not [(one, other) for one, other in edges() if not is_room(one) and is_room(other)]
    assert not [
        (path.name, name)
        for path in [ROOT / "workflow/Snakefile", *(ROOT / "workflow").rglob("*.smk")]
        for name in ROOMS
        if f"from {name}" in path.read_text(encoding="utf-8") or f"import {name}" in path.read_text(encoding="utf-8")
    ]


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return groups of modules that import each other: strongly connected components of at least two (Tarjan 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in sorted(graph.get(module, ())):
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            group = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(group) > 1:
                found.append(sorted(group))

    for module in sorted(graph):
        if module not in index:
            visit(module)
    return found


def test_there_are_no_import_cycles() -> None:
    graph: dict[str, set[str]] = {}
    for one, other in edges():
        graph.setdefault(one, set()).add(other)
    assert not cycles(graph)


def test_cycles_finds_a_cycle() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}) == [["b", "c"]]


def test_pure_floors_and_the_planner_import_no_deep_learning() -> None:
    folders = [f"bloomery/{floor}" for floor in PURE]
    assert not [found for found in external(*folders, "planner") if found[1] in DEEP_LEARNING]


def test_data_preparation_and_monitoring_import_neither_torch_nor_deepspeed() -> None:
    assert not [found for found in external("data_prep", "monitoring") if found[1] in {"torch", "deepspeed"}]


def test_command_lines_import_heavy_libraries_only_when_a_verb_runs() -> None:
    heavy = DEEP_LEARNING | {"datasets", "pyarrow", "tokenizers", "matplotlib", "huggingface_hub", "numpy"}
    # `bloomery status` and other quick commands load these modules when they start.
    early = {
        "monitoring/status.py",
        "monitoring/summary.py",
        "monitoring/training_progress.py",
        "planner/plan_options.py",
    }
    verbs = [
        module
        for module, path in modules().items()
        if path.name.endswith("cli.py")
        or path.parent == ROOT / "bloomery/commands"
        or str(path.relative_to(ROOT)) in early
    ]
    assert len(verbs) > 15
    wrong = [found for found in external("bloomery", *ROOMS) if found[0] in verbs and found[2] and found[1] in heavy]
    assert not wrong


def test_every_imported_package_is_a_declared_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [requirement for extra in project["optional-dependencies"].values() for requirement in extra]
    requirements = project["dependencies"] + extras
    declared = {requirement.split(">")[0].lower().replace("-", "_") for requirement in requirements}
    # Maps a module to the declared distribution that contains or installs it.
    distribution = {
        "yaml": "pyyaml",
        "pynvml": "nvidia_ml_py",
        "pydantic_core": "pydantic",
        "httpx2": "huggingface_hub",
        "fasttext": "fasttext_predict",
    }
    optional = {"apex", "flash_attn"}
    known = set(sys.stdlib_module_names) | set(ROOMS) | {"bloomery"} | optional
    used = {name for _, name, _ in external("bloomery", *ROOMS)} - known
    missing = sorted(name for name in used if distribution.get(name, name) not in declared)
    assert not missing


def test_the_launcher_imports_no_torch() -> None:
    program = "import sys, training.segments.launch; print({'torch', 'deepspeed'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "set()"
