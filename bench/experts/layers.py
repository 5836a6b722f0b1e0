# SPDX-License-Identifier: Apache-2.0
"""Times layers of experts beside vLLM's Triton kernels: cold weights, CUDA graphs, contenders in turn.

    PYTHONPATH=python python bench/experts/layers.py OUT.json [--vllm FOLDER] [--ops _moe_C.abi3.so] [--seconds 240]
        [--models Qwen3-30B,Mixtral] [--tokens 1,2,4] [--routing uniform,zipf,one] [--repeated MB]

FOLDER is vllm/model_executor/layers/fused_moe of vLLM 0.20.2, of whose kernels two are taken at run time; without it the peer is left out.
The file of --ops is vLLM's, whose moe_align_block_size sorts tokens for them; without it their sorting is not timed, and the record says
so. The quantisers around them are sluice's, which favours the peer, and the sum is torch's.
Each result has microseconds, and those of the floor: the bytes of all experts that a token chose, at 4.5 TB/s, or flops at 1685 TFLOP/s.
"""
import argparse
import ast
import copy
import importlib.util
import json
import pathlib
import sys
import tempfile

import torch

import sluice.torch as st
from sluice.torch import _moe_ops
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from products import BF16, FP8_RATE, HBM, MOST_COPIES, captured, copies_of, said, timed, walk

MODELS = {  # experts on this GPU, chosen per token, hidden, intermediate
    "Qwen3-30B": (128, 8, 2048, 768), "Qwen3-235B TP8": (128, 8, 4096, 192), "DeepSeek-V3 EP32": (8, 8, 7168, 2048),
    "DeepSeek-V3 EP8": (32, 8, 7168, 2048), "DeepSeek-V3 TP8": (256, 8, 7168, 256), "Mixtral": (8, 2, 4096, 14336),
}
ALL_EXPERTS = {"DeepSeek-V3 EP32": 256, "DeepSeek-V3 EP8": 256}  # ids of other ranks' experts are -1
TOKENS = (1, 8, 16, 64, 4096)
NAMES = ("write_zeros_to_output", "fused_moe_kernel", "invoke_fused_moe_triton_kernel")


