#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the lists of sluice/twin/kernel_lists.cc, made by hand, with the kernels' source. Each list names
its file and that file's steps of dependent launches, in order of the text. A step that is added, moved or
removed fails here; the list must then be read again. It cannot see where an operand is read: GPU tests show
that (tests/gpu/*overlap*). `--self-test` plants each kind of change. Run by ctest.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LISTS = "sluice/twin/kernel_lists.cc"
STEP = re.compile(r"(?:\bLaunch::(begin|prefetch|wait|wait_for_weights|loaded|hand_off)|\b(launch_dependents|wait_for_prerequisites))\(")
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


def check(root: pathlib.Path) -> list[str]:
    # The twin records the steps of gemm.cuh and machine.cuh; dependent_launch.cuh defines steps.
    skipped = {"kernels/gemm.cuh", "device/machine.cuh", "device/dependent_launch.cuh"}
    sources = {path.relative_to(root / "sluice").as_posix(): path.read_text() for folder in ("kernels", "device")
               for path in sorted((root / "sluice" / folder).rglob("*.cuh")) if "ptx" not in path.parts}
    return troubles((root / LISTS).read_text(), {path: text for path, text in sources.items() if path not in skipped})


def self_test() -> int:
    source = "void f() {\n  Launch::begin();  // Launch::wait() comes later\n  Launch::wait();\n  ptx::launch_dependents();\n}\n"
    lists = "/// Steps of kernels/a.cuh: begin wait trigger.\n"
    assert troubles(lists, {"kernels/a.cuh": source, "kernels/b.cuh": ""}) == []
    moved = source.replace("Launch::begin();", "").replace("}\n", "  Launch::begin();\n}\n")
    for other in (moved, source.replace("Launch::wait();", ""), source.replace("wait();\n", "wait();\n  Launch::wait();\n")):
        assert len(troubles(lists, {"kernels/a.cuh": other})) == 1, other
    assert len(troubles(lists, {"kernels/a.cuh": source, "kernels/b.cuh": source})) == 1, "a file that no list tells of"
    assert "no such file" in troubles(lists, {})[0]
    assert len(check(ROOT)) == 0
    print("check_launch_lists: self-test passed")
    return 0


def main() -> int:
    if "--self-test" in sys.argv:
        return self_test()
    found = check(ROOT)
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
