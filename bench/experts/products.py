# SPDX-License-Identifier: Apache-2.0
"""Times products of groups beside DeepGEMM and torch: equal groups, cold weights, CUDA graphs, contenders in turn.

    PYTHONPATH=python python bench/experts/products.py OUT.json [--seconds 120] [--only few|many|wgrad]

DeepGEMM is taken from vLLM's wheel if ``vllm.third_party.deep_gemm`` or ``deep_gemm`` can be imported; without it, it is left out.
Each result has the microseconds of every contender and of the floor: bytes at 4.5 TB/s, or flops at 1685 TFLOP/s (845 in 16 bits).
Ours is checked once against the product of one group alone, bit by bit.
"""
import argparse
import importlib
import json
import pathlib
import statistics
import sys
import time

import torch

import sluice.torch as st
ROOT = pathlib.Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "bench/decode")]
from record import head

BF16, E4M3 = torch.bfloat16, torch.float8_e4m3fn
HBM, FP8_RATE, BF16_RATE = 4.5e6, 1685e6, 845e6  # per microsecond: bytes, flops
FEW = [(g, m, n, k) for g, m in ((8, 4), (8, 16), (8, 64), (32, 2), (32, 16)) for n, k in ((4096, 7168), (7168, 2048))]
FEW += [(128, m, n, k) for m in (2, 32) for n, k in ((1536, 2048), (2048, 768))]
MANY = [(g, m, n, k) for g, m in ((8, 128), (8, 1024), (32, 256), (4, 8192)) for n, k in ((4096, 7168), (7168, 2048))]
MANY += [(128, 512, n, k) for n, k in ((1536, 2048), (2048, 768))]
COLD_BYTES = 3 * 60 * 2**20  # weights that are rotated, at least: three times L2
MOST_COPIES = 8  # where all weights have one size
ROUNDS, REPLAY_US, MOST_LAUNCHES = 9, 3000, 400  # a replay is so long that the graph's own launch does not count


def peer():
    for name in ("vllm.third_party.deep_gemm", "deep_gemm"):
        try:
            return importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 - a wheel that does not load is left out, and says why
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
    return None


