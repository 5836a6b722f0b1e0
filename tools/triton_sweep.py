#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares Triton with cuBLASLt (through torch) on the decode sweep: FP8 e4m3 to bf16, few tokens, N = K =
4096.

Needs the GPU machine's torch and Triton, no network: python3 tools/triton_sweep.py --json FILE. Times as
`sluice bench` does (docs/performance.md): medians of CUDA graphs of many launches, over copies whose weights
are three times L2. Contenders run in turn with a rest and an untimed replay before each.

The Triton kernels (triton_matmul.py) are tuned for each M over the list of triton_configs.py. They are judged
as sluice is (docs/numerics.md): exact on whole numbers of this very problem, real data within a bound of
fp64. A new contender is a row of CONTENDERS.

If time runs out before all candidates were tried, the record says so ("cut", "cut_at"), as the peer may then
be slower than it could. Exit: 0, 1 a contender is wrong or missing at a shape, 3 a search was cut (unless
--allow-cut), 77 no torch, Triton or GPU here.
"""
import argparse
import concurrent.futures
import dataclasses
import json
import multiprocessing
import os
import pathlib
import random
import sys
import time
from typing import Callable

import triton_configs
from peer_race import REPLAY_US, REST_MS, ROUNDS, Clock, Entry, machine_json, race, torch_with_gpu
from triton_record import (L2_TIMES, ProgressBar, best_of, copies_for, nvidia_smi, rounded, run_json, searched, table, was_cut)

TOKENS = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128)
FINALISTS = 4  # per way to split, timed again before the race
COMPILE_SHARE, SCREEN_SHARE = 0.35, 0.8  # fraction of the total time; fraction of a shape's time
CUT = 3  # exit status
# Tolerances of an element: half a unit in the last place of bf16, and the tensor core's fast sums, which keep
# 14 bits of the largest product.
ROUNDING, SUM_ERROR = 2.0 ** -8, 2.0 ** -10


@dataclasses.dataclass
class Bench(Clock):
    """One problem: copies of A, W and D, the right D, and the deadline."""
    m: int
    n: int
    k: int
    scales: tuple
    real: tuple    # A and W of copy 0
    whole: tuple  # A and W of -1, 0 and 1: sums need at most 13 bits while k is at most 4096
    wanted: object
    bound: object
    deadline: float
    sms: int
    known: list = dataclasses.field(default_factory=list)  # configs that were fast for the previous M
    tried: dict = dataclasses.field(default_factory=dict)

    @staticmethod
    def create(torch, shape: tuple[int, int, int], deadline: float, seed: int) -> "Bench":
        m, n, k = shape
        properties = torch.cuda.get_device_properties(0)
        generator = torch.Generator(device="cuda").manual_seed(seed)

        def random_fp8(rows: int):
            return torch.randn((rows, k), device="cuda", generator=generator).to(torch.float8_e4m3fn)
        copies = [(random_fp8(m), random_fp8(n), torch.empty((m, n), dtype=torch.bfloat16, device="cuda"))
                  for _ in range(copies_for(n * k, properties.L2_cache_size))]
        scales = tuple(torch.tensor([value], dtype=torch.float32, device="cuda") for value in (0.5, 0.25))
        a, w = copies[0][0].double(), copies[0][1].double()
        real = (copies[0][0].clone(), copies[0][1].clone())
        whole = tuple(torch.randint(-1, 2, x.shape, device="cuda", generator=generator).float().to(torch.float8_e4m3fn) for x in real)
        wanted = (a @ w.T) * 0.125
        bound = wanted.abs() * ROUNDING + (a.abs() @ w.abs().T) * 0.125 * SUM_ERROR
        return Bench(torch, copies, m, n, k, scales, real, whole, wanted, bound, deadline, properties.multi_processor_count)

    def check(self, launch: Callable[[int], None]) -> str:
        """Raises if the result is wrong: a wrong bit with whole numbers, or an error beyond the bound with
        real data."""
        d = self.copies[0][2]
        exact = (self.whole[0].double() @ self.whole[1].double().T * 0.125).to(self.torch.bfloat16)
        self.expect(launch, self.whole, lambda: d == exact)
        self.expect(launch, self.real, lambda: (d.double() - self.wanted).abs() <= self.bound)  # NaN is wrong
        error = ((d.double() - self.wanted).abs() / self.bound).max()
        return f"largest error {float(error):.3f} of the bound"

    def expect(self, launch: Callable[[int], None], inputs: tuple, right: Callable[[], object]) -> None:
        """Launches twice, because the second launch finds the state that the first left."""
        for place, values in zip(self.copies[0], inputs):
            place.copy_(values)
        for _ in range(2):
            self.copies[0][2].fill_(float("nan"))
            launch(0)
            wrong = ~right()
            if bool(wrong.any()):
                raise ArithmeticError(f"{int(wrong.sum())} of {wrong.numel()} elements are wrong")


def triton_entries(bench: Bench, bar: ProgressBar) -> list[Entry]:
    """Returns the fastest config for each way to split, by timing all candidates while there is time."""
    from triton_matmul import TritonProduct
    order = triton_configs.candidates(bench.m, bench.n, bench.k, bench.sms)
    order = [c for c in bench.known if c in order] + [c for c in order if c not in bench.known]
    screen_until = time.monotonic() + SCREEN_SHARE * max(0.0, bench.deadline - time.monotonic())
    times, refused, wrong = {}, [], []
    for done, config in enumerate(order):
        if time.monotonic() > screen_until:
            break
        bar.show(f"M = {bench.m}: {config.text()}", done, len(order))
        try:
            product = TritonProduct(config, bench.copies, bench.scales)
            bench.check(product.launch)
            times[config] = bench.screen(product.launch)
        except ArithmeticError as why:
            wrong.append(f"{config.text()}: {why}")
        except Exception as why:  # Triton refuses: out of shared memory, or no layout
            refused.append(f"{config.text()}: {type(why).__name__}: {why}"[:300])
    ranked = sorted(times, key=times.get)
    bench.tried = {"candidates": len(order), "timed": len(times), "refused": len(refused),
                   "first_refused": refused[:3], "wrong": wrong,
                   "best": [{"config": c.text(), "us": rounded(times[c])} for c in ranked[:5]]}
    bench.tried["cut"] = was_cut(bench.tried)
    entries = []
    for way in triton_configs.WAYS:
        finalists = [c for c in ranked if c.way == way][:FINALISTS]
        again = {c: bench.screen(TritonProduct(c, bench.copies, bench.scales).launch) for c in finalists}
        if not again:
            continue
        best = min(again, key=again.get)
        entries.append(Entry(f"Triton {way}", best.text(), TritonProduct(best, bench.copies, bench.scales).launch))
        bench.known += sorted(again, key=again.get)
    return entries


def cublaslt_entries(bench: Bench, _: ProgressBar) -> list[Entry]:
    torch = bench.torch

    def launch(index: int) -> None:
        a, w, d = bench.copies[index]
        torch._scaled_mm(a, w.T, scale_a=bench.scales[0], scale_b=bench.scales[1], out_dtype=torch.bfloat16,
                         use_fast_accum=True, out=d)
    return [Entry("torch._scaled_mm", "cuBLASLt's first heuristic", launch)]


CONTENDERS: tuple[Callable[[Bench, ProgressBar], list[Entry]], ...] = (cublaslt_entries, triton_entries)


def compile_all(tokens: list[int], n: int, k: int, seconds: float, bar: ProgressBar) -> dict:
    """Fills Triton's cache with one process per core. Kernels that are not finished are compiled when needed.
    """
    from triton_matmul import compile_ahead, kernels_ahead
    jobs = kernels_ahead({b for m in tokens for b in triton_configs.blocks_of_m(m)}, n, k)
    random.Random(1).shuffle(jobs)  # so that kernels of all blocks of tokens are compiled if time runs out
    until, done, failures = time.monotonic() + seconds, 0, []
    pool = concurrent.futures.ProcessPoolExecutor(os.cpu_count(), mp_context=multiprocessing.get_context("spawn"))
    try:
        waiting = [pool.submit(compile_ahead, job) for job in jobs]
        for future in concurrent.futures.as_completed(waiting, timeout=seconds):
            done += 1
            if future.result():
                failures.append(future.result())
            bar.show("compile", done, len(jobs))
            if time.monotonic() > until:
                break
    except (concurrent.futures.TimeoutError, concurrent.futures.BrokenExecutor) as why:
        failures.append(f"stopped early: {type(why).__name__}")
    pool.shutdown(wait=True, cancel_futures=True)
    return {"kernels": len(jobs), "compiled": done, "failures": len(failures), "first_failures": failures[:3]}


def sweep(arguments: argparse.Namespace) -> int:
    torch = torch_with_gpu("triton")
    if torch is None:
        return 77
    import triton
    bar = ProgressBar()
    end = time.monotonic() + arguments.seconds
    compiled = compile_all(arguments.m, arguments.n, arguments.k, COMPILE_SHARE * arguments.seconds, bar)
    machine = machine_json(torch, triton=triton.__version__)
    method = {"mode": "cold", "rounds": ROUNDS, "rest_ms": REST_MS, "replay_us": REPLAY_US, "l2_times": L2_TIMES,
              "fill": "normal", "seconds": arguments.seconds, "compiled_ahead": compiled}
    shapes, known, failed = [], [], 0
    for index, m in enumerate(arguments.m):
        now = time.monotonic()
        deadline = now + max(0.0, end - now) / (len(arguments.m) - index)
        bench = Bench.create(torch, (m, arguments.n, arguments.k), deadline, seed=m)
        bench.known = known
        entries = [entry for contender in CONTENDERS for entry in contender(bench, bar)]
        bar.show(f"M = {m}: race", index, len(arguments.m))
        before = nvidia_smi(("clocks.sm", "clocks.mem", "power.draw", "temperature.gpu"))
        contenders = race(bench, entries, lambda entry: bench.check(entry.launch))
        known = list(dict.fromkeys(bench.known))[-24:]
        shapes.append({"name": f"{m}x{arguments.n}x{arguments.k} e4m3 > bf16", "copies": len(bench.copies),
                       "problem": {"m": m, "n": arguments.n, "k": arguments.k, "a": "e4m3", "b": "e4m3", "d": "bf16"},
                       "telemetry": {"before": before, "after": nvidia_smi(tuple(before)) if "error" not in before else {}},
                       "tuning": bench.tried, "contenders": contenders})
        failed += any("error" in c for c in contenders) or best_of(shapes[-1], "Triton") is None
        if arguments.json:  # after each shape, because the machine may be taken away
            arguments.json.write_text(json.dumps(run_json(machine, method, shapes), indent=1) + "\n")
    bar.clear()
    print("\n".join(table(shapes)))
    for shape in shapes:
        for text in shape["tuning"]["wrong"] + [f"{c['name']}: {c['error']}" for c in shape["contenders"] if "error" in c]:
            print(f"{shape['name']}: {text}")
    return 1 if failed else verdict_of(shapes, arguments.allow_cut)


def verdict_of(shapes: list[dict], allow_cut: bool) -> int:
    """Returns the exit status. Prints to stderr if the search was stopped early."""
    cut = [shape for shape in shapes if was_cut(shape["tuning"])]
    for shape in cut:
        print(f"{shape['name']}: the search was cut, {searched(shape['tuning'])} candidates timed: more --seconds", file=sys.stderr)
    return CUT if cut and not allow_cut else 0


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--m", type=int, nargs="+", default=list(TOKENS), help="tokens (default: the whole sweep)")
    parser.add_argument("--n", type=int, default=4096)
    parser.add_argument("--k", type=int, default=4096)
    parser.add_argument("--seconds", type=float, default=300.0, help="for everything, compiling too (default 300)")
    parser.add_argument("--json", type=pathlib.Path, help="where the record goes")
    parser.add_argument("--allow-cut", action="store_true", help="exit 0 though time ran out before all candidates were tried")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args(words)
    for name, value, step in (("--n", arguments.n, 128), ("--k", arguments.k, 256)):
        if value < step or value % step != 0:
            parser.error(f"{name} = {value} must be a multiple of {step}, the widest block of the kernels")
    if min(arguments.m) < 1 or max(arguments.m) > 1024:
        parser.error(f"--m = {arguments.m}: 1 to 1024 tokens each")
    if arguments.k > 4096:
        parser.error(f"--k = {arguments.k} must be at most 4096: beyond it sums of whole numbers are not exact in the tensor core")
    if arguments.seconds <= 0:
        parser.error(f"--seconds = {arguments.seconds} must be above 0")
    return arguments


if __name__ == "__main__":
    chosen = parse(sys.argv[1:])
    if chosen.self_test:
        from triton_self_test import self_test
        sys.exit(self_test())
    sys.exit(sweep(chosen))
