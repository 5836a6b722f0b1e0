#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks lengths: files have up to 500 lines, folders of the host up to 30 files. Generated files are exempt.

    tools/check_lengths.py [--self-test]

Called by `make check` and by ctest.
"""
import collections
import pathlib
import sys

import tree

MOST_LINES, MOST_FILES = 500, 30
# Folders below these have at most MOST_FILES files.
HOST = ("sluice/plan/", "sluice/run/", "sluice/chain/", "sluice/check/", "sluice/c_api/")


def faults(lengths: dict[str, int]) -> list[str]:
    """Returns sentences about files that are too long and folders with too many files. `lengths`: lines by
    file name."""
    found = [f"{name} has {lines} lines, at most {MOST_LINES}: split it by ideas"
             for name, lines in sorted(lengths.items()) if lines > MOST_LINES]
    folders = collections.Counter(str(pathlib.PurePosixPath(name).parent) for name in lengths if name.startswith(HOST))
    return found + [f"{folder} holds {count} files, at most {MOST_FILES}: give a part of them a folder"
                    for folder, count in sorted(folders.items()) if count > MOST_FILES]


def self_test() -> None:
    room = {f"sluice/run/ops/{i}.cc": 10 for i in range(MOST_FILES)}
    assert faults({"a.py": MOST_LINES, **room, "sluice/run/jit/x.h": 1}) == []
    assert faults({"a.py": MOST_LINES + 1}) == ["a.py has 501 lines, at most 500: split it by ideas"]
    assert faults({**room, "sluice/run/ops/one_more.h": 1})[0].startswith("sluice/run/ops holds 31 files")
    assert faults({f"tests/unit/{i}.cc": 10 for i in range(40)}) == []


def check() -> list[str]:
    return faults({name: len(tree.text_of(name).splitlines()) for name in tree.written(*tree.DEVICE_OR_HOST, ".py", ".sh")})


if __name__ == "__main__":
    sys.exit(tree.run("lengths", check, self_test))
