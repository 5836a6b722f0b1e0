#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that `make demo` builds each file that `make install` copies.

    tests/package/install_needs.py build/release

Targets come from the Makefile, files from the build's install script. Called by ctest. It fails if a library is
installed and `make tool` does not name its target: that once made `cmake --install` stop halfway.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def targets_of(makefile: str) -> list[str]:
    """Returns the targets that `make tool` builds. `make demo` and `make install` build these first."""
    recipe = re.search(r"^tool:.*\n((?:\t.*\n)+)", makefile, re.M).group(1)
    return re.search(r"--target (.+)", recipe).group(1).split()


def installed_files(script: str, build: pathlib.Path) -> set[str]:
    """Returns the files that `make install` copies, without those that CMake writes itself."""
    files = set(re.findall(rf'"{re.escape(str(build))}/([\w.]+)"', script))
    return {name for name in files if "." not in name or name.endswith((".a", ".so"))}


def made_by(target: str, build: pathlib.Path) -> set[str]:
    """Returns the files that ninja builds for a target: those that the target stands for, and their inputs.
    """
    def ninja(*words: str) -> list[str]:
        return subprocess.run(["ninja", "-C", str(build), "--quiet", "-t", *words], capture_output=True, text=True, check=True).stdout.split()
    return {*ninja("inputs", target), *ninja("query", target)}


def main() -> int:
    build = pathlib.Path(sys.argv[1]).resolve()
    targets = targets_of((ROOT / "Makefile").read_text())
    wanted = installed_files((build / "cmake_install.cmake").read_text(), build)
    missing = wanted - set().union(*(made_by(target, build) for target in targets))
    if not {"sluice", "libsluice.a", "libsluice_c.so"} <= wanted:
        print(f"the install script names only {sorted(wanted)}: this check looks at nothing")
        return 1
    for name in sorted(missing):
        print(f"make install copies {name}, which make tool ({' '.join(targets)}) does not build: name its target there")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
