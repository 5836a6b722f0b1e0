# SPDX-License-Identifier: Apache-2.0
"""Times experts in int4 beside vLLM's Marlin kernel: few tokens, cold weights, CUDA graphs, contenders in turn.

    PYTHONPATH=python python bench/experts/int4.py OUT.json [--ops _moe_C.abi3.so] [--seconds 240] [--models A,B] [--tokens 1,8]

The file of --ops is that of vLLM 0.20.2's wheel; without it the peer is left out. Weights are uint4 with zero point 8 and bf16 scales for
each 128 of k, tokens are bf16, ids int32 and uniform. Of ranks that share experts, one gets as many slots as it does in the mean.

Each row is one product or a layer, its `us` those of each contender.
- gate-up and down: products alone. Rows, tables and their sort are there before. `gated` computes silu(gate) * up besides, as the layer's
  product does; Marlin has no such kernel, so gate-up without it is the like one.
- layer: `sluice` is st.moe.experts, which takes the way of the field `way`; `chain` is that way as steps. `sorted` and `slots` are both
  ways by ops. Marlin is moe_align_block_size, gate-up, silu * up (Triton's, here), down with the router's weights, and moe_sum, with the
  rows per block that vLLM chooses. A rank that has not all experts fills the result with zeros before the second product, as vLLM does.

`floor_us` is bytes at 4.5 TB/s: codes and scales of the experts that a token chose, rows that are read, and the result. A layer's has no
rows between its products. `read_us` is two more, about what a launch costs.

Marlin's weights are random int32 and its scales random bf16, not packed from anything: the time depends on shapes alone. Its results are
checked once per model, with experts whose codes and scales are all alike, which no packing changes. That finds wrong tables, zero points,
weights and sums, not wrong columns. Ours are checked against dequantised weights. Copies of weights are equal.
An error of CUDA itself in the peer leaves the process without a GPU: then run again without --ops.
"""
import argparse
import gc
import json
import pathlib
import sys
import time

import torch
import triton
import triton.language as tl

import sluice
import sluice.torch as st
from sluice.torch._moe_ops import takes_slots
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from layers import ALL_EXPERTS, MODELS, aligned_by_op, routed, used_of
from products import BF16, HBM, copies_of, head, measured, said

NAMES, TOKENS = ("Qwen3-30B", "DeepSeek-V3 EP8", "DeepSeek-V3 TP8", "Mixtral"), (1, 2, 4, 8, 16, 32)
GROUP, GATE_UP, DOWN = 128, 0, 1
BYTES = 0.5 + 2 / GROUP  # a weight takes so many, with its part of a scale
UINT4B8 = 4 << 8 | 8 << 17 | 1 << 50  # vLLM's number of the type: bits, what is subtracted, and IEEE's NaN, which all integers have
PEER_OPS = ("moe_wna16_marlin_gemm", "moe_align_block_size", "moe_sum")


