# SPDX-License-Identifier: Apache-2.0
"""One wheel serves every Python: its name says so, and its one shared object does not link to Python."""
import os
import shutil
import subprocess
import sys
import zipfile

import pytest

WHEEL = os.environ.get("SLUICE_WHEEL")
pytestmark = pytest.mark.skipif(not WHEEL, reason="SLUICE_WHEEL names no wheel")


@pytest.fixture(scope="module")
def wheel():
    with zipfile.ZipFile(WHEEL) as archive:
        yield archive


def test_the_tag_is_for_every_python(wheel):
    assert "-py3-none-" in os.path.basename(WHEEL)


def test_it_holds_one_shared_object_the_tool_and_types(wheel):
    names = wheel.namelist()
    assert [name for name in names if name.endswith(".so")] == ["sluice/lib/libsluice_c.so"]
    for name in ("sluice/bin/sluice", "sluice/py.typed", "sluice/torch/__init__.py", "sluice/weights/__init__.py"):
        assert name in names
    assert not any("test" in name or name.endswith((".pyc", ".a")) for name in names)


def test_the_shared_object_is_a_strangers(wheel, source_root, tmp_path):
    if not (shutil.which("nm") and shutil.which("readelf")):
        pytest.skip("no binutils")
    path = wheel.extract("sluice/lib/libsluice_c.so", tmp_path)
    subprocess.run([sys.executable, str(source_root / "tests/c_api/symbols.py"), path], check=True)


def test_torch_is_an_extra_and_no_pin(wheel):
    metadata = wheel.read(next(name for name in wheel.namelist() if name.endswith("METADATA"))).decode()
    needed = [line.partition(": ")[2] for line in metadata.splitlines() if line.startswith("Requires-Dist")]
    assert [line for line in needed if "extra ==" not in line] == ["apache-tvm-ffi<0.2,>=0.1.15"]
