"""Who imports whom: rooms import the frame, never each other; the frame imports no room; heavy libraries stay out."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from repository import ROOT

ROOMS = ("data_prep", "training", "export", "monitoring")
PURE = ("bloomery/plan", "bloomery/contracts", "bloomery/config", "bloomery/base", "bloomery/detect")
DEEP_LEARNING = {"torch", "deepspeed", "transformers", "apex"}


def files(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """(top-level package, whether it is imported when the module is) of each import of a file, type checking aside."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            skipped.update(inner for statement in node.body for inner in ast.walk(statement))
    lazy = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.split(".")[0], node not in lazy
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield (node.module or "").split(".")[0], node not in lazy


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_no_other_room(room: str) -> None:
    others = set(ROOMS) - {room}
    wrong = [(str(path), name) for path in files(room) for name, _ in imports(path) if name in others]
    assert not wrong


def test_the_frame_imports_no_room() -> None:
    assert not [(str(path), name) for path in files("bloomery") for name, _ in imports(path) if name in ROOMS]


def test_plan_contracts_config_base_and_detect_import_no_deep_learning() -> None:
    assert not [(str(path), name) for path in files(*PURE) for name, _ in imports(path) if name in DEEP_LEARNING]


def test_data_preparation_and_monitoring_import_neither_torch_nor_deepspeed() -> None:
    heavy = {"torch", "deepspeed"}
    assert not [
        (str(path), name) for path in files("data_prep", "monitoring") for name, _ in imports(path) if name in heavy
    ]


def test_command_lines_import_heavy_libraries_only_when_a_verb_runs() -> None:
    heavy = DEEP_LEARNING | {"datasets", "pyarrow", "tokenizers", "matplotlib", "huggingface_hub", "numpy"}
    modules = [
        path for path in files("bloomery", *ROOMS) if path.name.endswith("cli.py") or path.parent.name == "commands"
    ]
    wrong = [(str(path), name) for path in modules for name, at_import in imports(path) if at_import and name in heavy]
    assert len(modules) > 8
    assert not wrong


def test_everything_imported_is_a_declared_dependency() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [requirement for extra in project["optional-dependencies"].values() for requirement in extra]
    requirements = project["dependencies"] + extras
    declared = {requirement.split(">")[0].lower().replace("-", "_") for requirement in requirements}
    # Module -> the declared distribution that it belongs to or comes with.
    modules = {
        "yaml": "pyyaml",
        "pynvml": "nvidia_ml_py",
        "pydantic_core": "pydantic",
        "httpx2": "huggingface_hub",
        "fasttext": "fasttext_predict",
    }
    optional = {"apex", "flash_attn"}
    known = set(sys.stdlib_module_names) | set(ROOMS) | {"bloomery"} | optional
    used = {name for path in files("bloomery", *ROOMS) for name, _ in imports(path)} - known
    missing = sorted(name for name in used if modules.get(name, name) not in declared)
    assert not missing


def test_a_login_node_needs_no_torch_to_launch() -> None:
    program = "import sys, training.launch; print({'torch', 'deepspeed'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "set()"
