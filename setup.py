"""Build the compiled kernels in ``csrc/``. All other settings of the package are in ``pyproject.toml``."""

from pathlib import Path

from pybind11.setup_helpers import Pybind11Extension
from setuptools import setup

# The kernels must compute the same bytes on every machine, so these flags exclude -march=native, -ffast-math and the
# contraction of a * b + c.
FLAGS = ["-O3", "-std=c++17", "-fvisibility=hidden", "-ffp-contract=off", "-Wall", "-Wextra"]
SHARED_HEADERS = ["csrc/text/bytes.hpp", "csrc/text/documents.hpp", "csrc/text/hash.hpp"]


def files(folder: str, pattern: str) -> list[str]:
    """Return the sorted paths of the matching files, relative to the folder in which setuptools runs this file."""
    return sorted(path.as_posix() for path in Path(folder).glob(pattern))


def kernel(module: str, folder: str) -> Pybind11Extension:
    """Return the extension ``module``, built from all C++ files in ``folder``."""
    return Pybind11Extension(
        module,
        files(folder, "*.cpp"),
        depends=[*files(folder, "*.hpp"), *SHARED_HEADERS],
        extra_compile_args=FLAGS,
        extra_link_args=["-s"],
    )


setup(
    ext_modules=[
        kernel("data_prep.corpus._text", "csrc/text"),
        kernel("data_prep.tokenizer._bpe", "csrc/bpe"),
        kernel("data_prep.index._index", "csrc/index"),
        kernel("training.model._dropout", "csrc/dropout"),
    ]
)
