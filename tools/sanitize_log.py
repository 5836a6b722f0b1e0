#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads what compute-sanitizer and a gtest process printed: how many findings, which are waived, what passed.

A waiver (tests/gpu/sanitize_waivers.json) names a tool, kinds of kernels, and two places of the source: file and function of
the access that is reported, and of the other one. It covers a race between just these; all else stays a finding. Places come
from the line numbers that kernels with SLUICE_CHANGE=nothing carry, and from the source as it is: so a waiver outlives
compilers and edits above it, and ends when its function goes. Called by tools/gpu_sanitize.py. --self-test: planted logs.
"""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
WAIVERS = ROOT / "tests/gpu/sanitize_waivers.json"

SUMMARY = re.compile(r"(ERROR|RACECHECK) SUMMARY: (\d+)")
ACCESS = re.compile(r"(?P<first>Race reported between )?(?(first)|\band )(?P<kind>Read|Write|Atomic) access at (?P<function>.+?)"
                    r"\+0x(?P<offset>[0-9a-f]+)(?: in (?P<file>\S+?):(?P<line>\d+))?(?: \[(?P<count>\d+) hazards?\])?\s*$")
FUNCTION = re.compile(r"^\s*(?:template .*)?(?:SLUICE_DEVICE|SLUICE_HD|static SLUICE_DEVICE|__device__)\b[^;=]*?\b(\w+)\(")


def function_at(path, line):
    """The device function whose text holds the line, by its name; "" outside of all."""
    found = ""
    for text in path.read_text().splitlines()[:line]:
        if match := FUNCTION.match(text):
            found = match[1]
    return found


def place_of(access):
    """"block_scales.cuh write", or None where the tool told no line."""
    if not access["file"]:
        return None
    name = pathlib.PurePath(access["file"]).name
    for path in sorted((ROOT / "sluice").rglob(name)):
        return f"{name} {function_at(path, int(access['line']))}"
    return None


def races_of(text):
    """[(first place, other place, one line of text)]"""
    races, first = [], None
    for line in text.splitlines():
        match = ACCESS.search(line)
        if not match:
            continue
        if match["first"]:
            first = match
        elif first is not None:
            told = " / ".join(f"{m['kind']} {m['file'] or m['function']}:{m['line'] or '+0x' + m['offset']}" for m in (first, match))
            races.append((place_of(first), place_of(match), told))
    return races


def is_waived(race, tool, family, waivers):
    return any(tool == w["tool"] and family in w["families"] and None not in race[:2] and set(race[:2]) == {w["reader"], w["writer"]}
               for w in waivers)


def load_waivers(path=WAIVERS):
    waivers = json.loads(path.read_text())["waivers"] if path.exists() else []
    for waiver in waivers:
        missing = {"tool", "families", "reader", "writer", "argument"} - waiver.keys()
        if missing:
            raise ValueError(f"{path}: a waiver lacks {', '.join(sorted(missing))}")
        for place in (waiver["reader"], waiver["writer"]):
            name, function = place.split()
            files = list((ROOT / "sluice").rglob(name))
            if not files or not any(m and m[1] == function for m in map(FUNCTION.match, files[0].read_text().splitlines())):
                raise ValueError(f"{path}: {place}: there is no such function: drop the waiver, or name what there is")
    return waivers


def read(text, tool, family, waivers):
    """{findings, waived, passed, why}; `findings` is None if the tool gave no count."""
    counts = SUMMARY.findall(text)
    findings = int(counts[-1][1]) if counts else None
    why, waived = "", 0
    if findings and tool == "racecheck":
        races = races_of(text)
        waived_races = [race for race in races if is_waived(race, tool, family, waivers)]
        left = [race for race in races if race not in waived_races]
        # Waived are all or none: a line that could not be read, or another race beside them, is a finding.
        if races and not left:
            findings, waived = 0, findings
        elif left:
            why = left[0][2]
    elif findings:
        why = next((line.strip("= ") for line in text.splitlines() if re.match(r"^=+ (Invalid|Uninit|Barrier|Error|Program)", line)), "")
    passed = bool(re.search(r"^\[  PASSED  \] [1-9]", text, re.M)) and not re.search(r"^\[  (FAILED|SKIPPED) \]", text, re.M)
    if findings is None:
        why = "the tool gave no count"
    elif not passed and not why:
        why = next((line for line in text.splitlines() if ": Failure" in line or line.startswith("[  ")), "no test passed")
    return {"findings": findings, "waived": waived, "passed": passed, "why": why[:200]}


RACE = """========= Error: Race reported between Write access at sluice_entry+0x8480 in block_scales.cuh:{writer}
=========     and Read access at sluice_entry+0x26e0 in block_scales.cuh:{reader} [576 hazards]
=========     and Read access at sluice_entry+0x2720 in block_scales.cuh:{reader} [288 hazards]
=========
"""
PASSED, FAILED, SKIPPED = "[  PASSED  ] 1 test.\n", "x_test.cc:1: Failure\n[  FAILED  ] 1 test\n", "[  SKIPPED ] 1 test\n[  PASSED  ] 0 tests.\n"


def self_test():
    source = (ROOT / "sluice/device/math/block_scales.cuh").read_text().splitlines()
    line_of = {name: next(i + 1 for i, text in enumerate(source) if f" {name}(" in text) + 2 for name in ("write", "read", "load")}
    waivers = [{"tool": "racecheck", "families": ["block"], "reader": "block_scales.cuh read", "writer": "block_scales.cuh write"}]
    race = RACE.format(writer=line_of["write"], reader=line_of["read"])
    other = RACE.format(writer=line_of["load"], reader=line_of["read"])
    bare = re.sub(r" in block_scales.cuh:\d+", "", race)
    two, none = "========= RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)\n", "========= ERROR SUMMARY: 0 errors\n"
    for name, text, tool, family, wanted in [
            ("a clean run", none + PASSED, "memcheck", "dense", (0, 0, True)),
            ("what is waived", race + two + PASSED, "racecheck", "block", (0, 2, True)),
            ("the same of another family", race + two + PASSED, "racecheck", "narrow", (2, 0, True)),
            ("the same places by another tool", race + two + PASSED, "memcheck", "block", (2, 0, True)),
            ("another writer", other + two + PASSED, "racecheck", "block", (2, 0, True)),
            ("another writer beside what is waived", race + other + two + PASSED, "racecheck", "block", (2, 0, True)),
            ("no line numbers", bare + two + PASSED, "racecheck", "block", (2, 0, True)),
            ("a count without a race that can be read", two + PASSED, "racecheck", "block", (2, 0, True)),
            ("a killed run", race, "racecheck", "block", (None, 0, False)),
            ("a wrong result", none + FAILED, "memcheck", "dense", (0, 0, False)),
            ("a test that was skipped", none + SKIPPED, "memcheck", "dense", (0, 0, False)),
            ("no test", none, "memcheck", "dense", (0, 0, False))]:
        got = read(text, tool, family, waivers)
        assert (got["findings"], got["waived"], got["passed"]) == wanted, (name, got)
    assert len(load_waivers()) >= 0
    print("sanitize log: ok (12 planted logs)")


if __name__ == "__main__":
    if sys.argv[1:] != ["--self-test"]:
        sys.exit(__doc__)
    self_test()
