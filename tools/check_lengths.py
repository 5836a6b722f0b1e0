#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds files to a readable length: warns past 500 lines, fails past 700. Generated files are exempt.

Called by `make check` and by ctest.
"""
import pathlib
import subprocess
import sys

WARN, FAIL = 500, 700
SOURCES = {".h", ".cc", ".cuh", ".cu", ".py", ".sh"}


def main() -> int:
    root = pathlib.Path(__file__).resolve().parent.parent
    command = ["git", "-C", str(root), "ls-files", "--cached", "--others", "--exclude-standard"]
    worst = 0
    for name in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
        path = root / name
        if path.suffix not in SOURCES or "generated" in path.parts or not path.is_file():
            continue
        lines = len(path.read_text(encoding="utf-8").splitlines())
        worst = max(worst, lines)
        if lines > WARN:
            print(f"{'error' if lines > FAIL else 'warning'}: {name} has {lines} lines "
                  f"(split it: warn past {WARN}, fail past {FAIL})")
    return 1 if worst > FAIL else 0


if __name__ == "__main__":
    sys.exit(main())
