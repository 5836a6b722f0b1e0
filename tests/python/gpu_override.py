# SPDX-License-Identifier: Apache-2.0
"""Checks ``st.override`` on a Hopper GPU, in about a minute. Results are compared with torch's own, bit by bit. Captures, compiled
graphs and torchao's layers are checked. The host's time of an eager call and the time of each kind of product stand beside torch's.

    python tests/python/gpu_override.py [--torchao FOLDER] [--seconds 50] [--json FILE]

``--torchao`` names a folder with an unpacked torchao, if it is not installed; without it that part is skipped and the last line says so.
The table of speeds has the least ratio per kind, as ``MEASURED`` of _override_dense.py wants it; it covers kinds that no record has. Exit: 0;
1 a check failed, or a product that the default takes is slower than torch's by more than 2 %; 77 no Hopper GPU.
"""
import argparse
import json
import os
import statistics
import sys
import time

import torch

import sluice
import sluice.torch as st
from sluice.torch import _override_dense as dense, _override_reasons as why

E4M3, E5M2, BF16, FP16, FP32 = torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16, torch.float16, torch.float32
failures: list = []
# The bar of issue 49: on no product that the default takes may torch be faster by more than this.
LEAST = 0.98


def expect(good: bool, what: str) -> None:
    if not good:
        failures.append(what)
        print(f"FAILED {what}", flush=True)


def whole(*shape: int, dtype: torch.dtype, device: str, low: int = -1, high: int = 1) -> torch.Tensor:
    return torch.randint(low, high + 1, shape, device=device).float().to(dtype)