def taken(path, names, imports):
    """Returns a module with these functions of a peer's file, whose own imports want all of the peer. ``imports``: lines in front."""
    source = path.read_text(encoding="utf-8")
    parts = {node.name: node for node in ast.parse(source).body if getattr(node, "name", None) in names}
    if missing := set(names) - set(parts):
        raise LookupError(f"{path} has no {', '.join(sorted(missing))}")
    texts = ["".join(f"@{ast.unparse(mark)}\n" for mark in node.decorator_list) + ast.get_source_segment(source, node)
             for node in parts.values()]
    made = pathlib.Path(tempfile.mkdtemp()) / f"{path.stem}_taken.py"  # Triton reads the file of a kernel
    made.write_text(imports + "\n\n\n" + "\n\n\n".join(texts), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(made.stem, made)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def their_kernels(folder):
    return taken(pathlib.Path(folder) / "fused_moe.py", NAMES,
                 "from typing import Any\nimport torch\nimport triton\nimport triton.language as tl")


def their_config(folder, experts, inner, tokens):
    """Returns the tuned tile of vLLM for so many tokens, or its default for block scales."""
    path = pathlib.Path(folder) / "configs" / f"E={experts},N={inner},device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json"
    if path.is_file():
        table = {int(key): value for key, value in json.loads(path.read_text()).items() if key.isdigit()}
        return table[min(table, key=lambda known: abs(known - tokens))]
    return {"BLOCK_SIZE_M": 16 if tokens <= 64 else 64, "BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 128, "GROUP_SIZE_M": 1 if tokens <= 16 else 32,
            "num_warps": 4, "num_stages": 3}


def routed(name, tokens, routing="uniform"):
    """Returns ids of all ranks' experts, of int32 as engines have them, the same in each run. With uniform routing a rank that has a part of
    the experts gets as many slots as it does in the mean, or one if that is less."""
    experts, chosen, _, _ = MODELS[name]
    everyone = ALL_EXPERTS.get(name, experts)
    if routing == "one":
        return torch.arange(chosen, dtype=torch.int32, device="cuda").repeat(tokens, 1)
    generator = torch.Generator().manual_seed(tokens)
    weights = torch.ones(everyone) if routing == "uniform" else torch.arange(1, everyone + 1).float() ** -0.8
    mean = max(tokens * chosen * experts // everyone, 1)
    while True:
        ids = torch.multinomial(weights.expand(tokens, -1), chosen, generator=generator)
        ids = torch.randperm(everyone, generator=generator)[ids]
        if routing != "uniform" or abs(int((ids < experts).sum()) - mean) <= mean // 32:
            return ids.int().cuda()


def used_of(name, ids):
    """Returns how many of this rank's experts a token chose. ``ids``: of all ranks' experts."""
    return ids[ids < MODELS[name][0]].unique().numel()


def aligned_by_op(name, ids, block):
    """Returns vLLM's sort, and the tensors that it fills, in vLLM's sizes. It takes ids of all ranks' experts, and a map to those that are
    here."""
    experts, slots = MODELS[name][0], ids.numel()
    everyone = ALL_EXPERTS.get(name, experts)
    most = slots + everyone * (block - 1)
    if slots < everyone:
        most = min(most, slots * block)
    numbers = torch.arange(everyone, device="cuda", dtype=torch.int32)
    here = torch.where(numbers < experts, numbers, -1) if everyone > experts else None
    sorted_ids, owners, count = (torch.empty(size, device="cuda", dtype=torch.int32) for size in (most, -(-most // block), 1))

    def sort():
        torch.ops._moe_C.moe_align_block_size(ids, everyone, block, sorted_ids, owners, count, here)

    return sort, sorted_ids, owners, count


class Layer:
    def __init__(self, name, tokens, routing):
        self.name, self.tokens = name, tokens
        self.experts, self.chosen, self.width, self.inner = MODELS[name]
        self.everyone = ALL_EXPERTS.get(name, self.experts)
        self.all_ids, self.weights = routed(name, tokens, routing), torch.rand(tokens, self.chosen, device="cuda")
        self.ids = torch.where(self.all_ids < self.experts, self.all_ids, -1)
        self.x = torch.randn(tokens, self.width, device="cuda", dtype=BF16)
        read = 3 * self.used() * self.inner * self.width  # bytes of a call's weights: chosen experts alone
        self.copies = copies_of(read, MOST_COPIES)
        first = self._weights()
        self.w = [first] + [[each.clone() for each in first] for _ in range(self.copies - 1)]

    def _weights(self):
        made = []
        for rows, columns in ((2 * self.inner, self.width), (self.width, self.inner)):
            codes = torch.empty(self.experts, rows, columns, device="cuda", dtype=torch.float8_e4m3fn)
            scales = torch.empty(self.experts, -(-rows // 128), -(-columns // 128), device="cuda")
            for e in range(self.experts):
                codes[e], scales[e] = st.quantize(torch.randn(rows, columns, device="cuda", dtype=BF16) / columns**0.5, "128x128")
            made += [codes, scales]
        return made

    def used(self):
        """Returns how many experts a token chose."""
        return used_of(self.name, self.all_ids)

    def floor(self):
        rows = int((self.ids >= 0).sum())
        bytes_ = 3 * self.used() * self.inner * self.width + 2 * self.tokens * self.width * 2 + rows * (self.width + 2 * self.inner)
        return max(bytes_ / HBM, 6 * rows * self.inner * self.width / FP8_RATE)

    def sluice(self, i, batch_invariant=False):
        w13, s13, w2, s2 = self.w[i]
        self.out = st.moe.experts(self.x, self.ids, self.weights, w13, w2, scale_w13=s13, scale_w2=s2, batch_invariant=batch_invariant,
                                  all_experts=self.everyone)

    def batch_invariant(self, i):
        self.sluice(i, True)

    def chains(self):
        """Returns a call of the layer as one chain; each copy of the weights has one. A graph does not keep the kernels of its chains: keep
        the call as long as it is replayed."""
        chains = []
        for w13, s13, w2, s2 in self.w:
            steps = st.Steps()
            steps.experts(self.x, self.ids, self.weights, w13, w2, scale_w13=s13, scale_w2=s2, all_experts=self.everyone)
            chains.append(st.Chain(steps))
        return lambda i: chains[i].run()

    def aligned_by_torch(self, block):
        """Returns what aligned_by_op does, filled once; its sort does nothing."""
        slots, flat = self.ids.numel(), self.ids.flatten()
        order = torch.sort(torch.where(flat < 0, self.experts, flat), stable=True).indices
        sorted_ids, owners = [], []
        for e in range(self.experts):
            mine = order[flat[order] == e]
            if mine.numel():
                padded = -(-mine.numel() // block) * block
                sorted_ids.append(torch.nn.functional.pad(mine, (0, padded - mine.numel()), value=slots))
                owners += [e] * (padded // block)
        sorted_ids = torch.cat(sorted_ids).int() if sorted_ids else torch.full((block,), slots, device="cuda", dtype=torch.int32)
        owners = torch.tensor(owners or [-1], device="cuda", dtype=torch.int32)
        count = torch.tensor([sorted_ids.numel()], device="cuda", dtype=torch.int32)
        return (lambda: None), sorted_ids, owners, count

    def of_vllm(self, kernels, folder, with_ops):
        config = their_config(folder, self.experts, self.inner, self.tokens)
        block = config["BLOCK_SIZE_M"]
        sort, sorted_ids, owners, count = aligned_by_op(self.name, self.all_ids, block) if with_ops else self.aligned_by_torch(block)
        hidden = torch.zeros(self.tokens, self.chosen, 2 * self.inner, device="cuda", dtype=BF16)
        made = torch.zeros(self.tokens, self.chosen, self.width, device="cuda", dtype=BF16)
        common = dict(use_fp8_w8a8=True, use_int8_w8a8=False, use_int8_w8a16=False, use_int4_w4a16=False, per_channel_quant=False,
                      block_shape=[128, 128], compute_type=kernels.tl.bfloat16)

        def call(i):
            w13, s13, w2, s2 = self.w[i]
            sort()
            codes, scales = st.quantize(self.x, "1x128")
            kernels.invoke_fused_moe_triton_kernel(codes, w13, hidden, scales, s13, self.weights, sorted_ids, owners, count, False,
                                                   self.chosen, config, **common)
            if self.everyone > self.experts:
                made.zero_()  # as vLLM does: slots of other ranks are skipped
            codes, scales = st.silu_mul_quantize(hidden.view(-1, 2 * self.inner), "1x128")
            kernels.invoke_fused_moe_triton_kernel(codes, w2, made, scales, s2, self.weights, sorted_ids, owners, count, True, 1, config,
                                                   **common)
            self.theirs = made.sum(1)

        return call


def run(kernels, folder, with_ops, model, tokens, routing):
    """Returns what is measured of one layer. ``kernels``: the peer's, or None."""
    layer = Layer(model, tokens, routing)
    record = {"used": layer.used(), "floor_us": layer.floor(), "peer sorts": with_ops}
    calls = {"sluice": layer.chains(), "sluice ops": layer.sluice, "sluice ops, batch_invariant": layer.batch_invariant}
    if tokens <= 16:
        by_sort = copy.copy(layer)
        by_sort.ids = layer.ids.long()  # which are always sorted
        calls |= {"sluice, sorted": by_sort.chains(), "sluice ops, sorted": by_sort.sluice}
    graphs = {name: captured(call, layer.copies) for name, call in calls.items()}
    if kernels is not None:
        try:
            call = layer.of_vllm(kernels, folder, with_ops)
            record["peer tile"] = their_config(folder, layer.experts, layer.inner, tokens)
            graphs["vLLM Triton"] = captured(call, layer.copies)
            layer.sluice(0)
            call(0)
            record["difference"] = ((layer.out.float() - layer.theirs.float()).norm() / layer.theirs.float().norm()).item()
        except Exception as error:  # noqa: BLE001 - a peer that refuses is a result
            record["vLLM Triton refused"] = said(error, 300)
    record["us"] = timed(graphs)
    return record


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--vllm")
    parser.add_argument("--ops")
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--models", type=lambda text: text.split(","), default=list(MODELS), help="by default all")
    parser.add_argument("--routing", type=lambda text: text.split(","), default=["uniform"], help="of uniform, zipf and one")
    parser.add_argument("--tokens", type=lambda text: [int(part) for part in text.split(",")], default=TOKENS)
    parser.add_argument("--repeated", type=float, help="MB of weights that slots may read again: another limit than the layer's own")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    if arguments.repeated is not None:
        _moe_ops._REPEATED_BYTES = int(arguments.repeated * 2**20)
    kernels = their_kernels(arguments.vllm) if arguments.vllm else None
    if arguments.ops:
        torch.ops.load_library(arguments.ops)
    cases = [(name, tokens, routing) for tokens in arguments.tokens for name in arguments.models for routing in arguments.routing]
    walk(arguments.out, arguments.seconds, [dict(zip(("model", "tokens", "routing"), case)) for case in cases],
         lambda **case: run(kernels, arguments.vllm, arguments.ops is not None, **case))


if __name__ == "__main__":
    main()
