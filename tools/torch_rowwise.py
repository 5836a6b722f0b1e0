#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares README's FP8 product with torch's: st.scaled_mm and torch._scaled_mm with a scale per row,
promoted sums.

    tools/torch_rowwise.py --out bench/results/h200/row_torch.json

Needs a Hopper GPU, torch and the Python package sluice (its library may be named by SLUICE_LIBRARY). The
problems are those of `sluice bench --set row`, whose cuBLASLt is the other peer. Both contenders read the same
operands. Each is checked before it is timed: all bits of sums of whole numbers, and real data within a bound
of fp64. Then they race as in peer_race.py: in turn, CUDA graphs, cold L2 by copies of all operands.

SLUICE_COMMIT names the commit of the library, if that is not the one of this tree. Exit: 0, 1 a contender is
wrong or missing, 3 --seconds ran out before the last problem, 77 no GPU or torch.
"""
import argparse
import json
import math
import os
import pathlib
import sys
import time

import peer_race
from triton_record import L2_TIMES, ProgressBar, commit, copies_for, nvidia_smi, started

SCHEMA = "sluice-row-torch-1"
OURS, PEER = "sluice", "torch._scaled_mm"
CUT = 3
# The shapes of row_set() in bench/shapes.cc; the self-test compares them.
TOKENS = (1, 2, 4, 8, 16, 32, 48, 64, 256, 1024, 4096)
LAYERS = ((4096, 4096), (8192, 8192), (1280, 8192), (8192, 1024), (7168, 8192), (8192, 3584), (28672, 4096), (4096, 14336))
# Half a unit in the last place of bf16, and the largest relative error of a promoted sum (docs/numerics.md).
ROUNDING, SUM_ERROR = 2.0 ** -8, 2.0 ** -10


def problems() -> list[tuple[int, int, int]]:
    return [(m, n, k) for m in TOKENS for n, k in LAYERS]


def name_of(m: int, n: int, k: int) -> str:
    """Returns the problem's name in the results of `sluice bench --set row`."""
    return f"{m}x{n}x{k} e4m3 > bf16 promoted row-scaled"


class Bench(peer_race.Clock):
    """One problem: copies of (A, W, scales of A, scales of W, D), and the expected results."""

    def __init__(self, torch, shape: tuple[int, int, int]):
        import sluice.torch as st
        self.torch, self.st = torch, st
        m, n, k = shape
        generator = torch.Generator(device="cuda").manual_seed(m + n + k)
        fp8 = torch.float8_e4m3fn

        def operands(whole: bool) -> tuple:
            def values(rows: int):
                x = (torch.randint(-1, 2, (rows, k), device="cuda", generator=generator).float() if whole
                     else torch.randn((rows, k), device="cuda", generator=generator))
                return x.to(fp8)

            def scales(rows: int):
                powers = torch.exp2(torch.randint(-2, 3, (rows, 1), device="cuda", generator=generator).float())
                return powers if whole else torch.rand((rows, 1), device="cuda", generator=generator) * 0.02 + 0.01
            return values(m), values(n), scales(m), scales(n)
        self.whole, self.real = operands(True), operands(False)
        l2 = torch.cuda.get_device_properties(0).L2_cache_size
        self.copies = [(*(x.clone() for x in self.real), torch.empty((m, n), dtype=torch.bfloat16, device="cuda"))
                       for _ in range(copies_for(n * k, l2))]

    def sluice(self, i: int) -> None:
        a, w, of_a, of_w, d = self.copies[i]
        self.st.scaled_mm(a, w.t(), of_a, of_w.t(), out_dtype=d.dtype, out=d)

    def peer(self, i: int) -> None:
        a, w, of_a, of_w, d = self.copies[i]
        self.torch._scaled_mm(a, w.t(), scale_a=of_a, scale_b=of_w.t(), out_dtype=d.dtype, use_fast_accum=False, out=d)

    def check(self, entry: peer_race.Entry) -> str:
        """Raises if a result is wrong: a wrong bit with whole numbers, or an error beyond the bound with real
        data."""
        exact, _ = self.wanted(self.whole)
        exact = exact.to(self.torch.bfloat16)
        self.expect(entry, self.whole, lambda d: d == exact)
        wanted, magnitude = self.wanted(self.real)
        bound = wanted.abs() * ROUNDING + magnitude * SUM_ERROR
        d = self.expect(entry, self.real, lambda d: (d.double() - wanted).abs() <= bound)  # NaN is wrong
        return f"whole numbers exact; largest error {float(((d.double() - wanted).abs() / bound).max()):.3f} of the bound"

    def wanted(self, operands: tuple) -> tuple:
        a, w, of_a, of_w = (x.double() for x in operands)
        scales = of_a * of_w.t()
        return a @ w.t() * scales, a.abs() @ w.abs().t() * scales

    def expect(self, entry: peer_race.Entry, operands: tuple, right):
        """Launches twice, because the second launch finds the state that the first left. Returns D."""
        for place, values in zip(self.copies[0], operands):
            place.copy_(values)
        d = self.copies[0][4]
        for _ in range(2):
            d.fill_(float("nan"))
            entry.launch(0)
            wrong = ~right(d)
            if bool(wrong.any()):
                raise ArithmeticError(f"{int(wrong.sum())} of {wrong.numel()} elements are wrong")
        return d


