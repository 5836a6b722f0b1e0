# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests. The tests run on the installed package; without torch or a GPU, tests that need it are skipped."""
import os
import pathlib

import pytest

from sluice import _library

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Gives the test its own kernel cache, in an empty folder."""
    folder = tmp_path / "kernels"
    monkeypatch.setenv("SLUICE_CACHE_DIR", str(folder))
    return folder


@pytest.fixture(scope="session")
def source_root() -> pathlib.Path:
    return ROOT


@pytest.fixture(scope="session")
def has_nvrtc() -> bool:
    """Returns True if NVRTC of CUDA 13 is installed. A folder of another CUDA version does not count."""
    return "SLUICE_NVRTC" in _library.tool_environment() or any(
        pathlib.Path(folder, "lib64", _library.NVRTC).is_file() for folder in (os.environ.get("CUDA_PATH"), _library.TOOLKIT) if folder)


@pytest.fixture(params=["numpy", "torch", "cuda"])
def library(request):
    """Returns a function that converts a numpy array to an array of the library under test: numpy, torch, or
    torch on a GPU."""
    if request.param == "numpy":
        return lambda array: array
    torch = pytest.importorskip("torch")
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU")
    return lambda array: torch.from_numpy(array).to("cpu" if request.param == "torch" else "cuda")


@pytest.fixture
def make(library):
    """Returns a function: make(lists, "int32") gives an array of the library under test. It accepts
    "bfloat16" if the library has that type."""
    numpy = pytest.importorskip("numpy")

    def of_lists(values, kind):
        if kind != "bfloat16":
            return library(numpy.array(values, dtype=kind))
        array = library(numpy.array(values, dtype="float32"))
        return pytest.skip("numpy has no bf16") if isinstance(array, numpy.ndarray) else array.bfloat16()

    return of_lists
