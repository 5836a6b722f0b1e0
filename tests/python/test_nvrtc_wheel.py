# SPDX-License-Identifier: Apache-2.0
"""The search for NVRTC's wheel, in invented folders: with a toolkit of CUDA 12, with one of CUDA 13, and
without a toolkit."""
import os
import subprocess
import sys

import pytest

from sluice import _library


@pytest.fixture
def site(tmp_path, monkeypatch):
    """An empty site-packages folder, the only place where ``nvidia`` is searched for. No toolkit is
    installed."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setattr(sys, "path", [str(folder)])
    monkeypatch.setitem(sys.modules, "nvidia", None)
    monkeypatch.delitem(sys.modules, "nvidia")
    monkeypatch.setattr(_library, "TOOLKIT", str(tmp_path / "cuda"))
    for name in ("SLUICE_NVRTC", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    return folder


def put(folder, *names):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("no library")


def test_no_wheel_is_none(site):
    assert _library.nvrtc_wheel() is None
    put(site / "nvidia/cudnn/lib", "libcudnn.so.9")
    assert _library.nvrtc_wheel() is None
    put(site / "nvidia/cuda_nvrtc/lib", "libnvrtc.so.12", "libnvrtc.so")
    assert _library.nvrtc_wheel() is None, "a wheel of CUDA 12"


@pytest.mark.parametrize("place", ["cu13/lib", "cuda_nvrtc/lib"])
def test_a_wheel_of_cuda_13_is_found(site, place):
    put(site / "nvidia" / place, "libnvrtc.so.13")
    assert _library.nvrtc_wheel() == str(site)


def test_another_package_called_nvidia_is_none(site):
    (site / "nvidia.py").write_text("")
    assert _library.nvrtc_wheel() is None


def test_the_tool_is_told_of_the_wheel_beside_a_cuda_12(site, tmp_path, monkeypatch):
    put(site / "nvidia/cu13/lib", "libnvrtc.so.13")
    told = dict(os.environ, SLUICE_NVRTC=str(site))
    assert _library.tool_environment() == told, "no toolkit"
    put(tmp_path / "cuda/lib64", "libnvrtc.so.12", "libnvrtc.so")
    assert _library.tool_environment() == told, "CUDA 12: its folder alone says nothing"
    put(tmp_path / "cuda/lib64", "libnvrtc.so.13")
    assert _library.tool_environment() == dict(os.environ), "CUDA 13 goes first"
    monkeypatch.setattr(_library, "TOOLKIT", str(tmp_path / "none"))
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "cuda"))
    assert _library.tool_environment() == dict(os.environ), "CUDA_PATH's too"
    monkeypatch.delenv("CUDA_PATH")
    monkeypatch.setenv("SLUICE_NVRTC", "/mine")
    assert _library.tool_environment()["SLUICE_NVRTC"] == "/mine"


def test_an_import_changes_no_environment(tmp_path):
    """An import must not set SLUICE_NVRTC: every child of the process would inherit it."""
    put(tmp_path / "nvidia/cu13/lib", "libnvrtc.so.13")
    code = "import os; before = dict(os.environ); import sluice; assert before == dict(os.environ); " \
           "assert sluice._library.nvrtc_wheel() == os.environ['WHEEL']"
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run([sys.executable, "-c", code], env=dict(os.environ, PYTHONPATH=path, WHEEL=str(tmp_path)), check=False,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_compile_beside_a_cuda_12_asks_the_wheel(tmp_path):
    """The test runs in a mount namespace whose /usr/local/cuda is a CUDA 12's. The wheel's library is a text file, so that the
    message names it."""
    put(tmp_path / "site/nvidia/cu13/lib", "libnvrtc.so.13")
    put(tmp_path / "cuda/lib64", "libnvrtc.so.12", "libnvrtc.so")
    mount = ["unshare", "--mount", "sh", "-c", f'mount --bind "{tmp_path}/cuda" /usr/local/cuda && exec "$@"', "sh"]
    try:
        if not os.path.isdir("/usr/local/cuda") or subprocess.run([*mount, "true"], check=False, capture_output=True).returncode:
            pytest.skip("no mount namespace, or no /usr/local/cuda to cover")
    except OSError:
        pytest.skip("no unshare")
    code = f"import sluice; sluice.compile(sluice.plan(m=64, n=64, k=64), cache_dir={str(tmp_path / 'kernels')!r})"
    environment = {name: value for name, value in os.environ.items() if name not in ("SLUICE_NVRTC", "CUDA_PATH")}
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path / "site"), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run([*mount, sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 0 and f"{tmp_path}/site/nvidia/cu13/lib/libnvrtc.so.13: " in done.stderr, done.stderr