def ratio_of(shape: dict) -> float | None:
    """Returns the peer's time divided by sluice's; None if either is wrong or missing."""
    us = {c["name"]: c["us"]["median"] for c in shape["contenders"] if c.get("verified")}
    return us[PEER] / us[OURS] if OURS in us and PEER in us else None


def summary(shapes: list[dict]) -> list[str]:
    """Returns a line per number of tokens: geometric mean and minimum of the ratios."""
    lines = []
    for m in dict.fromkeys(shape["problem"]["m"] for shape in shapes):
        ratios = [r for shape in shapes if shape["problem"]["m"] == m and (r := ratio_of(shape)) is not None]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            lines.append(f"{m:5} tokens: {PEER} / {OURS} {mean:.3f} ({min(ratios):.3f} to {max(ratios):.3f}; {len(ratios)})")
    return lines


def measure(arguments: argparse.Namespace) -> int:
    torch = peer_race.torch_with_gpu()
    if torch is None:
        return 77
    import sluice
    peer_race.ROUNDS, peer_race.REST_MS = arguments.rounds, arguments.rest_ms
    chosen = [shape for shape in problems() if not arguments.m or shape[0] in arguments.m]
    of = {shape: sluice.Problem(*shape, a="e4m3", scale_a="vector", scale_b="vector") for shape in chosen}
    sluice.prepare(list(of.values()))
    machine = peer_race.machine_json(torch, sluice=sluice.__version__)
    method = {"mode": "cold", "rounds": arguments.rounds, "rest_ms": arguments.rest_ms, "replay_us": peer_race.REPLAY_US,
              "l2_times": L2_TIMES, "fill": "normal", "sums": "promoted", "scales": "row"}
    bar, end, shapes, cut = ProgressBar(), time.monotonic() + arguments.seconds, [], False
    for index, shape in enumerate(chosen):
        if time.monotonic() > end:
            cut = True
            break
        bar.show(name_of(*shape), index, len(chosen))
        plan = sluice.plan(of[shape], device=0)
        detail = next(line.partition(" ")[2].strip() for line in plan.text.splitlines() if line.startswith("kernel"))
        bench = Bench(torch, shape)
        before = nvidia_smi(("clocks.sm", "power.draw")) if index % 8 == 0 else {}
        contenders = peer_race.race(bench, [peer_race.Entry(OURS, detail, bench.sluice), peer_race.Entry(PEER, "row-wise", bench.peer)],
                                    bench.check)
        m, n, k = shape
        shapes.append({"name": name_of(*shape), "problem": {"m": m, "n": n, "k": k, "a": "e4m3", "b": "e4m3", "d": "bf16",
                                                            "accumulate": "promoted", "scale_a": "vector", "scale_b": "vector"},
                       "chosen_by": plan.source, "copies": len(bench.copies), "telemetry": before, "contenders": contenders})
        if arguments.out:  # after each shape, because the machine may be taken away
            run = {"schema": SCHEMA, **started(), "commit": os.environ.get("SLUICE_COMMIT") or commit(), **machine, "method": method,
                   "shapes": shapes}
            arguments.out.write_text(json.dumps(run, indent=1) + "\n")
    bar.clear()
    print("\n".join(summary(shapes)))
    wrong = [f"{shape['name']}: {c['name']}: {c['error']}" for shape in shapes for c in shape["contenders"] if "error" in c]
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else CUT if cut else 0


def self_test() -> int:
    """Compares the problems with bench/shapes.cc, and summarises invented results. Needs neither torch nor a
    GPU."""
    source = (pathlib.Path(__file__).resolve().parent.parent / "bench" / "shapes.cc").read_text(encoding="utf-8")
    made = source.partition("row_set() {")[2].partition("}\n\n")[0]
    assert "{" + ", ".join(map(str, TOKENS)) + "}" in made, "TOKENS are not those of row_set()"
    layers = "".join(source.partition("kLayers = {{")[2].partition("}};")[0].split())
    assert layers == ",".join("{%d,%d}" % layer for layer in LAYERS), "LAYERS are not kLayers"

    def timed(name: str, us: float) -> dict:
        return {"name": name, "us": {"median": us}, "verified": True}
    good = {"problem": {"m": 1}, "contenders": [timed(OURS, 2.0), timed(PEER, 4.0)]}
    bad = {"problem": {"m": 1}, "contenders": [timed(OURS, 2.0), {"name": PEER, "verified": False, "error": "wrong"}]}
    assert ratio_of(good) == 2.0 and ratio_of(bad) is None
    assert summary([good, bad]) == [f"    1 tokens: {PEER} / {OURS} 2.000 (2.000 to 2.000; 1)"]
    return 0


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, help="where the results go, as JSON")
    parser.add_argument("--m", type=int, nargs="+", choices=TOKENS, help="only these numbers of tokens")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rest-ms", type=float, default=5.0)
    parser.add_argument("--seconds", type=float, default=120.0, help="begin no problem after so many (default 120)")
    parser.add_argument("--self-test", action="store_true")
    return parser.parse_args(words)


if __name__ == "__main__":
    given = parse(sys.argv[1:])
    sys.exit(self_test() if given.self_test else measure(given))
