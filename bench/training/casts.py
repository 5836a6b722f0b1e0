# SPDX-License-Identifier: Apache-2.0
"""Times st.quantize_both beside torch.compile's code for the same outputs, torchao's two Triton casts by 1x128 and a copy: inputs not in L2, CUDA
graphs, in turns. Of SwiGLU and of its gradient, the peer is torch.compile's SwiGLU, and quantize_both of what it wrote.

    PYTHONPATH=python python bench/training/casts.py OUT.json [--rounds 7] [--shapes 4096x4096,...] [--alone]

`share` is that of HBM's rate: 4.5 TB/s of an H200, 3.0 of an H100. It counts 4 bytes per element for blocks. Scales of rows and of the
matrix count 6, because the input must be read twice. SwiGLU reads 4 bytes per element of its result, of its gradient 3, where a matrix has 2. The
compiled code rounds scales of rows to powers of two as the kernel does. --alone leaves peers out. torchao tunes its kernels at each shape.
"""
import argparse
import json
import pathlib
import statistics
import sys

import torch

import sluice
import sluice.torch as st
from turns import in_turns

BF16, E4M3 = torch.bfloat16, torch.float8_e4m3fn
LARGEST, SMALLEST = 448.0, 1e-12
SHAPES = ((4096, 4096), (8192, 2048), (16384, 4096), (16384, 14336), (28672, 4096), (1000, 4112))
BYTES = {"1x128": 4, "128x128": 4, "row": 6, "tensor": 6}
COLD_BYTES, LAUNCHES = 250e6, 20


def multiplier(amax, power_of_two=False):
    scale = LARGEST / amax.clamp(min=SMALLEST)
    return torch.exp2(torch.floor(torch.log2(scale))) if power_of_two else scale


def codes(x, factor):
    return (x * factor).clamp(-LARGEST, LARGEST).to(E4M3)


def by_tensor(x):
    x = x.float()
    m = multiplier(x.abs().amax())
    q = codes(x, m)
    return q, q.t().contiguous(), 1 / m


def by_row(x):
    x = x.float()
    m, n = multiplier(x.abs().amax(1, keepdim=True), True), multiplier(x.abs().amax(0, keepdim=True), True)
    return codes(x, m), codes(x, n).t().contiguous(), 1 / m, 1 / n.t()