@triton.jit
def silu_mul_kernel(gate_up, out, inner, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < inner
    gate = tl.load(gate_up + row * 2 * inner + column, mask=inside).to(tl.float32)
    up = tl.load(gate_up + (row * 2 + 1) * inner + column, mask=inside).to(tl.float32)
    tl.store(out + row * inner + column, (gate * tl.sigmoid(gate) * up).to(out.dtype.element_ty), mask=inside)


def silu_mul(gate_up, out):
    rows, inner = out.shape
    block = min(1024, triton.next_power_of_2(inner))
    silu_mul_kernel[(rows, triton.cdiv(inner, block))](gate_up, out, inner, BLOCK=block)


def random_scales(k, *shape):
    """Returns scales by which sums over k of random codes and tokens are about 1."""
    return ((torch.rand(*shape, device="cuda") + 0.5) / (4.6 * k**0.5)).to(BF16)


class Model:
    """Weights of one rank for both sides, each in so many copies that they are cold even if few tokens read them."""

    def __init__(self, name, tokens, with_peer):
        self.name, self.with_peer = name, with_peer
        self.experts, self.chosen, self.width, self.inner = MODELS[name]
        self.everyone = ALL_EXPERTS.get(name, self.experts)
        self.sizes = ((2 * self.inner, self.width), (self.width, self.inner))  # n, k of both products
        fewest = min(used_of(name, routed(name, count)) for count in tokens)
        copies = [copies_of(fewest * self.bytes_of(part)) for part in (GATE_UP, DOWN)]
        self.ours = [self._ours(part, copies[part]) for part in (GATE_UP, DOWN)]
        if with_peer:
            self.theirs = [self._theirs(part, copies[part]) for part in (GATE_UP, DOWN)]
            self.workspace = torch.zeros(4 * torch.cuda.get_device_properties(0).multi_processor_count, device="cuda", dtype=torch.int32)

    def bytes_of(self, part):
        """Returns the bytes of one expert."""
        n, k = self.sizes[part]
        return n * k * BYTES

    def expert(self, part, number):
        """Returns codes and scales, the same in each call."""
        n, k = self.sizes[part]
        torch.manual_seed(2 * number + part)
        return torch.randint(0, 16, (n, k), device="cuda", dtype=torch.uint8), random_scales(k, n, k // GROUP)

    def dequantised(self, part, number):
        codes, scales = self.expert(part, number)
        return (codes.float() - 8) * scales.float().repeat_interleave(GROUP, 1)

    def _ours(self, part, copies):
        made = st.stack_packed([st.pack(*self.expert(part, e), group=GROUP, gated=part == GATE_UP) for e in range(self.experts)])
        return [made] + [sluice.PackedExperts(made.blob.clone(), made.n, made.k, made.format, made.gated) for _ in range(copies - 1)]

    def _theirs(self, part, copies):
        n, k = self.sizes[part]
        codes = torch.randint(-2**31, 2**31, (self.experts, k // 16, 2 * n), device="cuda", dtype=torch.int32)
        scales = random_scales(k, self.experts, k // GROUP, n)
        return [(codes, scales)] + [(codes.clone(), scales.clone()) for _ in range(copies - 1)]

    def add_alike(self):
        """Adds to the peer's copies one whose experts' weights are all alike. Returns the weight of each expert, of both products."""
        values = []
        for part, (n, k) in enumerate(self.sizes):
            code = torch.randint(0, 16, (self.experts, 1, 1), device="cuda")
            scale = random_scales(k, self.experts, 1, 1)
            codes, scales = (code * 0x11111111).int().expand(-1, k // 16, 2 * n), scale.expand(-1, k // GROUP, n)
            self.theirs[part].append((codes.contiguous(), scales.contiguous()))
            values.append(((code - 8) * scale.float()).flatten())
        return values


class Case:
    """A model's call with so many tokens. ``contenders``: functions of the number of a copy."""

    def __init__(self, model, tokens):
        self.model, self.tokens, self.slots = model, tokens, tokens * model.chosen
        self.all_ids = routed(model.name, tokens)
        self.used = used_of(model.name, self.all_ids)
        self.ids = torch.where(self.all_ids < model.experts, self.all_ids, -1).int()
        self.here = self.ids.flatten() >= 0
        torch.manual_seed(tokens)
        self.weights = torch.rand(tokens, model.chosen, device="cuda")
        self.x = torch.randn(tokens, model.width, device="cuda", dtype=BF16)
        self.hidden = torch.randn(self.slots, model.inner, device="cuda", dtype=BF16)
        self.ends, self.row_of_slot, self.token_of_row = st.moe.route(self.ids, model.experts)
        self.rows = st.moe.gather(self.x, self.token_of_row)
        self.by_slots = takes_slots(self.ids, model.experts, model.ours[GATE_UP][0].nbytes + model.ours[DOWN][0].nbytes, model.everyone)
        if model.with_peer:
            self._peer()

    def floor(self, product):
        rows, read = int(self.here.sum()), int((self.ids >= 0).any(1).sum())
        model = self.model
        of_weights = [self.used * model.bytes_of(part) for part in (GATE_UP, DOWN)]
        return {"gate-up": of_weights[GATE_UP] + 2 * (read * model.width + rows * 2 * model.inner),
                "down": of_weights[DOWN] + 2 * rows * (model.inner + model.width),
                "layer": sum(of_weights) + 2 * (read + self.tokens) * model.width}[product] / HBM

    def copies(self, product):
        parts = {"gate-up": (GATE_UP,), "down": (DOWN,), "layer": (GATE_UP, DOWN)}[product]
        return copies_of(self.used * sum(self.model.bytes_of(part) for part in parts))

    def contenders(self, product):
        w13, w2 = self.model.ours
        if product == "gate-up":
            wide = torch.empty(self.slots, 2 * self.model.inner, device="cuda", dtype=BF16)
            half = torch.empty(self.slots, self.model.inner, device="cuda", dtype=BF16)
            gate = dict(gated=True, activation="silu", out=half)
            return {"sluice sorted": lambda i: st.packed_grouped_mm(self.rows, w13[i], self.ends, out=wide),
                    "sluice slots": lambda i: st.slots_mm(self.x, w13[i], self.ids, out=wide),
                    "sluice sorted, gated": lambda i: st.packed_grouped_mm(self.rows, w13[i], self.ends, **gate),
                    "sluice slots, gated": lambda i: st.slots_mm(self.x, w13[i], self.ids, **gate)}
        if product == "down":
            out = torch.empty(self.slots, self.model.width, device="cuda", dtype=BF16)
            return {"sluice sorted": lambda i: st.packed_grouped_mm(self.hidden, w2[i], self.ends, out=out),
                    "sluice slots": lambda i: st.slots_mm(self.hidden, w2[i], self.ids.view(-1), out=out)}
        chains = self.chains()
        return {"sluice": self.layer, "sluice chain": lambda i: chains[i].run(),
                "sluice sorted": lambda i: self.sorted_layer(st, st.moe, i), "sluice slots": lambda i: self.slots_layer(st, st.moe, i)}

    def layer(self, i):
        return st.moe.experts(self.x, self.ids, self.weights, self.model.ours[GATE_UP][i], self.model.ours[DOWN][i],
                              all_experts=self.model.everyone)

    def sorted_layer(self, products, around, i):
        """``products``, ``around``: sluice.torch and its moe, or steps of a chain, twice."""
        ends, row_of_slot, token_of_row = around.route(self.ids, self.model.experts)
        rows = around.gather(self.x, token_of_row)
        hidden = products.packed_grouped_mm(rows, self.model.ours[GATE_UP][i], ends, gated=True, activation="silu")
        return around.combine(products.packed_grouped_mm(hidden, self.model.ours[DOWN][i], ends), row_of_slot, self.weights)

    def slots_layer(self, products, around, i):
        hidden = products.slots_mm(self.x, self.model.ours[GATE_UP][i], self.ids, gated=True, activation="silu")
        y = products.slots_mm(hidden, self.model.ours[DOWN][i], self.ids)
        return around.combine(y, self.ids, self.weights, experts=self.model.experts)

    def chains(self):
        made = []
        for i in range(self.copies("layer")):
            steps = st.Steps()
            (self.slots_layer if self.by_slots else self.sorted_layer)(steps, steps, i)
            made.append(st.Chain(steps))
        return made

    def _peer(self):
        """Makes the peer's tables and results, in the sizes that vLLM gives them."""
        model, slots = self.model, self.slots
        self.block = next((size for size in (8, 16, 32, 48) if slots / model.experts < 0.9 * size), 64)
        self.align, self.order, self.owners, self.count = aligned_by_op(model.name, self.all_ids, self.block)
        self.gate_up, self.inner, self.y = (torch.zeros(slots, columns, device="cuda", dtype=BF16)
                                            for columns in (2 * model.inner, model.inner, model.width))
        self.result = torch.empty_like(self.x)

    def marlin(self, part, a, d, i):
        """The first product has a row of ``a`` for each token; the second one for each slot, and multiplies by the router's weights."""
        model, (codes, scales) = self.model, self.model.theirs[part][i]
        of_row = model.chosen if part == GATE_UP else 1  # a row of a is read by so many slots
        # The last ones: all of k, no atomic sums, fp32 sums, no zero points of floats; the peer chooses its tile.
        torch.ops._moe_C.moe_wna16_marlin_gemm(
            a, d, codes, None, scales, None, None, None, None, None, model.workspace, self.order, self.owners, self.count, self.weights,
            self.block, of_row, part == DOWN, UINT4B8, a.shape[0], *model.sizes[part], True, False, True, False, -1, -1, -1)

    def marlin_layer(self, i):
        self.align()
        self.marlin(GATE_UP, self.x, self.gate_up, i)
        silu_mul(self.gate_up, self.inner)
        if self.model.everyone > self.model.experts:
            self.y.zero_()
        self.marlin(DOWN, self.inner, self.y, i)
        torch.ops._moe_C.moe_sum(self.y.view(self.tokens, self.model.chosen, -1), self.result)

    def peer(self, product):
        if product == "layer":
            return self.marlin_layer
        self.align()
        if product == "gate-up":
            return lambda i: self.marlin(GATE_UP, self.x, self.gate_up, i)
        return lambda i: self.marlin(DOWN, self.hidden, self.y, i)


def difference(made, wanted):
    return ((made.float() - wanted).norm() / wanted.norm()).item()


def check(model, tokens=4):
    """Returns differences from dequantised weights. Raises if ours exceed 1 %."""
    case = Case(model, tokens)
    gate_up = torch.zeros(case.slots, 2 * model.inner, device="cuda")
    out = torch.zeros(tokens, model.width, device="cuda")
    for e in case.ids[case.ids >= 0].unique().tolist():
        token, j = (case.ids == e).nonzero(as_tuple=True)
        own = case.x[token].float() @ model.dequantised(GATE_UP, e).t()
        gate_up[token * model.chosen + j] = own
        gate, up = own.chunk(2, 1)
        y = (torch.nn.functional.silu(gate) * up) @ model.dequantised(DOWN, e).t()
        out.index_add_(0, token, y * case.weights[token, j, None])
    products, found = case.contenders("gate-up"), {}
    for name, rows in (("sluice sorted", case.row_of_slot.flatten()[case.here].long()), ("sluice slots", case.here)):
        found[f"gate-up, {name}"] = difference(products[name](0)[rows], gate_up[case.here])
    for name, made in (("sluice", case.layer(-1)), ("sluice sorted", case.sorted_layer(st, st.moe, -1)),
                       ("sluice slots", case.slots_layer(st, st.moe, -1))):  # the last copy: so copying is checked, too
        found[f"layer, {name}"] = difference(made, out)
    record = {"model": model.name, "tokens": tokens, "check": found}
    if not all(value < 0.01 for value in found.values()):
        raise AssertionError(f"results differ: {found}")
    if model.with_peer:
        try:
            found["layer, Marlin"] = check_peer(case)
        except Exception as error:  # noqa: BLE001 - a peer that refuses is a result
            record["Marlin refused"] = said(error)
    return record


def check_peer(case):
    model = case.model
    first, second = model.add_alike()
    try:
        case.marlin_layer(-1)
        e = case.ids.clamp(min=0).long()
        gate = first[e] * case.x.float().sum(1, keepdim=True)
        y = torch.nn.functional.silu(gate) * gate * model.inner * second[e] * case.weights
        wanted = torch.where(case.ids >= 0, y, 0).sum(1, keepdim=True).expand(-1, model.width)
        return difference(case.result, wanted)
    finally:
        for copies in model.theirs:
            copies.pop()


def run(case, product):
    model, copies = case.model, case.copies(product)
    record = {"model": model.name, "tokens": case.tokens, "product": product, "used": case.used, "slots": int(case.here.sum()),
              "copies": copies, "floor_us": case.floor(product), "read_us": case.floor(product) + 2}
    if product == "layer":
        record["way"] = "slots" if case.by_slots else "sorted"
    calls = {name: (call, copies) for name, call in case.contenders(product).items()}
    if model.with_peer:
        record["Marlin rows per block"] = case.block
        try:
            calls["Marlin"] = case.peer(product), copies
        except Exception as error:  # noqa: BLE001 - the others go on
            record["Marlin refused"] = said(error)
    return record | measured(calls)


def rows_of(name, tokens, with_peer):
    """Yields a model's records."""
    model = Model(name, tokens, with_peer)
    yield check(model)
    for count in tokens:
        case = Case(model, count)
        for product in ("gate-up", "down", "layer"):
            try:
                yield run(case, product)
            except Exception as error:  # noqa: BLE001
                yield {"model": name, "tokens": count, "product": product, "error": said(error)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--ops")
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--models", default=",".join(NAMES))
    parser.add_argument("--tokens", default=",".join(map(str, TOKENS)))
    arguments = parser.parse_args()
    tokens = [int(count) for count in arguments.tokens.split(",")]
    began, this_run = time.time(), head(torch.cuda.get_device_name(), arguments.seconds)
    record = {"run": this_run, "gpu": this_run["gpu"], "peer": "none", "results": []}
    with_peer = arguments.ops is not None
    if with_peer:
        try:
            torch.ops.load_library(arguments.ops)
            record["peer"] = {name: str(getattr(torch.ops._moe_C, name).default._schema) for name in PEER_OPS}
        except Exception as error:  # noqa: BLE001 - ours are timed all the same
            record["peer"], with_peer = said(error), False
    print(json.dumps(record["peer"]), flush=True)

    def keep(row):
        record["results"].append(row)
        print(json.dumps(row), flush=True)
        pathlib.Path(arguments.out).write_text(json.dumps(record, indent=1), encoding="utf-8")

    for name in arguments.models.split(","):
        try:
            for row in rows_of(name, tokens, with_peer):
                keep(row)
                if time.time() - began > arguments.seconds:
                    return
        except Exception as error:  # noqa: BLE001
            keep({"model": name, "error": said(error)})
        gc.collect()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
