# SPDX-License-Identifier: Apache-2.0
"""Times gpt-oss's layers of experts beside triton_kernels, as vLLM runs them on Hopper: cold weights, CUDA graphs, in turns.

    PYTHONPATH=python:FOLDER_OF_TRITON_KERNELS python bench/experts/gpt_oss.py OUT.json [--vllm FOLDER] [--seconds 240]
        [--models gpt-oss-20b,gpt-oss-120b] [--tokens 1,4,16]

Weights are MXFP4, random and as a checkpoint stores them, with biases. Ids are uniform, int32; the router is not timed.

- `sluice` is st.moe.experts with block FP8, made by mxfp4_to_block_fp8, which changes no weight. `sluice, padded` has 2944 for 2880
  intermediate columns, with zeros, so that gates are whole blocks and one kernel computes them. `sluice, packed` reads MXFP4, for few
  tokens; its gate is torch's.
- `triton_kernels` (of vLLM 0.20.2: vllm/third_party) is two products of matmul_ogs in bf16, whose first one has the gate and whose second
  one adds up the experts. Layouts and limits are those that vLLM's oracle for MXFP4 picks. The routing in front is vLLM's
  make_routing_data, taken at run time from FOLDER, vllm/model_executor/layers/fused_moe. Without --vllm the peer is left out.

`floor_us` is bytes at 4.5 TB/s, or flops: of fp8 at 1685 TFLOP/s, of MXFP4 with bf16 tokens at 845. `difference` is that from the layer in
fp32, once per model. Ours quantises tokens, the peer does not. Copies of weights are equal.
"""
import argparse
import pathlib
import sys

import torch

import sluice.torch as st
import sluice.weights as sw
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from layers import taken
from products import BF16, BF16_RATE, FP8_RATE, HBM, copies_of, measured, said, walk

MODELS = {"gpt-oss-20b": 32, "gpt-oss-120b": 128}  # experts; all else is the same
CHOSEN, SIZE, PADDED, ALPHA, LIMIT = 4, 2880, 2944, 1.702, 7.0  # SIZE: hidden and intermediate
TOKENS, PACKED_TOKENS, CHECKED = (1, 4, 16, 64, 4096), 64, 4
FP8_BYTES, MXFP4_BYTES = 1, 0.5 + 1 / 32  # a weight takes so many, with its part of a scale
E2M1 = (0, 0.5, 1, 1.5, 2, 3, 4, 6)
ROUTING = ("pack_bitmatrix", "make_routing_data")
ROUTING_IMPORTS = """import torch
import triton
import triton.language as tl
from triton_kernels.matmul_ogs import GatherIndx, RoutingData, ScatterIndx
from triton_kernels.tensor import BIT, Bitmatrix, SparseMatrix, make_ragged_tensor_metadata
use_legacy_triton_kernels = False"""


