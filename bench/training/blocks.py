# SPDX-License-Identifier: Apache-2.0
"""Times training steps of transformer blocks, forward and backward: bf16, sluice's FP8 recipes and torchao's, all under torch.compile.

    PYTHONPATH=python python bench/training/blocks.py OUT.json [--models 8b,1b] [--batches 4x4096,1x4096] [--only TEXT] [--rounds 7] [--warm]
                                                               [--graphs]

A block is that of Llama-3: norms, attention (one kernel of torch's for all contenders), SwiGLU; weights and their gradients in bf16. A
step is a forward, a backward of a given gradient, and the release of all gradients. Contenders run in turn, and a cell is the median.
"fast" sums the forward as torchao does, without promotion; gradients are promoted by all. "swiglu" is FeedForward, "input" keeps inputs in place
of their columns. "torchao blockwise" is its prototype.
`memory` is the peak of a step above what is there before it, in MB. `difference` is the relative distance of the output from that of bf16,
`cosine` that of the input's gradient. torchao is left out where it is not installed. --warm compiles and times nothing: run it beside others, one
per contender (--only), to fill the cache of the compiler. --graphs times each step as a CUDA graph, too: `graph_ms`, which has no host in it.
"""
import argparse
import json
import pathlib
import statistics
import sys

import torch
import torch.nn.functional as F

import sluice
import sluice.torch as st
from turns import in_turns

BF16 = torch.bfloat16
torch._dynamo.config.recompile_limit = 64  # one class of blocks, compiled once per contender
MODELS = {"8b": (4096, 14336, 32, 8, 128), "1b": (2048, 8192, 32, 8, 64)}  # width, inner width, heads, heads of k and v, their size


class Norm(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.weight, 1e-5)


