#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the lists of sluice/twin/kernel_lists.cc, made by hand, with the kernels' source. Each list names
its file and that file's steps of dependent launches, in order of the text; `fill` is a prefetch, then a wait. A step that is
added, moved or removed fails here; the list must then be read again. It cannot see where an operand is read: GPU tests show
that (tests/gpu/*overlap*). `--self-test` plants each kind of change. Run by ctest.
"""
import re
import sys

import tree

LISTS = "sluice/twin/kernel_lists.cc"
STEP = re.compile(r"(?:\bLaunch::(begin|fill|prefetch|wait|wait_for_weights|loaded|hand_off)|\b(launch_dependents|wait_for_prerequisites))\(")
TOLD = re.compile(r"^/// Steps of (\S+): ([a-z_ ]*)\.$", re.MULTILINE)


def steps_of(source: str) -> str:
    text = re.sub(r"//[^\n]*", "", source)
    short = {"launch_dependents": "trigger", "wait_for_prerequisites": "wait"}
    return " ".join(match[1] or short[match[2]] for match in STEP.finditer(text))


def troubles(lists: str, sources: dict[str, str]) -> list[str]:
    """Returns the differences. `sources`: path below sluice/ -> text, of all files that may have steps of
    dependent launches."""
    told = dict(TOLD.findall(lists))
    found = [f"{LISTS} tells the steps of sluice/{path}, and there is no such file" for path in told if path not in sources]
    for path, source in sources.items():
        steps = steps_of(source)
        if steps != told.get(path, ""):
            found.append(f"sluice/{path} has the steps \"{steps}\", and {LISTS} tells \"{told.get(path, 'none')}\": read the source again, mend the list, "
                         "then this line of it")
    return found


def check() -> list[str]:
    # The twin records the steps of gemm.cuh and machine.cuh; dependent_launch.cuh defines steps.
    skipped = {"sluice/kernels/gemm.cuh", "sluice/device/machine.cuh", "sluice/device/dependent_launch.cuh"}
    sources = {name.removeprefix("sluice/"): tree.text_of(name) for name in tree.names(".cuh", folders=("sluice/kernels", "sluice/device"))
               if "ptx" not in name.split("/") and name not in skipped}
    return troubles(tree.text_of(LISTS), sources)


def self_test() -> None:
    source = "void f() {\n  Launch::begin();  // Launch::wait() comes later\n  Launch::wait();\n  ptx::launch_dependents();\n}\n"
    lists = "/// Steps of kernels/a.cuh: begin wait trigger.\n"
    assert troubles(lists, {"kernels/a.cuh": source, "kernels/b.cuh": ""}) == []
    moved = source.replace("Launch::begin();", "").replace("}\n", "  Launch::begin();\n}\n")
    for other in (moved, source.replace("Launch::wait();", ""), source.replace("wait();\n", "wait();\n  Launch::wait();\n")):
        assert len(troubles(lists, {"kernels/a.cuh": other})) == 1, other
    assert len(troubles(lists, {"kernels/a.cuh": source, "kernels/b.cuh": source})) == 1, "a file that no list tells of"
    assert "no such file" in troubles(lists, {})[0]


if __name__ == "__main__":
    sys.exit(tree.run("launch lists", check, self_test))
