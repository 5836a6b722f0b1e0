#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the planner's pick with the fastest candidate. Reads records of `sluice bench --tune N --json
FILE` and prints both for each shape, then measured over estimated time by schedule, tile and cluster.

`loss` is the pick's time over the fastest one's: 1.00 means that the model chose right. The cost model is
biased about a kind of kernel if its measured / estimated ratio differs from the others'. Made for fitting
sluice/host/planner/dense/cost_model.cc. Times are from screening, good to about 2 %.
"""
import argparse
import json
import math
import pathlib
import statistics
import sys


def candidates_of(shape: dict) -> list[dict]:
    return [c for c in shape.get("candidates", []) if "error" not in c and c["verified"] and c["us"] > 0]


def kinds_of(candidate: dict) -> list[str]:
    schedule, tile, _, cluster = candidate["name"].split()[:4]
    return [schedule, f"{schedule} {tile.rsplit('x', 1)[0]}", f"{schedule} {cluster}"]


def report(shapes: list[dict]) -> list[str]:
    lines = [f"{'problem':<30} {'pick us':>8} {'best us':>8} {'loss':>5}  {'estimate':>8}  rank  best kernel"]
    losses, ratios = [], {}
    for shape in shapes:
        timed = candidates_of(shape)
        pick = shape.get("candidates", [None])[0]
        if not timed or pick not in timed:
            lines.append(f"{shape['name']:<30} no timing of the pick")
            continue
        ranked = sorted(timed, key=lambda c: c["us"])
        losses.append(pick["us"] / ranked[0]["us"])
        lines.append(f"{shape['name']:<30} {pick['us']:8.2f} {ranked[0]['us']:8.2f} {losses[-1]:5.2f}  "
                     f"{pick['estimate']['total_us']:8.2f}  {ranked.index(pick) + 1:2}/{len(ranked):<2} "
                     f"{' '.join(ranked[0]['name'].split()[:4])}")
        for c in timed:
            for kind in kinds_of(c):
                ratios.setdefault(kind, []).append(c["us"] / c["estimate"]["total_us"])
    if losses:
        mean = math.exp(statistics.fmean(map(math.log, losses)))
        lines += ["", f"loss of the pick: geometric mean {mean:.3f}, worst {max(losses):.3f}, {len(losses)} shapes", "",
                  f"{'kind':<26} {'measured / estimated':>20} {'spread':>7} {'kernels':>8}"]
        for kind, values in sorted(ratios.items()):
            lines.append(f"{kind:<26} {statistics.median(values):20.3f} {statistics.pstdev(values):7.3f} {len(values):8}")
    return lines


def self_test() -> int:
    def candidate(name: str, us: float, estimate: float) -> dict:
        return {"name": name, "us": us, "estimate": {"total_us": estimate}, "verified": True}
    shapes = [{"name": "a", "candidates": [candidate("ping_pong 128x128x64 s6 c1x1 bf16", 12.0, 10.0),
                                           candidate("cooperative 128x256x64 s4 c2x1 bf16", 8.0, 11.0)]},
              {"name": "b", "candidates": [{"name": "x", "us": 0, "verified": True, "error": "no"}]}]
    text = "\n".join(report(shapes))
    assert "1.50" in text and "2/2" in text and "cooperative 128x256x64 s4 c2x1" in text, text
    assert "b                              no timing of the pick" in text, text
    assert "ping_pong 128x128" in text and "1.200" in text, text
    print("sweep: self-test passed")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="*", type=pathlib.Path)
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    print("\n".join(report([s for path in arguments.records for s in json.loads(path.read_text())["shapes"]])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