class Checkpoint:
    """Tensors of a layer, in the shapes of gpt-oss's files: blocks, scales and bias of gate_up_proj, then of down_proj."""

    def __init__(self, experts):
        torch.manual_seed(experts)
        self.experts = experts
        self.parts = [self._part(2 * SIZE), self._part(SIZE)]

    def _part(self, rows):
        blocks = torch.randint(0, 256, (self.experts, rows, SIZE // 32, 16), device="cuda", dtype=torch.uint8)
        scales = torch.randint(118, 122, (self.experts, rows, SIZE // 32), device="cuda", dtype=torch.uint8)  # sums are about 1
        return blocks, scales, torch.randn(self.experts, rows, device="cuda", dtype=BF16)

    def dequantised(self, part, expert):
        blocks, scales, bias = (each[expert] for each in self.parts[part])
        values = torch.tensor(E2M1 + tuple(-value for value in E2M1), device="cuda")
        codes = torch.stack((blocks & 15, blocks >> 4), -1).flatten(-2).long()
        return (values[codes] * torch.exp2(scales.float() - 127)[..., None]).flatten(-2), bias.float()


class Ours:
    """Weights of st.moe.experts, cold if so many experts are read. A copy holds w13 and w2 with their scales."""

    def __init__(self, w13, w2, bias_13, bias_2, copies):
        self.biases = dict(bias_13=bias_13, bias_2=bias_2)
        self.w = [(w13, w2)] + [[again(each) for each in (w13, w2)] for _ in range(copies - 1)]

    def call(self, case, i):
        (w13, scale_w13), (w2, scale_w2) = self.w[i]
        return st.moe.experts(case.x, case.ids, case.weights, w13, w2, scale_w13=scale_w13, scale_w2=scale_w2, activation="clamped_swiglu",
                              **self.biases)


def again(pair):
    codes, scales = pair
    if scales is None:
        return type(codes)(codes.blob.clone(), codes.n, codes.k, codes.format, codes.gated), None
    return codes.clone(), scales.clone()


def block_fp8(parts, inner, copies):
    """``inner``: intermediate columns; what is more than SIZE is zeros."""
    (blocks_13, scales_13, bias_13), (blocks_2, scales_2, bias_2) = parts
    return Ours(sw.mxfp4_to_block_fp8(blocks_13, scales_13, interleaved=True, rows=2 * inner, progress=False),
                sw.mxfp4_to_block_fp8(blocks_2, scales_2, k=inner, progress=False), sw.gate_then_up(bias_13, rows=2 * inner), bias_2, copies)


def packed(parts, copies):
    (blocks_13, scales_13, bias_13), (blocks_2, scales_2, bias_2) = parts

    def stacked(blocks, scales, gated):
        return st.stack_packed([st.pack_quantized(sw.from_gpt_oss(blocks[e:e + 1], scales[e:e + 1], interleaved=gated)[0], gated=gated)
                                for e in range(len(blocks))]), None

    return Ours(stacked(blocks_13, scales_13, True), stacked(blocks_2, scales_2, False), sw.gate_then_up(bias_13), bias_2, copies)


class Theirs:
    """Weights of triton_kernels and calls of a layer."""

    def __init__(self, folder, parts, copies):
        from triton_kernels import matmul_ogs, swiglu, tensor
        from triton_kernels.matmul_ogs_details import opt_flags
        self.products = matmul_ogs
        self.routing = taken(pathlib.Path(folder) / "experts" / "gpt_oss_triton_kernels_moe.py", ROUTING, ROUTING_IMPORTS)
        opt_flags.update_opt_flags_constraints({"split_k": 1})
        of_gate = matmul_ogs.FnSpecs("swiglu", swiglu.swiglu_fn, ("alpha", "limit"), reduction_n=2)
        self.gate = matmul_ogs.FusedActivation(of_gate, (ALPHA, LIMIT))
        self.biases = [bias.float() for _, _, bias in parts]
        self.w = [[self._laid_out(tensor, blocks, scales) for blocks, scales, _ in parts] for _ in range(copies)]

    def _laid_out(self, tensor, blocks, scales):
        """Returns a product's weight in the layout for Hopper, and its config with the scales. Both have k in front of n."""
        from triton_kernels.tensor_details import layout
        of_values, values = layout.make_default_matmul_mxfp4_w_layout(mx_axis=1)
        of_scales, more = layout.make_default_matmul_mxfp4_w_scale_layout(mx_axis=1, num_warps=8)
        weight = tensor.convert_layout(tensor.wrap_torch_tensor(blocks.flatten(-2).transpose(1, 2), dtype=tensor.FP4), of_values, **values)
        scale = tensor.convert_layout(tensor.wrap_torch_tensor(scales.transpose(1, 2)), of_scales, **more)
        return weight, self.products.PrecisionConfig(weight_scale=scale, flex_ctx=self.products.FlexCtx())

    def call(self, case, i):
        (w13, of_13), (w2, of_2) = self.w[i]
        data, gather, scatter = self.routing.make_routing_data(case.ids, case.weights, case.experts)
        hidden = torch.empty(1, case.tokens * CHOSEN, SIZE, device="cuda", dtype=BF16)
        out = torch.empty(1, case.tokens, SIZE, device="cuda", dtype=BF16)
        multiply = self.products.matmul_ogs
        multiply(case.x, w13, self.biases[0], data, gather_indx=gather, precision_config=of_13, fused_activation=self.gate, y=hidden)
        multiply(hidden[0], w2, self.biases[1], data, scatter_indx=scatter, precision_config=of_2, gammas=data.gate_scal, y=out)
        return out[0]


class Case:
    """Tokens of a layer."""

    def __init__(self, experts, tokens):
        generator = torch.Generator().manual_seed(tokens)
        self.experts, self.tokens = experts, tokens
        self.ids = torch.rand(tokens, experts, generator=generator).topk(CHOSEN).indices.int().cuda()
        self.weights = torch.rand(tokens, CHOSEN, generator=generator).cuda()
        self.x = torch.randn(tokens, SIZE, generator=generator).to(BF16).cuda()
        self.used = self.ids.unique().numel()

    def copies(self, bytes_of_weight):
        return copies_of(3 * self.used * SIZE * SIZE * bytes_of_weight)

    def floor(self, bytes_of_weight, rate):
        weights, slots = 3 * self.used * SIZE * SIZE, self.tokens * CHOSEN
        return max((weights * bytes_of_weight + 4 * self.tokens * SIZE) / HBM, 6 * slots * SIZE * SIZE / rate)

    def wanted(self, checkpoint):
        """Returns the layer in fp32, as transformers computes it."""
        out = torch.zeros(self.tokens, SIZE, device="cuda")
        for e in self.ids.unique().tolist():
            token, j = (self.ids == e).nonzero(as_tuple=True)
            (w13, bias_13), (w2, bias_2) = (checkpoint.dequantised(part, e) for part in (0, 1))
            gate_up = self.x[token].float() @ w13.t() + bias_13
            gate, up = gate_up[:, 0::2].clamp(max=LIMIT), gate_up[:, 1::2].clamp(-LIMIT, LIMIT)
            y = (gate * torch.sigmoid(ALPHA * gate) * (up + 1)) @ w2.t() + bias_2
            out.index_add_(0, token, y * self.weights[token, j, None])
        return out


class Model:
    """A layer's weights for all sides, in so many copies that they are cold even for the fewest tokens."""

    def __init__(self, name, tokens, folder):
        self.name, self.checkpoint = name, Checkpoint(MODELS[name])
        fewest = min((Case(self.checkpoint.experts, count) for count in tokens), key=lambda case: case.used)
        parts, copies, few = self.checkpoint.parts, fewest.copies(FP8_BYTES), fewest.copies(MXFP4_BYTES)
        makers = {"sluice": (FP8_BYTES, lambda: block_fp8(parts, SIZE, copies)),
                  "sluice, padded": (FP8_BYTES, lambda: block_fp8(parts, PADDED, copies)),
                  "sluice, packed": (MXFP4_BYTES, lambda: packed(parts, few))}
        if folder is not None:
            makers["triton_kernels"] = MXFP4_BYTES, lambda: Theirs(folder, parts, few)
        self.sides, self.refused = {}, {}
        for side, (bytes_of_weight, make) in makers.items():
            try:
                self.sides[side] = bytes_of_weight, make()
            except Exception as error:  # noqa: BLE001 - the others go on
                self.refused[f"{side} refused"] = said(error)
        self.differences = self._differences(Case(self.checkpoint.experts, CHECKED))

    def _differences(self, case):
        """Returns those from the layer in fp32. A side that raises, or differs by more than 8 %, is left out. Most of what ours differs by
        is the rounding of tokens and hidden rows."""
        wanted, found = case.wanted(self.checkpoint), {}
        for side, (_, weights) in list(self.sides.items()):
            try:
                made = weights.call(case, -1)  # the last copy: so copying is checked, too
                found[side] = ((made.float() - wanted).norm() / wanted.norm()).item()
                if not found[side] < 0.08:
                    raise AssertionError(f"differs by {found[side]}")
            except Exception as error:  # noqa: BLE001
                self.refused[f"{side} refused"] = said(error)
                del self.sides[side]
        return found


def run(models, make, model, tokens):
    """Returns what is measured of one layer. ``models``: the one that is loaded, by name; ``make``: loads another in its place."""
    if model not in models:
        models.clear()
        torch.cuda.empty_cache()
        models[model] = make(model)
    loaded, case = models[model], Case(MODELS[model], tokens)
    record = {"used": case.used, "floor_us": {"fp8": case.floor(FP8_BYTES, FP8_RATE), "mxfp4": case.floor(MXFP4_BYTES, BF16_RATE)},
              "difference": loaded.differences} | loaded.refused
    calls = {side: (lambda i, weights=weights: weights.call(case, i), case.copies(bytes_of_weight))
             for side, (bytes_of_weight, weights) in loaded.sides.items() if side != "sluice, packed" or tokens <= PACKED_TOKENS}
    return record | measured(calls)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--vllm")
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--models", type=lambda text: text.split(","), default=list(MODELS))
    parser.add_argument("--tokens", type=lambda text: [int(part) for part in text.split(",")], default=TOKENS)
    arguments = parser.parse_args()
    models = {}
    walk(arguments.out, arguments.seconds, [{"model": name, "tokens": tokens} for name in arguments.models for tokens in arguments.tokens],
         lambda **case: run(models, lambda name: Model(name, arguments.tokens, arguments.vllm), **case))


if __name__ == "__main__":
    main()
