# SPDX-License-Identifier: Apache-2.0
"""The tables of speed in README.md, between the markers there: from the same records as docs/performance.md, so that they
say no more than it. Used by report.py.
"""
import json
import pathlib

from report_data import BEST, OURS, geometric_mean, groups_of, median, ratio, set_of, table
from report_mixed import best_fp8, divided

BEGIN, END = "<!-- speed: made by `make report` -->", "<!-- end of speed -->"

# What a set is, to somebody who has not seen it.
SETS = {"engine": "large products, M 1024 to 8192", "tokens": "M 128, 256 and 512", "odd_rows": "M 65 to 1000, mostly no multiple of 64",
        "decode": "decoding, M 1 to 64", "sweep": "4096 x 4096, M 1 to 128", "long_k": "K up to 131072 over a small D",
        "promoted": "fp8, promoted sums", "block": "fp8, block scales", "unseen": "random shapes"}


def kinds(name: str) -> str:
    """`e4m3 to bf16, promoted` says again what the set's name says."""
    return name.split(" to ")[0]


def planned_by(shapes: list[dict]) -> str:
    by_record = sum(s["chosen_by"] == "record" for s in shapes)
    return "record" if by_record == len(shapes) else "model" if by_record == 0 else f"{by_record} by record"


def dense_rows(runs: list[dict]) -> list[list[str]]:
    rows = []
    for wanted, words in SETS.items():
        for run in runs:
            if set_of(run) != wanted:
                continue
            for name, shapes in groups_of(run).items():
                ratios = [r for s in shapes if (r := ratio(s, OURS, BEST))]
                if ratios:
                    extra = name.split(", ", 1)[1] if wanted == "unseen" and ", " in name else ""
                    rows.append([words, kinds(name) + (f", {extra}" if extra else ""), str(len(ratios)),
                                 f"{geometric_mean(ratios):.2f}", f"{min(ratios):.2f}", f"{max(ratios):.2f}", planned_by(shapes)])
    return rows


def packed_rows(results: pathlib.Path) -> list[list[str]]:
    shapes = [s for path in sorted((results / "packed").glob("mixed*.json")) for s in json.loads(path.read_text())["shapes"]]
    tokens = sorted({s["problem"]["m"] for s in shapes})
    rows = []
    for kind in sorted({s["problem"]["x"] for s in shapes}, reverse=True):
        cells = []
        for m in tokens:
            ratios = [r for s in shapes if s["problem"]["x"] == kind and s["problem"]["m"] == m
                      if (r := divided(best_fp8(s), median(s, OURS)))]
            cells.append(f"{geometric_mean(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})" if ratios else "")
        rows.append([f"{kind} tokens", *cells])
    return [["", *(str(m) for m in tokens)], *rows] if rows else []


def speed(runs: list[dict], results: pathlib.Path) -> str:
    text = table(["products", "types", "shapes", "mean", "least", "most", "planned by"], dense_rows(runs), left=2)
    packed = packed_rows(results)
    if packed:
        text += ("\n\nint4 weights (packed, groups of 64 and 128) beside the faster of cuBLASLt's best FP8 and our own, over eight layers; "
                 "mean (least to most) by number of tokens:\n\n" + table(packed[0], packed[1:], left=1))
    return text


def update(readme: pathlib.Path, runs: list[dict], results: pathlib.Path) -> None:
    """Nothing where there is no such file, or it has no markers."""
    text = readme.read_text() if readme.exists() else ""
    if BEGIN not in text or END not in text or not runs:
        return
    head, rest = text.split(BEGIN, 1)
    tail = rest.split(END, 1)[1]
    readme.write_text(f"{head}{BEGIN}\n{speed(runs, results)}\n{END}{tail}")
