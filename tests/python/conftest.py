# SPDX-License-Identifier: Apache-2.0
"""What the tests share. They run on the installed package; those that need torch or a GPU are skipped without."""
import os
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A kernel cache of its own."""
    folder = tmp_path / "kernels"
    monkeypatch.setenv("SLUICE_CACHE_DIR", str(folder))
    return folder


@pytest.fixture(scope="session")
def source_root() -> pathlib.Path:
    return ROOT


@pytest.fixture(scope="session")
def has_nvrtc() -> bool:
    return "SLUICE_NVRTC" in os.environ or pathlib.Path("/usr/local/cuda").exists()