def copies_of(read, most=None):
    """Returns in how many copies weights are rotated, of which a call reads so many bytes."""
    count = max(2, -(-COLD_BYTES // max(int(read), 1)))
    return count if most is None else min(count, most)


def floor_of(size, rate, groups, rows, n, k):
    """Returns microseconds. ``size``: bytes of an element of both operands; ``rate``: flops per microsecond."""
    bytes_ = groups * n * k * size + groups * rows * (k * size + 2 * n)
    return max(bytes_ / HBM, 2 * groups * rows * n * k / rate)


class Case:
    """One problem, with copies of its weights that together are larger than L2."""

    def __init__(self, groups, rows, n, k):
        self.groups, self.rows, self.n, self.k = groups, rows, n, k
        self.x = torch.randn(groups * rows, k, device="cuda", dtype=BF16)
        self.weights = [torch.randn(groups, n, k, device="cuda", dtype=BF16) / k**0.5 for _ in range(copies_of(groups * n * k, MOST_COPIES))]
        self.ends = torch.arange(1, groups + 1, device="cuda", dtype=torch.int32) * rows
        self.x8 = st.quantize(self.x, "1x128")
        self.w8 = []
        for w in self.weights:
            parts = [st.quantize(each, "128x128") for each in w]
            self.w8.append((torch.stack([codes for codes, _ in parts]), torch.stack([scale for _, scale in parts])))
        self.d = torch.empty(groups * rows, n, device="cuda", dtype=BF16)

    def sluice_fp8(self, i):
        codes, scales = self.w8[i]
        st.scaled_grouped_mm(self.x8[0], codes.transpose(1, 2), self.x8[1], scales, self.ends, out_dtype=BF16, out=self.d)

    def sluice_bf16(self, i):
        st.grouped_mm(self.x, self.weights[i].transpose(1, 2), offs=self.ends, out=self.d)

    def torch_bf16(self, i):
        torch._grouped_mm(self.x, self.weights[i].transpose(1, 2), offs=self.ends)

    def deep_gemm_of(self, theirs):
        columns = theirs.get_mn_major_tma_aligned_tensor  # the order that its kernels read: else every call begins with a copy
        codes, scales = self.x8[0], columns(self.x8[1])
        if self.rows >= 128:
            indices = torch.arange(self.groups, device="cuda", dtype=torch.int32).repeat_interleave(self.rows)
            return lambda i: theirs.m_grouped_fp8_gemm_nt_contiguous((codes, scales), self.w8[i], self.d, indices)
        counts = torch.full((self.groups,), self.rows, device="cuda", dtype=torch.int32)
        high = max(self.rows, 64)
        padded = torch.zeros(self.groups, high, self.k, device="cuda", dtype=BF16)
        padded[:, :self.rows] = self.x.view(self.groups, self.rows, self.k)
        x8, s8 = st.quantize(padded.view(-1, self.k), "1x128")
        pair, d = (x8.view(self.groups, high, self.k), columns(s8.view(self.groups, high, -1))), torch.empty(self.groups, high, self.n, device="cuda", dtype=BF16)
        return lambda i: theirs.m_grouped_fp8_gemm_nt_masked(pair, self.w8[i], d, counts, self.rows)

    def wgrad(self, i):
        st.grouped_mm(self.x.t(), self.y, offs=self.ends, out_dtype=BF16)

    def torch_wgrad(self, i):
        torch._grouped_mm(self.x.t(), self.y, offs=self.ends)


def captured(call, copies):
    """Returns a graph of as many calls as take REPLAY_US, and their number."""
    def graph_of(launches):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for i in range(launches):
                call(i % copies)
        return graph

    call(0)
    torch.cuda.synchronize()
    few = 2 * copies
    launches = max(few, min(MOST_LAUNCHES, int(REPLAY_US * few / elapsed_us(graph_of(few))))) // copies * copies
    return graph_of(launches), launches


def elapsed_us(graph):
    start, end = torch.cuda.Event(True), torch.cuda.Event(True)
    start.record()
    graph.replay()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e3


def timed(graphs):
    """Returns the median microseconds of one launch of each contender, in turns. ``graphs``: of captured(), by name."""
    times = {name: [] for name in graphs}
    for _ in range(ROUNDS):
        for name, (graph, launches) in graphs.items():
            times[name].append(elapsed_us(graph) / launches)
            time.sleep(0.002)
    return {name: statistics.median(values) for name, values in times.items()}


def contenders(case, theirs, kind):
    if kind == "wgrad":
        case.y = torch.randn(case.x.shape[0], case.n, device="cuda", dtype=BF16)
        return {"sluice bf16": case.wgrad, "torch bf16": case.torch_wgrad}
    made = {"sluice fp8": case.sluice_fp8, "sluice bf16": case.sluice_bf16, "torch bf16": case.torch_bf16}
    if theirs is not None:
        made["DeepGEMM fp8"] = case.deep_gemm_of(theirs)
    return made


def check(case):
    """Raises if a group's rows differ from the bits of that group alone."""
    case.sluice_fp8(0)
    g, rows = case.groups - 1, slice((case.groups - 1) * case.rows, case.groups * case.rows)
    codes, scales = (each[g:g + 1] for each in case.w8[0])
    alone = st.scaled_grouped_mm(case.x8[0][rows], codes.transpose(1, 2), case.x8[1][rows], scales, case.ends[:1], out_dtype=BF16)
    if not torch.equal(alone, case.d[rows]):
        raise AssertionError(f"{case.groups} x {case.rows}: {(alone != case.d[rows]).sum().item()} elements differ")


def run(theirs, kind, **size):
    """Returns what is measured of one case."""
    case = Case(**size)
    if kind != "wgrad":
        check(case)
    floors = {"fp8": floor_of(1, FP8_RATE, **size), "bf16": floor_of(2, BF16_RATE, **size)}
    calls = {name: (call, len(case.weights)) for name, call in contenders(case, theirs, kind).items()}
    return measured(calls) | {"floor_us": floors}


def measured(calls):
    """Returns the microseconds of each contender by name, `us`, and what those that raise say, "NAME refused". ``calls``: each with the
    number of copies of its weights."""
    record, graphs = {}, {}
    for name, (call, copies) in calls.items():
        try:
            graphs[name] = captured(call, copies)
        except Exception as error:  # noqa: BLE001 - a peer that refuses is a result
            record[f"{name} refused"] = said(error)
    return record | {"us": timed(graphs)}


def said(error, most=400):
    return f"{type(error).__name__}: {error}"[:most]


def walk(out, seconds, cases, run_one):
    """Calls ``run_one(**case)`` for each case, a dictionary, until so many seconds have passed. Prints each case with what it returns, with
    its error, or with why it is left out, and keeps all in the file ``out``."""
    began, results, this_run = time.time(), [], head(torch.cuda.get_device_name(), seconds)
    for case in cases:
        try:
            found = run_one(**case) if time.time() - began <= seconds else {"left out": "time ran out"}
        except Exception as error:  # noqa: BLE001 - the others go on
            found = {"error": said(error)}
        results.append(case | found)
        print(json.dumps(results[-1]), flush=True)
        with open(out, "w", encoding="utf-8") as file:
            json.dump({"run": this_run, "gpu": this_run["gpu"], "results": results}, file, indent=1)
        torch.cuda.empty_cache()


def cases_of(lists, only):
    """Returns the sizes of all lists, or of one, as walk takes them."""
    names = ("groups", "rows", "n", "k")
    return [{"kind": kind} | dict(zip(names, size)) for kind in lists if only in (None, kind) for size in lists[kind]]


def arguments_of(doc, only, *more):
    """Returns what the command line says. ``doc``: begins with what the script does; ``only``: names of its lists; ``more``: names of
    files that it may be given."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--only", choices=only)
    for name in more:
        parser.add_argument(name)
    return parser.parse_args()


def main():
    lists = {"few": FEW, "many": MANY, "wgrad": [case for case in MANY if case[1] >= 128]}
    arguments, theirs = arguments_of(__doc__, list(lists)), peer()
    walk(arguments.out, arguments.seconds, cases_of(lists, arguments.only), lambda **case: run(theirs, **case))


if __name__ == "__main__":
    main()