def operands(m: int, n: int, k: int, scales: str, device: str, types: tuple = (E4M3, E4M3)) -> tuple:
    """Returns whole numbers whose sums are exact in the tensor core, and scales that are powers of two. Blocks of A are one row's."""
    def powers(*shape: int) -> torch.Tensor:
        return torch.exp2(torch.randint(-1, 2, shape, device=device).float())

    blocks = -(-k // 128)
    of_a, of_b = {"tensor": ((), ()), "row": ((m, 1), (1, n)), "block": ((m, blocks), (-(-n // 128), blocks))}[scales]
    scale_b = powers(*of_b)
    return (whole(m, k, dtype=types[0], device=device), whole(n, k, dtype=types[1], device=device).t(), powers(*of_a),
            scale_b.t() if scales == "block" else scale_b)


def wanted(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor, scales: str) -> torch.Tensor:
    """Returns the product in fp64."""
    a, b, scale_a, scale_b = a.double(), b.double(), scale_a.double(), scale_b.double()
    if scales == "block":
        k, n = b.shape
        a = a * scale_a.repeat_interleave(128, 1)[:, :k]
        return a @ (b * scale_b.repeat_interleave(128, 0)[:k].repeat_interleave(128, 1)[:, :n])
    return a @ b * scale_a * scale_b


def check_results(override: type, device: str, cases: list) -> int:
    """Compares results inside and outside of an override with fp64, bit by bit. Returns how many were compared with torch's own."""
    compared = 0
    for m, n, k, scales, result, with_bias, fast, types in cases:
        name = f"{m} x {n} x {k} {scales} {result} bias {with_bias} fast {fast} {types}"
        call = operands(m, n, k, scales, device, types)
        bias = whole(n, dtype=result, device=device, low=-8, high=8) if with_bias else None
        named = {"bias": bias, "out_dtype": result, "use_fast_accum": fast}
        right = wanted(*call, scales)
        right = (right if bias is None else right + bias.double()).to(result)
        override.reset_counts()
        with override(min_gain=0):
            inside = torch._scaled_mm(*call, **named)
            given = torch.full((m, n), 7, dtype=result, device=device)
            returned = torch._scaled_mm(*call, **named, out=given)
        expect(override.counts() == (2, {}), f"{name}: counts {override.counts()}")
        expect(returned is given and torch.equal(inside, given), f"{name}: out differs")
        expect(torch.equal(inside, right), f"{name}: {int((inside != right).sum())} of {right.numel()} elements are wrong")
        try:
            outside = torch._scaled_mm(*call, **named)
        except Exception as error:  # noqa: BLE001 - cuBLASLt takes less than sluice
            print(f"torch has no {name}: {str(error)[:80]}")
            continue
        compared += 1
        expect((inside.dtype, inside.shape, inside.stride()) == (outside.dtype, outside.shape, outside.stride()), f"{name}: another layout")
        expect(torch.equal(inside, outside), f"{name}: torch's bits differ")
    return compared


def gpu_cases() -> list:
    plain = (E4M3, E4M3)
    cases = [(m, 256, 512, scales, result, with_bias, fast, plain) for m in (1, 16, 33, 300) for scales in ("tensor", "row")
             for result, with_bias in ((BF16, False), (BF16, True), (FP16, True), (FP32, False)) for fast in (False, True)]
    cases += [(16, 256, 512, scales, BF16, False, False, types) for scales in ("tensor", "row") for types in ((E4M3, E5M2), (E5M2, E4M3))]
    return cases + [(1, 256, 512, "block", BF16, False, False, plain), (64, 128, 128, "block", BF16, False, False, plain)]


def check_passed(override: type, device: str) -> None:
    """Calls that torch must compute, and those that it refuses."""
    a, b, scale_a, scale_b = operands(16, 256, 512, "tensor", device)
    override.reset_counts()
    outside = torch._scaled_mm(a, b, scale_a, scale_b)
    with override(min_gain=0):
        inside = torch._scaled_mm(a, b, scale_a, scale_b)
        empty = torch._scaled_mm(a[:0], b, scale_a, scale_b, out_dtype=BF16)
        try:
            torch._scaled_mm(a[:, :256], b, scale_a, scale_b, out_dtype=BF16)
            expect(False, "sizes that do not fit are not refused")
        except RuntimeError:
            pass
    expect(torch.equal(inside.view(torch.uint8), outside.view(torch.uint8)) and inside.dtype is E4M3, "an e4m3 result is torch's")
    expect(empty.shape == (0, 256), "no rows")
    expect(override.counts() == (0, {why.RESULT: 1, why.EMPTY: 1, why.SIZES: 1}), f"passed calls: {override.counts()}")


def check_captures() -> None:
    """A product that ran before is captured from sluice; one that did not, from torch."""
    ready, fresh = operands(48, 512, 1024, "row", "cuda"), operands(41, 528, 1040, "tensor", "cuda", (E5M2, E4M3))
    right = [wanted(*ready, "row").to(BF16), wanted(*fresh, "tensor").to(FP16)]
    torch._scaled_mm(*fresh, out_dtype=FP16)  # torch's own first call is outside of a capture, too
    graph = torch.cuda.CUDAGraph()
    with st.override(min_gain=0):
        torch._scaled_mm(*ready, out_dtype=BF16)
        torch.cuda.synchronize()
        st.override.reset_counts()
        with torch.cuda.graph(graph):
            results = [torch._scaled_mm(*ready, out_dtype=BF16), torch._scaled_mm(*fresh, out_dtype=FP16)]
    counts = st.override.counts()
    expect(counts == (1, {why.IN_CAPTURE: 1}), f"captured: {counts}")
    for _ in range(2):
        for result in results:
            result.zero_()
        graph.replay()
        torch.cuda.synchronize()
        expect(all(torch.equal(x, y) for x, y in zip(results, right)), "a replay is wrong")
    sluice.prepare(dense.problem_of_call(*fresh, None, FP16, False))
    with st.override(min_gain=0):
        st.override.reset_counts()
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            torch._scaled_mm(*fresh, out_dtype=FP16)
    expect(st.override.counts() == (1, {}), f"prepared, not called, and captured: {st.override.counts()}")


def check_compiled() -> None:
    a, b, scale_a, scale_b = operands(16, 512, 1024, "row", "cuda")
    right = wanted(a, b, scale_a, scale_b, "row").to(BF16) + 1

    def product(*call: torch.Tensor) -> torch.Tensor:
        return torch._scaled_mm(*call, out_dtype=BF16) + 1

    for mode in ("default", "reduce-overhead"):
        torch._dynamo.reset()
        compiled = torch.compile(product, mode=mode, fullgraph=True)
        st.override.reset_counts()
        with st.override(min_gain=0):
            for _ in range(4):
                result = compiled(a, b, scale_a, scale_b).clone()
        counts = st.override.counts()
        expect(counts.taken > 0 and not counts.passed, f"compiled, {mode}: {counts}")
        expect(torch.equal(result, right), f"compiled, {mode}: wrong")


def check_gradients() -> None:
    """torch computes no gradient either; an argument that requires one is taken."""
    a, b, scale_a, scale_b = operands(16, 256, 512, "tensor", "cuda")
    st.override.reset_counts()
    with st.override(min_gain=0):
        result = torch._scaled_mm(a, b, scale_a.requires_grad_(), scale_b, out_dtype=BF16)
    expect(st.override.counts() == (1, {}) and torch.equal(result.detach(), wanted(a, b, scale_a.detach(), scale_b, "tensor").to(BF16)),
           f"an argument that requires a gradient: {st.override.counts()}")


def check_torchao() -> str:
    """torchao's fp8 layers with scales per row and per tensor, eager and compiled. Returns what was done."""
    try:
        import torchao
        from torchao.quantization import Float8DynamicActivationFloat8WeightConfig, PerRow, PerTensor, quantize_
    except ImportError as error:
        return f"torchao skipped: {error}"
    for granularity in (PerRow(), PerTensor()):
        name = f"torchao {type(granularity).__name__}"
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(1024, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 1024, bias=False)).cuda().bfloat16()
        quantize_(model, Float8DynamicActivationFloat8WeightConfig(granularity=granularity))
        torch._dynamo.reset()
        row = isinstance(granularity, PerRow)
        for kind, layers, rows in (("eager", model, 1), ("eager", model, 16), *([("compiled", torch.compile(model), 16)] if row else [])):
            x = torch.randn(rows, 1024, device="cuda", dtype=BF16)
            with torch.no_grad():
                outside = layers(x)
                st.override.reset_counts()
                with st.override():
                    inside = layers(x)
            counts = st.override.counts()
            distance = float((inside.float() - outside.float()).norm() / outside.float().norm())
            expect(counts == (2, {}), f"{name} {kind} {rows}: {counts}")
            expect(distance < 0.01, f"{name} {kind} {rows}: {distance:.4f} away from torch's")
    return f"torchao {torchao.__version__}"


# ---- times
def eager_us(calls: dict) -> dict:
    """Returns the host's time of each of ``calls`` in us. They take turns, so that a slow spell of the machine falls on all."""
    times: dict = {name: [] for name in calls}
    for _ in range(60):
        for name, call in calls.items():
            for _ in range(8):
                call()
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(64):
                call()
            times[name].append((time.perf_counter() - start) / 64 * 1e6)
            torch.cuda.synchronize()
    return {name: round(statistics.median(found), 2) for name, found in times.items()}


def host_us() -> dict:
    """Returns the host's times of an eager product. Torch's own is timed first: what the first override registers stays in front of it."""
    a, b, scale_a, scale_b = operands(16, 512, 1024, "row", "cuda")
    out = torch.empty(16, 512, dtype=BF16, device="cuda")

    def product() -> None:
        torch._scaled_mm(a, b, scale_a, scale_b, out_dtype=BF16, use_fast_accum=True, out=out)

    def ours_alone() -> None:
        st.scaled_mm(a, b, scale_a, scale_b, out_dtype=BF16, use_fast_accum=True, out=out)

    found = {**eager_us({"torch": product}), **eager_us({"st.scaled_mm": ours_alone})}
    with st.override(min_gain=0):
        found.update(eager_us({"override": product}))
    return {**found, **eager_us({"after the override": product})}


LAUNCHES = 24


def graph_of(copies: list, more: dict) -> torch.cuda.CUDAGraph:
    for call in copies[:2]:
        torch._scaled_mm(*call, **more)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(LAUNCHES):
            torch._scaled_mm(*copies[i % len(copies)], **more)
    return graph


def race(m: int, n: int, k: int, scales: str, fast: bool, result: torch.dtype = BF16, with_bias: bool = False) -> dict:
    """Times sluice's and torch's product in turn, each as a CUDA graph of launches over copies that exceed L2."""
    size = torch.cuda.get_device_properties(0).L2_cache_size
    made = max(2, min(LAUNCHES, -(-3 * size // (n * k + m * k))))
    _, _, *of_ones = operands(m, n, k, scales, "cuda")
    copies = [(torch.randn(m, k, device="cuda").to(E4M3), torch.randn(n, k, device="cuda").to(E4M3).t(), *(x * 0.02 for x in of_ones))
              for _ in range(made)]
    more = {"out_dtype": result, "use_fast_accum": fast, "bias": torch.randn(n, device="cuda", dtype=result) if with_bias else None}
    times: dict = {"ours": [], "torch": []}
    with st.override(min_gain=0):
        st.override.reset_counts()
        graphs = {"ours": graph_of(copies, more)}
        counts = st.override.counts()
    graphs["torch"] = graph_of(copies, more)
    expect(not counts.passed, f"a race of {m} x {n} x {k} {scales}: {counts}")
    for turn in range(9):
        for name in sorted(graphs, reverse=turn % 2 == 1):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            graphs[name].replay()
            begin.record()
            for _ in range(3):
                graphs[name].replay()
            end.record()
            end.synchronize()
            times[name].append(begin.elapsed_time(end) * 1e3 / (3 * LAUNCHES))
    us = {name: statistics.median(found) for name, found in times.items()}
    problem = dense.problem_of_call(*copies[0], more["bias"], result, fast)
    planned_by = sluice.plan(problem, device=0).source
    gain = dense.measured_gain(scales, fast, planned_by, m, k)
    return {"m": m, "n": n, "k": k, "scales": scales, "sums": "fast" if fast else "promoted", "result": str(result), "bias": with_bias,
            "planned_by": planned_by, "us": round(us["ours"], 3), "torch_us": round(us["torch"], 3),
            "ratio": round(us["torch"] / us["ours"], 3),
            "taken": gain is not None and gain >= LEAST}


def races() -> list:
    """Products in the order of their use: the recipes first, then kinds that no record has, then layers of another size."""
    found = [(m, 6144, 4096, scales, fast) for m in (1, 16, 64) for scales, fast in (("row", True), ("tensor", True), ("tensor", False))]
    found += [(m, 6144, 4096, "row", True) for m in (256, 1024, 4096)] + [(1, 6144, 4096, "block", False)]
    found += [(m, 4096, 14336, scales, True) for m in (1, 64) for scales in ("row", "tensor")]
    found += [(m, 6144, 4096, "tensor", fast) for m in (256, 1024) for fast in (True, False)]
    found += [(16, 6144, 4096, scales, True, result, bias) for scales in ("row", "tensor")
              for result, bias in ((FP32, False), (BF16, True))]
    return found + [(m, 2560, 1040, scales, True) for m in (1, 64) for scales in ("row", "tensor")]


def prepare_all() -> None:
    """Compiles all products of the checks and races in parallel."""
    wanted_all = gpu_cases() + [(m, n, k, scales, *(more or (BF16, False)), fast, (E4M3, E4M3)) for m, n, k, scales, fast, *more in races()]
    problems = []
    for m, n, k, scales, result, with_bias, fast, types in wanted_all:
        bias = torch.empty(n, dtype=result, device="meta") if with_bias else None
        problems.append(dense.problem_of_call(*operands(m, n, k, scales, "meta", types), bias, result, fast))
    sluice.prepare(problems)


def report(found: list) -> None:
    """Prints the least ratio of each kind of product."""
    least: dict = {}
    for line in found:
        kind = (line["scales"], line["sums"], line["planned_by"], "to 64 rows" if line["m"] <= 64 else "more rows")
        least[kind] = min(least.get(kind, 1e9), line["ratio"])
    for kind, ratio in sorted(least.items()):
        print(f"least ratio {ratio:.3f}  {', '.join(kind)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torchao", help="folder with an unpacked torchao")
    parser.add_argument("--seconds", type=float, default=50, help="no new race begins after these seconds")
    parser.add_argument("--json", help="file for the results")
    arguments = parser.parse_args()
    if not (torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)):
        print("no GPU of compute capability 9.0")
        return 77
    if arguments.torchao:
        sys.path.insert(0, arguments.torchao)
    start = time.monotonic()
    prepare_all()
    host = host_us()
    compared = check_results(st.override, "cuda", gpu_cases())
    expect(compared >= 40, f"only {compared} results were compared with torch's")
    print(f"{compared} results compared with torch's; host us of an eager call with out=: {host}", flush=True)
    check_passed(st.override, "cuda")
    check_captures()
    check_gradients()
    check_compiled()
    done = check_torchao()
    found, left = [], races()
    while left and time.monotonic() - start < arguments.seconds:
        asked = left.pop(0)
        try:
            line = race(*asked)
        except RuntimeError as error:  # torch has no kernel for it on this GPU, so there is nothing to lose against
            print(*asked, "not raced:", str(error).partition("\n")[0][:100], flush=True)
            continue
        found.append(line)
        print(" ".join(str(value) for value in line.values()), flush=True)
        expect(not line["taken"] or line["ratio"] >= LEAST, f"taken by default, and slower than torch: {line}")
    seconds = time.monotonic() - start
    record = {"commit": os.environ.get("SLUICE_COMMIT", ""), "sluice": sluice.__version__, "torch": torch.__version__, "torchao": done,
              "gpu": torch.cuda.get_device_name(), "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
              "command": " ".join(sys.argv),
              "host_us": host, "races": found, "not_raced": len(left), "failures": failures, "seconds": round(seconds, 1)}
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(record, file, indent=1)
    report(found)
    print(f"{'FAILED' if failures else 'passed'} in {seconds:.0f} s; {len(left)} races left out; {done}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
