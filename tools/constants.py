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

All cost models together have {count} numbers. {idle} of them cost less than 0.1 % anywhere when they are a fifth too
large or too small; the worst costs {worst:.1f} %.

A card's own rates are not among them: they are measured or told by the driver ([calibration](calibration.md)). Nor are
the seven numbers of registers (constants.cc), which rule kernels out and time nothing.

The last columns are what the pick loses more, in percent of time, the worse of both directions: in lists of timed
candidates, and by the model itself on the packed problems of the shipped records, of which no candidates are kept.
Negative: with another value the list would lose less. Origin: `sm` clocks of an SM, `device` times fitted on one H200,
`model` how terms are joined. Made by `tools/constants.py build/ci/sluice_fit`.

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
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
