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
LISTS = {"blind_4129dd5": "blind", "unseen": "unseen", "epilogues": "epilogues"}  # file -> head of the column
LEAST_EFFECT = 0.1  # percent; numbers with smaller effects are left out of the table of effects
GROUPS = (  # heading, pages that are the source of a number
    ("Plain kernels", ("plain-loads",)),
    ("Convolutions", ("convolutions",)),
    ("Packed weights", ("few-bit-weights", "int4-widths")),
    ("Chains", ("untuned-chains",)),
)

HEAD = """# Numbers of the cost models, and the cost of an error of 20 % in each

The planner estimates a kernel's time with {count} fitted numbers. An error of 20 % in one of them costs the
planner's choices less than {least} % of time for {idle} of the {count}, and {worst:.1f} % for the worst.

The planner picks the kernel with the shortest estimate, so a wrong number can make it pick a slower kernel.
Rates of a card, such as HBM, are not here: they are measured or reported by the driver
([calibration](calibration.md)). Nor are the seven numbers that only rule out kernels with too many registers
(constants.cc).

Made by `tools/constants.py build/ci/sluice_fit`, which compares plans and times nothing.

## Words
- **k-tile**: 128 bytes of k of a tile's rows and columns, one step of the k-loop. **Ring**: a CTA's stages in
  shared memory. **Partial sums**: accumulators of one slice of k.
- **Ping-pong, cooperative**: kernels in which one warpgroup loads by TMA and two multiply, either different
  tiles in turn or halves of one tile ([kernel-anatomy](../kernel-anatomy.md)).
- **Plain**: kernels without such roles; a warp loads what it multiplies, by cp.async. **plain_wgmma** does so
  with warpgroups.
- **Narrow, strip, wide**: kernels for packed 4- and 8-bit weights, for few to many tokens
  ([packed](../packed.md)). A **strip** is 64 rows of weights, a **code** the stored integer of a weight.
- **Promotion**: adding the tensor core's sums over each 128 of k to fp32 registers.
- **MN-major**: an operand of which m or n is contiguous in memory, and not k.
- **Origin** in the tables: `sm` is a property of Hopper's SM, `device` was fitted on one H200, `model` says
  how the model joins times.

<!-- numbers: made by tools/constants.py -->
"""
EFFECTS = """## What an error of 20 % costs
Each number is multiplied and divided by 1.2, and the planner picks anew. A cell is the additional loss of its
picks in percent of time, the mean over a list, for the worse of the two. Numbers that stay below {least} % on every
list are left out. Below zero, both values would lose less than the present one.

- **blind**: 60 problems drawn at random. **unseen**: 40 others. **epilogues**: 45 layers, with and without bias
  and GELU. The loss is against the fastest kernel that was timed (bench/results/h200:
  {files}).
- **packed**: half of the shipped records of packed weights. Times of other kernels are not kept there, so the
  loss is the model's own estimate.

"""


def link_of(source):
    return f"[{pathlib.Path(source).stem}]({os.path.relpath(source, PAGE.parent.relative_to(ROOT))})"


def numbers_of(heading, rows):
    lines = [f"## {heading}", "| number | value | unit | origin | meaning | source |", "|---|---|---|---|---|---|"]
    lines += [f"| {name} | {value} | {unit} | {origin} | {meaning} | {link_of(source)} |"
              for name, value, unit, origin, meaning, source in (row[:6] for row in rows)]
    return "\n".join(lines) + "\n\n"


def effects_of(rows):
    heads = ["number", *LISTS.values(), "packed"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += [f"| {row[0]} | {' | '.join(row[6:])} |" for row in rows if max(abs(float(cell)) for cell in row[6:]) >= LEAST_EFFECT]
    return EFFECTS.format(least=LEAST_EFFECT, files=", ".join(f"{name}.json" for name in LISTS)) + "\n".join(lines) + "\n"


def page_of(rows):
    effects = [[float(value) for value in row[6:]] for row in rows]
    page = HEAD.format(
        count=len(rows),
        idle=sum(max(map(abs, row)) < LEAST_EFFECT for row in effects),
        least=LEAST_EFFECT,
        worst=max(max(row) for row in effects),
    )
    grouped = {stem for _, stems in GROUPS for stem in stems}
    others = [row for row in rows if pathlib.Path(row[5]).stem not in grouped]
    page += numbers_of("Dense products, and numbers of several kernels", others)
    for heading, stems in GROUPS:
        page += numbers_of(heading, [row for row in rows if pathlib.Path(row[5]).stem in stems])
    return page + effects_of(rows) + "<!-- end of numbers -->\n"


def main():
    files = [str(RESULTS / f"{name}.json") for name in LISTS]
    text = subprocess.run([sys.argv[1], "--effects", *files], check=True, capture_output=True, text=True).stdout
    PAGE.write_text(page_of([line.split("|") for line in text.splitlines()]))


if __name__ == "__main__":
    main()
