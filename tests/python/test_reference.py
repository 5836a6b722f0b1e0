# SPDX-License-Identifier: Apache-2.0
"""docs/python-reference.md agrees with the docstrings and with the package, and every public name has one."""
import importlib
import inspect
import re
import subprocess
import sys

import pytest

import sluice

MODULES = ("sluice", "sluice.weights", "sluice.torch", "sluice.torch.moe", "sluice.torch.grad", "sluice.torch.nn", "sluice.torch.deep_gemm")
# Names that are defined and documented elsewhere, or methods' classes.
ELSEWHERE = {"sluice.torch": {"PackedExperts", "PackedWeights", "stack_packed", "pack", "pack_e4m3", "pack_int4", "pack_int8", "pack_quantized"}}


@pytest.fixture(scope="module")
def page(source_root):
    return (source_root / "docs/python-reference.md").read_text(encoding="utf-8")


def test_the_page_is_up_to_date(source_root):
    tool = source_root / "tools/python_reference.py"
    checked = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("module", MODULES)
def test_every_name_of_the_page_can_be_imported(page, module):
    """To see it fail: list a function in a section that the package does not export."""
    if module.startswith("sluice.torch"):
        pytest.importorskip("torch")
    found = importlib.import_module(module)
    names = re.findall(rf"^(?:class )?{re.escape(module)}\.([A-Za-z_0-9]+)(?=[(:]|$)", page, re.M)
    assert names and len(names) == len(set(names))
    for name in names:
        assert callable(getattr(found, name)), name


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_on_the_page(page, module):
    if module.startswith("sluice.torch"):
        pytest.importorskip("torch")
    found = importlib.import_module(module)
    for name in getattr(found, "__all__", ()):
        member = getattr(found, name)
        if callable(member) and name not in ELSEWHERE.get(module, ()):
            assert inspect.getdoc(member) and re.search(rf"^(class )?{re.escape(module)}\.{name}\b", page, re.M), name