class Block(torch.nn.Module):
    def __init__(self, width, inner, heads, kv_heads, size):
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, size
        self.before, self.between = Norm(width), Norm(width)
        self.qkv = torch.nn.Linear(width, (heads + 2 * kv_heads) * size, bias=False)
        self.out = torch.nn.Linear(heads * size, width, bias=False)
        self.gate_up = torch.nn.Linear(width, 2 * inner, bias=False)
        self.down = torch.nn.Linear(inner, width, bias=False)
        self.feed_forward = None  # computes both in one, if it is set

    def forward(self, x):
        batch, tokens, _ = x.shape
        q, k, v = self.qkv(self.before(x)).view(batch, tokens, -1, self.size).transpose(1, 2).split(
            [self.heads, self.kv_heads, self.kv_heads], 1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2).reshape(batch, tokens, -1)
        x = x + self.out(y)
        if self.feed_forward is not None:
            return x + self.feed_forward(self.between(x))
        gate, up = self.gate_up(self.between(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


def with_sluice(recipe, swiglu=False, **options):
    def convert(block):
        st.nn.convert_(block, recipe=recipe, backward="fp8", narrow=True, report=lambda done: None, **options)
        if swiglu:
            block.feed_forward = st.nn.FeedForward(block.gate_up, block.down)
        return block
    return convert


def with_torchao(recipe):
    def convert(block):
        from torchao.float8 import Float8LinearConfig, convert_to_float8_training
        return convert_to_float8_training(block, config=Float8LinearConfig.from_recipe_name(recipe))
    return convert


def with_torchao_blocks(block):
    from torchao.prototype.blockwise_fp8_training.linear import Float8BlockwiseLinear
    for name, layer in list(block.named_children()):
        if isinstance(layer, torch.nn.Linear):
            setattr(block, name, Float8BlockwiseLinear.from_float(layer))
    return block


CONTENDERS = {
    "bf16": lambda block: block,
    "sluice row": with_sluice("row"),
    "sluice tensor": with_sluice("tensor"),
    "sluice block": with_sluice("block"),
    "sluice row fast": with_sluice("row", use_fast_accum=True),
    "sluice tensor fast": with_sluice("tensor", use_fast_accum=True),
    "sluice row fast swiglu": with_sluice("row", True, use_fast_accum=True),
    "sluice row fast swiglu input": with_sluice("row", True, use_fast_accum=True, keep="input"),
    "sluice tensor fast input": with_sluice("tensor", use_fast_accum=True, keep="input"),
    "sluice block swiglu": with_sluice("block", True),
    "sluice row 16bit": with_sluice("row", weight_gradient="16bit"),
    "torchao rowwise": with_torchao("rowwise"),
    "torchao tensorwise": with_torchao("tensorwise"),
    "torchao rowwise_with_gw_hp": with_torchao("rowwise_with_gw_hp"),
    "torchao blockwise": with_torchao_blocks,
}


class Entrant:
    """One contender at one model and batch, compiled."""

    def __init__(self, name, model, batch, tokens):
        torch.manual_seed(1)
        width = MODELS[model][0]
        block = Block(*MODELS[model]).to("cuda", BF16)
        self.x = torch.randn(batch, tokens, width, device="cuda", dtype=BF16, requires_grad=True)
        self.dy = torch.randn(batch, tokens, width, device="cuda", dtype=BF16) * 1e-4
        self.block = torch.compile(CONTENDERS[name](block), dynamic=False)

    def step(self):
        y = self.block(self.x)
        y.backward(self.dy)
        return y

    def release(self):
        self.x.grad = None
        for parameter in self.block.parameters():
            parameter.grad = None

    def result(self):
        """Returns the output and the input's gradient, after two more steps."""
        for _ in range(2):
            self.release()
            y = self.step()
        made = y.detach().clone(), self.x.grad.clone()
        self.release()
        return made

    def memory(self):
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        self.step()
        torch.cuda.synchronize()
        peak = torch.cuda.max_memory_allocated() - before
        self.release()
        return peak / 1e6

    def steps(self, count):
        for _ in range(count):
            self.step()
            self.release()

    def captured(self):
        """Returns a CUDA graph of a step."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.release()
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        self.release()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step()
        return graph


def ms_of_graphs(entrants, rounds, steps):
    """Returns the median time of each entrant's step as a graph, and why others have none."""
    graphs, failed = {}, {}
    for name, entrant in entrants.items():
        try:
            graphs[name] = entrant.captured()
        except Exception as error:  # a contender that cannot be captured is reported
            failed[name] = f"{type(error).__name__}: {error}"[:300]
            torch.cuda.synchronize()
    works = {name: lambda graph=graph: [graph.replay() for _ in range(steps)] for name, graph in graphs.items()}
    return {name: statistics.median(ms) / steps for name, ms in in_turns(works, rounds).items()}, failed


def distance(a, b):
    return float((a.float() - b.float()).norm() / b.float().norm())


def run(model, batch, tokens, names, rounds, steps, warm, graphs):
    entrants, failed, results = {}, {}, {}
    for name in names:
        try:
            entrant = Entrant(name, model, batch, tokens)
            results[name] = entrant.result()
            entrants[name] = entrant
        except Exception as error:  # a contender that cannot run is reported, and the others go on
            failed[name] = f"{type(error).__name__}: {error}"[:300]
    if warm:
        return {"failed": failed}
    works = {name: lambda entrant=entrant: entrant.steps(steps) for name, entrant in entrants.items()}
    times = {name: [ms / steps for ms in of_rounds] for name, of_rounds in in_turns(works, rounds).items()}
    record = {"model": model, "batch": batch, "tokens": tokens, "failed": failed, "contenders": {}}
    wanted = results.get("bf16")
    for name, entrant in entrants.items():
        cell = {"ms": statistics.median(times[name]), "rounds": times[name], "memory": entrant.memory()}
        if wanted is not None:
            cell["difference"] = distance(results[name][0], wanted[0])
            cell["cosine"] = float(F.cosine_similarity(results[name][1].flatten().float(), wanted[1].flatten().float(), 0))
        record["contenders"][name] = cell
        bf16 = record["contenders"].get("bf16", cell)["ms"]
        print(f"{model} {batch}x{tokens} {name:28s} {cell['ms']:8.3f} ms  {bf16 / cell['ms']:.3f}  {cell['memory']:8.0f} MB  "
              f"{cell.get('difference', 0):.4f}  {cell.get('cosine', 1):.5f}", flush=True)
    if graphs:
        found, why_not = ms_of_graphs(entrants, rounds, steps)
        for name, ms in found.items():
            record["contenders"][name]["graph_ms"] = ms
            print(f"{model} {batch}x{tokens} {name:28s} {ms:8.3f} ms as a graph  {found.get('bf16', ms) / ms:.3f}", flush=True)
        failed.update({f"{name} as a graph": why for name, why in why_not.items()})
    for name, why in failed.items():
        print(f"{model} {batch}x{tokens} {name}: {why}", flush=True)
    return record


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--models", default="8b,1b")
    parser.add_argument("--batches", default="4x4096,1x4096")
    parser.add_argument("--only", default="", help="contenders with one of these texts in their name, joined by commas")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warm", action="store_true")
    parser.add_argument("--graphs", action="store_true")
    given = parser.parse_args()
    names = [name for name in CONTENDERS if any(text in name for text in given.only.split(","))]
    records = []
    for model in given.models.split(","):
        for shape in given.batches.split(","):
            batch, tokens = (int(number) for number in shape.split("x"))
            records.append(run(model, batch, tokens, names, given.rounds, given.steps, given.warm, given.graphs))
            torch._dynamo.reset()
            torch.cuda.empty_cache()
            if not given.warm:
                given.out.write_text(json.dumps({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "sluice": sluice.__version__,
                                                 "command": " ".join(sys.argv), "records": records}, indent=1) + "\n")


if __name__ == "__main__":
    main()