def by_row_block(x):
    t, k = x.shape
    x = x.float()
    rows, columns = x.view(t, k // 128, 128), x.view(t // 128, 128, k)
    m, n = multiplier(rows.abs().amax(2, keepdim=True)), multiplier(columns.abs().amax(1, keepdim=True))
    return codes(rows, m).view(t, k), codes(columns, n).view(t, k).t().contiguous(), 1 / m, (1 / n).view(t // 128, k)


def by_square(x):
    t, k = x.shape
    x = x.float().view(t // 128, 128, k // 128, 128)
    m = multiplier(x.abs().amax((1, 3), keepdim=True))
    q = codes(x, m).view(t, k)
    return q, q.t().contiguous(), 1 / m


def swiglu(x, dy=None):
    gate, up = x.float().chunk(2, -1)
    share = gate.sigmoid()
    if dy is None:
        return (gate * share * up).to(x.dtype)
    return torch.cat([dy * up * (share * (1 + gate * (1 - share))), dy * (gate * share)], -1).to(x.dtype)


def torchaos():
    """Returns torchao's casts of rows and of columns by 1x128, as one call; None where it is not installed."""
    try:
        from torchao.prototype.blockwise_fp8_training import kernels
    except ImportError:
        return None
    for kernel in (kernels.triton_fp8_blockwise_act_quant_lhs_kernel, kernels.triton_fp8_blockwise_act_quant_transposed_lhs_kernel):
        kernel.cache.clear()  # its key has no number of tokens
    return lambda x: (kernels.triton_fp8_blockwise_act_quant_lhs(x, 128), kernels.triton_fp8_blockwise_act_quant_transposed_lhs(x, 128))


COMPILED = {"tensor": by_tensor, "row": by_row, "1x128": by_row_block, "128x128": by_square}


def captured(call, inputs):
    """Returns a CUDA graph of calls that go from input to input."""
    for x in inputs[:3]:
        call(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(LAUNCHES):
            call(inputs[i % len(inputs)])
    return graph


def run(t, k, rounds, alone):
    inputs = [torch.randn(t, k, device="cuda", dtype=BF16) for _ in range(max(2, int(COLD_BYTES // (2 * t * k)) + 1))]
    copy = torch.empty_like(inputs[0])
    graphs = {"copy": captured(copy.copy_, inputs)}
    for name in BYTES:
        graphs[f"sluice {name}"] = captured(lambda x: st.quantize_both(x, name, power_of_two=name == "row"), inputs)
        if not alone and t % 128 == 0 and k % 128 == 0:
            torch._dynamo.reset()
            graphs[f"compiled {name}"] = captured(torch.compile(COMPILED[name], dynamic=False), inputs)
    graphs["sluice 1x128 with sums"] = captured(lambda x: st.quantize_both(x, "1x128", sums=True), inputs)
    of_torchao = None if alone else torchaos()
    if of_torchao is not None and t % 128 == 0 and k % 128 == 0:
        graphs["torchao 1x128"] = captured(of_torchao, inputs)
    if k % 32 == 0:
        of = {id(x): torch.randn(t, k // 2, device="cuda", dtype=BF16) for x in inputs}
        torch._dynamo.reset()
        made = torch.compile(swiglu, dynamic=False)
        for name in BYTES:
            options = {"granularity": name, "power_of_two": name == "row"}
            graphs[f"swiglu {name}"] = captured(lambda x: st.quantize_both(x, gated=True, **options), inputs)
            graphs[f"gradient {name}"] = captured(lambda x: st.quantize_both(x, gated=True, gradient=of[id(x)], **options), inputs)
            if not alone:
                graphs[f"swiglu {name} apart"] = captured(lambda x: st.quantize_both(made(x), **options), inputs)
                graphs[f"gradient {name} apart"] = captured(lambda x: st.quantize_both(made(x, of[id(x)]), **options), inputs)
    times = in_turns({name: graph.replay for name, graph in graphs.items()}, rounds)
    us = {name: statistics.median(ms) / LAUNCHES * 1e3 for name, ms in times.items()}
    rate = 4.5e6 if "H200" in torch.cuda.get_device_name() else 3.0e6
    row = {"tokens": t, "columns": k, "us": us, "share": {name: count * t * k / us[f"sluice {name}"] / rate for name, count in BYTES.items()}}
    row["share"]["copy"] = 4 * t * k / us["copy"] / rate
    for source, elements, read in (("swiglu", t * k / 2, 4), ("gradient", t * k, 3)):
        for name, count in BYTES.items():
            if f"{source} {name}" in us:
                row["share"][f"{source} {name}"] = (2 + read * (count - 2) / 2) * elements / us[f"{source} {name}"] / rate
    print(f"{t}x{k}", {name: round(value, 3) for name, value in row["share"].items()},
          {name: round(us[f"compiled {name}"] / us[f"sluice {name}"], 2) for name in BYTES if f"compiled {name}" in us},
          round(us["sluice 1x128 with sums"] / us["sluice 1x128"], 3),
          {name: round(us[f"{name} apart"] / us[name], 2) for name in us if f"{name} apart" in us},
          round(us["torchao 1x128"] / us["sluice 1x128"], 2) if "torchao 1x128" in us else "no torchao", flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--shapes", default=",".join(f"{t}x{k}" for t, k in SHAPES))
    parser.add_argument("--alone", action="store_true")
    given = parser.parse_args()
    rows = []
    for shape in given.shapes.split(","):
        t, k = (int(number) for number in shape.split("x"))
        rows.append(run(t, k, given.rounds, given.alone))
        torch.cuda.empty_cache()
        given.out.write_text(json.dumps({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "sluice": sluice.__version__,
                                         "command": " ".join(sys.argv), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
