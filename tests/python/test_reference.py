# SPDX-License-Identifier: Apache-2.0
"""docs/python-reference.md agrees with the docstrings, and every public name has one."""
import inspect
import subprocess
import sys

import sluice


def test_the_page_is_up_to_date(source_root):
    tool = source_root / "tools/python_reference.py"
    checked = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


def test_every_public_name_is_explained():
    for name in sluice.__all__:
        assert inspect.getdoc(getattr(sluice, name)), name
