# SPDX-License-Identifier: Apache-2.0
"""The section of docs/performance.md about packed weights: `sluice bench --set mixed`, whole or in parts (`--only`), kept in
bench/results/h200/packed/mixed*.json, apart from the records whose peers compute the same thing. Left out if there is none.
"""
import json
import pathlib

from report_data import FLOOR, OURS, SCHEMA, TUNED, geometric_mean, median, number, table

OUR_FP8, PEER_FP8, PEER_16 = "sluice FP8", "cuBLASLt FP8", "cuBLASLt 16"  # bench/record.h


def best_fp8(shape: dict) -> float | None:
    times = [us for us in (median(shape, OUR_FP8), median(shape, PEER_FP8)) if us]
    return min(times) if times else None


def divided(a: float | None, b: float | None) -> float | None:
    return a / b if a and b else None


def row_of(shape: dict, ours: str) -> list[str]:
    us, fp8 = median(shape, ours), best_fp8(shape)
    return [shape["name"], number(us, 2), number(median(shape, FLOOR), 2), number(divided(us, median(shape, FLOOR)), 2),
            number(fp8, 2), number(divided(fp8, us), 2), number(median(shape, PEER_16), 2),
            number(divided(median(shape, PEER_16), us), 2)]


def families(shapes: list[dict]) -> dict[str, list[dict]]:
    """Shapes by their tokens' type, which has a name only where there are e4m3 ones."""
    of_bytes = [s for s in shapes if s["problem"]["x"] == "e4m3"]
    others = [s for s in shapes if s["problem"]["x"] != "e4m3"]
    return {", 16-bit tokens": others, ", e4m3 tokens": of_bytes} if of_bytes else {"": others}


def mixed_section(results: pathlib.Path) -> str:
    all_shapes = []
    for path in sorted((results / "packed").glob("mixed*.json")):
        run = json.loads(path.read_text())
        if run.get("schema") != SCHEMA:
            raise SystemExit(f"{path}: schema is {run.get('schema')!r}, not {SCHEMA!r}")
        all_shapes += run["shapes"]
    if not all_shapes:
        return ""
    text = ("## Packed weights, few tokens\n\nBeside the faster of cuBLASLt's best FP8 algorithm and our own FP8, cuBLASLt's best in 16 bits, "
            "and a plain read of the packed bytes, all in turn, cold and verified (mixed.md):\n\n")
    for ours in (OURS, TUNED):
        for tokens, shapes in families(all_shapes).items():
            ratios = [r for s in shapes if (r := divided(best_fp8(s), median(s, ours)))]
            if not ratios:
                continue
            text += f"{ours}{tokens}: geometric mean {geometric_mean(ratios):.3f} x FP8's speed over {len(ratios)} of {len(shapes)} shapes, "
            text += f"least {min(ratios):.3f}.\n\n"
            header = ["M x N x K", f"{ours} us", "read us", "of read", "FP8 us", "x FP8", "16-bit us", "x 16-bit"]
            text += table(header, [row_of(s, ours) for s in shapes]) + "\n\n"
    return text
