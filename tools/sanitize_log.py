#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the output of compute-sanitizer and a gtest process: number of findings, passed tests, first fault.

Nothing is waived: kernels with barriers that the tool does not follow run in a changed form
(docs/findings/races.md). Called by tools/gpu_sanitize.py. --self-test: planted logs.
"""
import re
import sys

SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)")
FINDING = re.compile(r"^=+ (?:Error: |Warning: )?((?:Race reported|Potential|Invalid|Uninit|Barrier|Divergent|Program hit|Address).*)", re.M)
PASSED, NOT_PASSED = re.compile(r"^\[  PASSED  \] [1-9]", re.M), re.compile(r"^\[(?:  FAILED  |  SKIPPED |NOT JUDGED)\]", re.M)


def read(text):
    """Returns {findings, passed, why}; `findings` is None if the tool gave no count."""
    counts = SUMMARY.findall(text)
    findings = int(counts[-1]) if counts else None
    passed = bool(PASSED.search(text)) and not NOT_PASSED.search(text)
    why = ""
    if findings is None:
        why = "the tool gave no count"
    elif findings:
        found = FINDING.search(text)
        why = found[1] if found else "it does not say what"
    elif not passed:
        why = next((line for line in text.splitlines() if ": Failure" in line or NOT_PASSED.match(line)), "no test passed")
    return {"findings": findings, "passed": passed, "why": why[:200]}


def self_test():
    race = ("========= Error: Race reported between Write access at sluice::ptx::store_shared(unsigned int, float)+0x55d0 in shared.cuh:40\n"
            "=========     and Read access at sluice::ptx::load_shared(unsigned int)+0x11f0 in shared.cuh:53 [576 hazards]\n")
    two, none = "========= RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)\n", "========= ERROR SUMMARY: 0 errors\n"
    passed, failed, skipped = "[  PASSED  ] 1 test.\n", "x_test.cc:1: Failure\n[  FAILED  ] 1 test\n", "[  SKIPPED ] 1 test\n[  PASSED  ] 0 tests.\n"
    for name, text, wanted in [
            ("a clean run", none + passed, (0, True, "")),
            ("a race", race + two + passed, (2, True, "Race reported between Write access at sluice::ptx::store_shared")),
            ("an access", "========= Invalid __global__ write of size 4 bytes\n========= ERROR SUMMARY: 160 errors\n" + passed,
             (160, True, "Invalid __global__ write")),
            ("a read of nothing", "========= Uninitialized __global__ memory read\n========= ERROR SUMMARY: 3 errors\n" + passed,
             (3, True, "Uninitialized")),
            ("a wrong mask", "========= Barrier error detected. Divergent thread(s)\n========= ERROR SUMMARY: 1 error\n" + passed,
             (1, True, "Barrier error")),
            ("findings that it does not name", two + passed, (2, True, "it does not say what")),
            ("two kernels' summaries, of which the last counts", none + race + two + passed, (2, True, "Race")),
            ("a killed run", race, (None, False, "the tool gave no count")),
            ("a wrong result", none + failed, (0, False, "x_test.cc:1: Failure")),
            ("a test that was skipped", none + skipped, (0, False, "[  SKIPPED ] 1 test")),
            ("data too large to judge", none + "[NOT JUDGED] 485 elements\n" + passed, (0, False, "[NOT JUDGED] 485 elements")),
            ("no test", none, (0, False, "no test passed"))]:
        got = read(text)
        assert (got["findings"], got["passed"]) == wanted[:2] and got["why"].startswith(wanted[2]), (name, got)
        assert bool(got["why"]) == bool(wanted[2]), (name, got)
    print("sanitize log: ok (12 planted logs)")


if __name__ == "__main__":
    if sys.argv[1:] != ["--self-test"]:
        sys.exit(__doc__)
    self_test()
