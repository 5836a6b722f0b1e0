#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/findings/constants.md: every number of the cost models, and what it does when it is 20 % wrong.

    tools/constants.py build/ci/sluice_fit
"""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "findings" / "constants.md"
RESULTS = ROOT / "bench" / "results" / "h200"
LISTS = ("blind_4129dd5", "unseen", "epilogues")

HEAD = """# Numbers of the cost models, and the loss of the pick when one is 20 % wrong

The cost models have {count} numbers in all. {idle} of them change the loss by less than 0.1 % on every list
when they are a fifth too large or too small; the worst costs {worst:.1f} %.

A card's own rates are not among them: they are measured, or reported by the driver
([calibration](calibration.md)). Nor are the seven numbers of registers (constants.cc), which rule out kernels
and enter no time.

- **Origin**: `sm` counts clocks of an SM, `device` is a time or ratio fitted on one H200, `model` says how
  terms are joined.
- **Last columns**: the additional loss of the pick in percent of time, for the worse of 20 % more and 20 %
  less. Three lists are timed candidates (bench/results/h200/LIST.json). "Packed" is packed problems of the
  shipped records. Their candidates are not kept, so the model itself says what a pick loses.
- **A negative loss** means that the list would lose less with another value.
- **Terms**: partial sums are the accumulators that slices of k leave for one another. Kernels are explained
  in [kernel-anatomy](../kernel-anatomy.md) and [packed](../packed.md), other words in the
  [glossary](../glossary.md).

Made by `tools/constants.py build/ci/sluice_fit`.

<!-- numbers: made by tools/constants.py -->
| number | value | unit | origin | what | source | {lists} | packed |
|---|---|---|---|---|---|{bars}|---|
"""


def main():
    files = [str(RESULTS / f"{name}.json") for name in LISTS]
    text = subprocess.run([sys.argv[1], "--effects", *files], check=True, capture_output=True, text=True).stdout
    rows = [line.split("|") for line in text.splitlines()]
    effects = [[float(value) for value in row[6:]] for row in rows]
    page = HEAD.format(
        count=len(rows),
        idle=sum(max(map(abs, row)) < 0.1 for row in effects),
        worst=max(max(row) for row in effects),
        lists=" | ".join(LISTS),
        bars="|".join("---" for _ in LISTS),
    )
    for row in rows:
        name, value, unit, origin, meaning, source = row[:6]
        source = f"[{pathlib.Path(source).stem}]({os.path.relpath(source, PAGE.parent.relative_to(ROOT))})"
        page += f"| {name} | {value} | {unit} | {origin} | {meaning} | {source} | {' | '.join(row[6:])} |\n"
    PAGE.write_text(page + "<!-- end of numbers -->\n")


if __name__ == "__main__":
    main()
