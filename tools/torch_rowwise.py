#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares README's FP8 product with torch's: st.scaled_mm and torch._scaled_mm with a scale per row,
promoted sums.

    tools/torch_rowwise.py --out bench/results/h200/row_torch.json

Needs a Hopper GPU, torch and the Python package sluice (its library may be named by SLUICE_LIBRARY). The
problems are those of `sluice bench --set row`, whose cuBLASLt is the other peer. Both contenders read the same
operands. Each is checked before it is timed: all bits of sums of whole numbers, and real data within a bound
of fp64. Then they race as peers.py says, cold L2 by copies of all operands.

SLUICE_COMMIT names the commit of the library, if that is not the one of this tree. Exit: 0, 1 a contender is
wrong or missing, 3 --seconds ran out before the last problem, 77 no GPU or torch.
"""
import functools
import pathlib
import sys

from machine import nvidia_smi
from peers import OURS, Entry, Race, Wanted, copies_for, faults, head_of, launched_twice, means, measure, parser_of, plan_words, torch_here

SCHEMA = "sluice-row-torch-1"
PEER = "torch._scaled_mm"
# As row_set() of bench/shapes.cc has them; the self-test compares.
TOKENS = (1, 2, 4, 8, 16, 32, 48, 64, 256, 1024, 4096)
LAYERS = ((4096, 4096), (8192, 8192), (1280, 8192), (8192, 1024), (7168, 8192), (8192, 3584), (28672, 4096), (4096, 14336))
# Half a unit in the last place of bf16, and the largest relative error of a promoted sum (docs/numerics.md).
ROUNDING, SUM_ERROR = 2.0 ** -8, 2.0 ** -10


def name_of(m: int, n: int, k: int) -> str:
    """Returns the problem's name in the results of `sluice bench --set row`."""
    return f"{m}x{n}x{k} e4m3 > bf16 promoted row-scaled"


class Bench:
    """One problem: copies of (A, W, scales of A, scales of W, D)."""

    def __init__(self, torch, shape: tuple[int, int, int], device: str = "cuda"):
        self.torch = torch
        m, n, k = shape
        generator = torch.Generator(device=device).manual_seed(m + n + k)

        def operands(whole: bool) -> tuple:
            def values(rows: int):
                x = (torch.randint(-1, 2, (rows, k), device=device, generator=generator).float() if whole
                     else torch.randn((rows, k), device=device, generator=generator))
                return x.to(torch.float8_e4m3fn)

            def scales(rows: int):
                powers = torch.exp2(torch.randint(-2, 3, (rows, 1), device=device, generator=generator).float())
                return powers if whole else torch.rand((rows, 1), device=device, generator=generator) * 0.02 + 0.01
            return values(m), values(n), scales(m), scales(n)
        self.whole, self.real = operands(True), operands(False)
        l2 = torch.cuda.get_device_properties(0).L2_cache_size if device == "cuda" else n * k
        self.copies = [(*(x.clone() for x in self.real), torch.empty((m, n), dtype=torch.bfloat16, device=device)) for _ in range(copies_for(n * k, l2))]

    def ours(self, a, w, of_a, of_w, d):
        import sluice.torch as st
        return st.scaled_mm(a, w.t(), of_a, of_w.t(), out_dtype=d.dtype, out=d)

    def peer(self, a, w, of_a, of_w, d):
        return self.torch._scaled_mm(a, w.t(), scale_a=of_a, scale_b=of_w.t(), out_dtype=d.dtype, use_fast_accum=False, out=d)

    def entry(self, name: str, detail: str, product) -> Entry:
        return Entry(name, detail, lambda i: product(*self.copies[i]), functools.partial(self.check, product))

    def check(self, product) -> str:
        """Raises if a result is wrong: whole numbers in any bit, real data beyond the bound."""
        for operands in (self.whole, self.real):
            right = self.wanted(operands)
            error = launched_twice(self.torch, self.copies[0][4], lambda d: product(*operands, d), right.judge)
        return f"whole numbers exact; largest error {float((error / right.bound).max()):.3f} of the bound"

    def wanted(self, operands: tuple) -> Wanted:
        a, w, of_a, of_w = (x.double() for x in operands)
        scales = of_a * of_w.t()
        wanted = a @ w.t() * scales
        if operands is self.whole:
            return Wanted(*Wanted.exact(self.torch, wanted, self.torch.bfloat16))
        return Wanted(wanted, wanted.abs() * ROUNDING + a.abs() @ w.abs().t() * scales * SUM_ERROR)


def problem_of(sluice, shape: tuple[int, int, int]):
    return sluice.Problem(*shape, a="e4m3", scale_a="vector", scale_b="vector")


def shape_json(torch, arguments, shape: tuple[int, int, int]) -> dict:
    import sluice
    chosen_by, detail = plan_words(sluice.plan(problem_of(sluice, shape), device=0))
    bench, before = Bench(torch, shape), nvidia_smi(("clocks.sm", "power.draw"))
    contenders = Race(torch, len(bench.copies), arguments.rounds, arguments.rest_ms).run(
        [bench.entry(OURS, detail, bench.ours), bench.entry(PEER, "row-wise", bench.peer)])
    m, n, k = shape
    return {"name": name_of(*shape), "problem": {"m": m, "n": n, "k": k, "a": "e4m3", "b": "e4m3", "d": "bf16", "accumulate": "promoted",
                                                 "scale_a": "vector", "scale_b": "vector"},
            "chosen_by": chosen_by, "copies": len(bench.copies), "telemetry": before, "contenders": contenders}


def summary(shapes: list[dict]) -> list[str]:
    return means(shapes, (PEER,), lambda shape: f"{shape['problem']['m']:5} tokens")


def run(arguments) -> int:
    if (torch := torch_here()) is None:
        return 77
    import sluice
    problems = [(m, n, k) for m in arguments.m or TOKENS for n, k in LAYERS]
    sluice.prepare([problem_of(sluice, shape) for shape in problems])
    head = head_of(torch, arguments, SCHEMA, {"sluice": sluice.__version__}, sums="promoted", scales="row")
    return measure(arguments, head, problems, functools.partial(shape_json, torch, arguments), summary)


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
    good = {"name": "a", "problem": {"m": 1}, "contenders": [timed(OURS, 2.0), timed(PEER, 4.0)]}
    bad = {"name": "b", "problem": {"m": 1}, "contenders": [timed(OURS, 2.0), {"name": PEER, "verified": False, "error": "wrong"}]}
    assert summary([good, bad]) == [f"    1 tokens: 2.000 times {PEER} (2.00 to 2.00; 1)"], summary([good, bad])
    assert faults([good, bad]) == [f"b: {PEER}: wrong"]
    return 0


if __name__ == "__main__":
    parser = parser_of(__doc__, rounds=7, rest_ms=5.0, seconds=120.0)
    parser.add_argument("--m", type=int, nargs="+", choices=TOKENS, help="only these numbers of tokens")
    given = parser.parse_args()
    sys.exit(self_test() if given.self_test else run(given))
