# SPDX-License-Identifier: Apache-2.0
"""A Llama-style block in FP8: built from torch, converted, compiled, captured, timed beside the same block on torch._scaled_mm.

    python examples/llama_block.py [--tokens 1 16 64 4096] [--recipe row] [--json RESULTS.json]

Both blocks have equal weights (one scale per row) and quantise each token. torch.compile compiles both. Each runs as a CUDA
graph of several layers, so that weights come from memory and not from the L2 cache. The block in bf16 is the reference for
their outputs. Sluice's block runs in two forms: as ``convert_`` makes it, with quantisers that the compiler fuses, and
with silu(gate) * up quantised by one of sluice's kernels.
"""
import argparse
import json
import os
import statistics
import sys
import time

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import sluice
import sluice.torch as st

WIDTH, HEADS, KV_HEADS, INNER = 4096, 32, 8, 14336  # Llama 3, 8B
LAYERS = 4
BOUND = 0.12  # relative to the norm of the layers' sum: e4m3 is 2.6 % off on average, twice per product, 4 products per block


class Block(nn.Module):
    """Attention over the given tokens (no cache), then a gated feed-forward, in bf16."""

    def __init__(self, gate_in_quantizer: bool = False) -> None:
        super().__init__()
        self.gate_in_quantizer = gate_in_quantizer
        head = WIDTH // HEADS
        self.attention_norm, self.feed_norm = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, (HEADS + 2 * KV_HEADS) * head, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate_up = nn.Linear(WIDTH, 2 * INNER, bias=False)
        self.down = nn.Linear(INNER, WIDTH, bias=False)

    @staticmethod
    def rotate(x: Tensor) -> Tensor:
        """Applies rotary positions to heads x tokens x size."""
        half = x.shape[-1] // 2
        step = torch.arange(half, device=x.device) / half
        angle = torch.arange(x.shape[-2], device=x.device)[:, None] * 500000.0**-step
        low, high = x[..., :half].float(), x[..., half:].float()
        turned = (low * angle.cos() - high * angle.sin(), high * angle.cos() + low * angle.sin())
        return torch.cat(turned, -1).to(x.dtype)

    def forward(self, x: Tensor) -> Tensor:
        head = WIDTH // HEADS
        qkv = self.qkv(self.attention_norm(x)).view(x.shape[0], -1, head).transpose(0, 1)
        q, k, v = qkv.split([HEADS, KV_HEADS, KV_HEADS])
        attended = F.scaled_dot_product_attention(self.rotate(q)[None], self.rotate(k)[None], v[None], is_causal=True,
                                                  enable_gqa=True)[0]
        x = x + self.out(attended.transpose(0, 1).reshape(x.shape))
        gate_up = self.gate_up(self.feed_norm(x))
        if self.gate_in_quantizer:
            return x + self.down.of_quantized(*st.silu_mul_quantize(gate_up, self.down.granularity), x.dtype)
        gate, up = gate_up.chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class TorchLinear(nn.Module):
    """The peer: torch's own operations quantise (the compiler fuses them), torch._scaled_mm multiplies."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        quantized, scale = st.quantize_reference(linear.weight.detach(), "row")
        self.register_buffer("weight", quantized)
        self.register_buffer("weight_scale", scale)

    def forward(self, x: Tensor) -> Tensor:
        amax = x.abs().amax(-1, keepdim=True).float().clamp(1e-4)
        quantized = (x.float() * (448.0 / amax)).clamp(-448, 448).to(torch.float8_e4m3fn)
        return torch._scaled_mm(quantized, self.weight.t(), amax / 448.0, self.weight_scale.t(), out_dtype=x.dtype,
                                use_fast_accum=True)


def on_torch(model: nn.Module) -> nn.Module:
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear:
                setattr(module, name, TorchLinear(child))
    return model


def layers(gate_in_quantizer: bool = False) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*[Block(gate_in_quantizer) for _ in range(LAYERS)]).to("cuda", torch.bfloat16).requires_grad_(False)


def captured(model: nn.Module, x: Tensor):
    """Returns a graph of the compiled model, and its output tensor. The runs before the capture prepare everything."""
    compiled = torch.compile(model, fullgraph=True, dynamic=False)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            compiled(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = compiled(x)
    return graph, result


def times_us(graphs: dict, rounds: int = 30) -> dict:
    """Measures the contenders in turn and returns the median of each."""
    samples: dict = {name: [] for name in graphs}
    for _ in range(rounds):
        for name, graph in graphs.items():
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            graph.replay()
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            samples[name].append(begin.elapsed_time(end) * 1e3)
    return {name: statistics.median(found) for name, found in samples.items()}


def compare(tokens: int, recipe: str) -> dict:
    torch._dynamo.reset()
    x = torch.randn(tokens, WIDTH, device="cuda", dtype=torch.bfloat16)
    contenders = {
        "torch": on_torch(layers()),
        "sluice": st.nn.convert_(layers(), recipe=recipe, fuse_quantizer=True),
        "sluice, gated quantiser": st.nn.convert_(layers(gate_in_quantizer=True), recipe=recipe, fuse_quantizer=True),
    }
    with torch.no_grad():
        wanted = layers()(x).float() - x.float()
        graphs, errors = {}, {}
        for name, model in contenders.items():
            graphs[name], result = captured(model, x)
            graphs[name].replay()
            errors[name] = ((result.float() - x.float() - wanted).norm() / wanted.norm()).item()
        found = times_us(graphs)
    sluice.verify_workspaces()
    row = {"tokens": tokens, "recipe": recipe, **{f"{name} us": round(us / LAYERS, 2) for name, us in found.items()},
           "faster": round(found["torch"] / min(us for name, us in found.items() if name != "torch"), 3)}
    for name, error in errors.items():
        row[f"{name} error"] = round(error, 4)
        if not error < BOUND:
            sys.exit(f"{name}: {tokens} tokens: relative difference to bf16 {error:.4f} is not below {BOUND}")
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, nargs="+", default=[1, 16, 64, 4096])
    parser.add_argument("--recipe", default="row", choices=st.nn.RECIPES)
    parser.add_argument("--json", help="write the rows here")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("examples/llama_block.py needs a Hopper GPU, and torch finds none: `sluice doctor` says what this machine has")
    rows = []
    for tokens in arguments.tokens:
        rows.append(compare(tokens, arguments.recipe))
        print(json.dumps(rows[-1]), flush=True)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"commit": os.environ.get("SLUICE_COMMIT", ""), "sluice": sluice.__version__,
                       "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "command": " ".join(sys.argv),
                       "gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows}, file, indent=1)
    return 0 if all(row["faster"] > 1 for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
