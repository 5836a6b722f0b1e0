# SPDX-License-Identifier: Apache-2.0
"""Measures the host time of an eager call into a given output, together with torch's own in the same run, and
the bytes per second that a quantiser moves.

    python tests/python/gpu_cost.py [RESULTS.json]

Exits with 1 if the bar is missed: scaled_mm takes at most 6 us and less than torch._scaled_mm. A time is the median wall
time of batches so short that the queue never fills, on one pinned thread.
"""
import json
import os
import statistics
import sys
import time

import torch

import sluice
import sluice.torch as st

BAR_US = 6.0
CALLS, BATCHES = 64, 300


def host_us(calls: dict) -> dict:
    """Returns the host time of each of `calls` in us. The calls take turns, so that a slow spell of the machine falls on
    all."""
    for call in calls.values():
        for _ in range(100):
            call()
    torch.cuda.synchronize()
    samples: dict = {name: [] for name in calls}
    for _ in range(BATCHES):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(CALLS):
                call()
            samples[name].append((time.perf_counter() - start) / CALLS * 1e6)
            torch.cuda.synchronize()
    return {name: {"median": round(statistics.median(found), 3), "least": round(min(found), 3)}
            for name, found in samples.items()}


def gpu_us(call, repeats: int = 20) -> float:
    graph = torch.cuda.CUDAGraph()
    call()
    with torch.cuda.graph(graph):
        for _ in range(repeats):
            call()
    graph.replay()
    times = []
    for _ in range(10):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / repeats)
    return statistics.median(times)


def costs() -> dict:
    e4m3, bf16 = torch.float8_e4m3fn, torch.bfloat16
    a = torch.randn(64, 512, device="cuda").to(e4m3)
    w = torch.randn(512, 512, device="cuda").to(e4m3).t()
    x, y = torch.randn(64, 512, device="cuda", dtype=bf16), torch.randn(512, 512, device="cuda", dtype=bf16)
    one = torch.ones((), device="cuda")
    out = torch.empty(64, 512, device="cuda", dtype=bf16)
    q, s = torch.empty(64, 512, device="cuda", dtype=e4m3), torch.empty(64, 4, device="cuda")
    z = y.t()
    packed = st.pack_int4(y)
    return host_us({
        "nothing": lambda: None,
        "sluice scaled_mm(out=)": lambda: st.scaled_mm(a, w, one, one, out=out),
        "torch._scaled_mm(out=)": lambda: torch._scaled_mm(a, w, one, one, out_dtype=bf16, out=out),
        "sluice scaled_mm": lambda: st.scaled_mm(a, w, one, one, out_dtype=bf16),
        "torch._scaled_mm": lambda: torch._scaled_mm(a, w, one, one, out_dtype=bf16),
        "sluice mm(out=)": lambda: st.mm(x, z, out=out),
        "torch.mm(out=)": lambda: torch.mm(x, z, out=out),
        "sluice linear": lambda: st.linear(x, y),
        "torch linear": lambda: torch.nn.functional.linear(x, y),
        "sluice quantize(out=, scales=)": lambda: st.quantize(x, "1x128", out=q, scales=s),
        "sluice packed_mm(out=)": lambda: st.packed_mm(x, packed, out=out),
        "sluice op through the dispatcher": lambda: torch.ops.sluice.scaled_mm_out(a, w, one, one, False, None, None, None, False, None, 0, out),
    })


def quantizer_rates() -> dict:
    rates = {}
    sluice.prepare_quantizers("bf16")
    x = torch.randn(16384, 8192, device="cuda", dtype=torch.bfloat16)  # 256 MB: several times the size of L2
    copy = torch.empty_like(x)
    rates["copy"] = round(2 * x.nbytes / gpu_us(lambda: copy.copy_(x)) * 1e-6, 3)
    for granularity in ("tensor", "row", "1x128", "128x128"):
        q, s = st.quantize(x, granularity)
        reads = 2 if granularity == "tensor" else 1
        moved = reads * x.nbytes + q.nbytes + s.nbytes
        rates[granularity] = round(moved / gpu_us(lambda: st.quantize(x, granularity, out=q, scales=s)) * 1e-6, 3)
    return rates


def main() -> int:
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[-1]})
    with torch.no_grad():
        found = {"commit": os.environ.get("SLUICE_COMMIT", ""), "sluice": sluice.__version__,
                 "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "command": " ".join(sys.argv), "host_us": costs(), "quantizers_TB_per_s": quantizer_rates(), "torch": torch.__version__,
                 "python": sys.version.split()[0], "gpu": torch.cuda.get_device_name()}
    print(json.dumps(found, indent=1))
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)
    ours, theirs = (found["host_us"][name]["median"] for name in ("sluice scaled_mm(out=)", "torch._scaled_mm(out=)"))
    good = ours <= BAR_US and ours < theirs
    print(f"scaled_mm(out=): {ours} us, torch {theirs} us, bar {BAR_US}: {'met' if good else 'MISSED'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
