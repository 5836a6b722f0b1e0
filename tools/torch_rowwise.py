#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares README's FP8 product with torch's: st.scaled_mm and torch._scaled_mm with a scale per row,
promoted sums.

    tools/torch_rowwise.py --out bench/results/h200/row_torch.json

Needs a Hopper GPU, torch and the Python package sluice (its library may be named by SLUICE_LIBRARY). The
problems are those of `sluice bench --set row`, read from its record; its cuBLASLt is the other peer. Both contenders read the same
operands. Each is checked before it is timed: all bits of sums of whole numbers, and real data within a bound
of fp64. Then they race as peers.py says, cold L2 by copies of all operands.

SLUICE_COMMIT names the commit of the library, if that is not the one of this tree. Exit: 0, 1 a contender is
wrong or missing, 3 --seconds ran out before the last problem, 77 no GPU or torch.
"""
import functools
import json
import pathlib
import sys

import result_files
from machine import nvidia_smi
from peers import OURS, Entry, Race, Wanted, copies_for, head_of, launched_twice, measure, parser_of, plan_words, torch_here

SCHEMA = "sluice-row-torch-1"
PEER = "torch._scaled_mm"
SET = pathlib.Path(__file__).resolve().parent.parent / "bench/results/h200/row.json"
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


def run(arguments) -> int:
    if (torch := torch_here()) is None:
        return 77
    import sluice
    every = [shape["problem"] for shape in json.loads(result_files.text_of(SET))["shapes"]]
    problems = [(p["m"], p["n"], p["k"]) for p in every if not arguments.m or p["m"] in arguments.m]
    sluice.prepare([problem_of(sluice, shape) for shape in problems])
    head = head_of(torch, arguments, SCHEMA, {"sluice": sluice.__version__}, sums="promoted", scales="row")
    return measure(arguments, head, problems, functools.partial(shape_json, torch, arguments))


if __name__ == "__main__":
    parser = parser_of(__doc__, rounds=7, rest_ms=5.0, seconds=120.0)
    parser.add_argument("--m", type=int, nargs="+", help="only these numbers of tokens")
    sys.exit(run(parser.parse_args()))
