# SPDX-License-Identifier: Apache-2.0
"""Checks sluice.torch.attention on a GPU against float64, and measures its time in CUDA graphs, in less than a minute.

    python tests/python/gpu_attention.py [RESULTS.json]

Exits with 1 if a check fails. Calls of one graph go round the caches of many layers, so caches are cold if they are larger than the
L2 together: ``footprint_MB`` says how large. `share` is the cache's bytes over the time, of the datasheet's bandwidth.
Sweeps of ``splits`` and ``least`` at one row show whether the defaults of ``Attention`` fit this GPU.
"""
import dataclasses
import json
import os
import random
import statistics
import sys
import time
from typing import Optional

import torch

from sluice.torch.attention import Attention

E4M3 = torch.float8_e4m3fn
ROUNDING = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, E4M3: 2.0**-4}
START, MOST_SECONDS = time.time(), 55.0
HEADS, KV_HEADS, DIM, MOST = 32, 8, 128, 4096 + 64  # Llama-3-8B has these heads.
SLOTS = 512  # The pool of caches takes 8.7 GB.
BANDWIDTH = {"H200": 4.8, "GH200": 4.9, "H100": 3.35}  # TB/s


def turned(x, cos, sin):
    """Rotates the first columns of x (... x head_dim) by halves, in float64."""
    half = cos.shape[-1]
    low, high, rest = x[..., :half], x[..., half:2 * half], x[..., 2 * half:]
    return torch.cat((low * cos - high * sin, high * cos + low * sin, rest), -1)


def normed(x, weights, epsilon):
    return x if weights is None else x / torch.sqrt(x.square().mean(-1, keepdim=True) + epsilon) * weights.double()


def expected(qkv, k_cache, v_cache, slots, lengths, *, heads, rotary, epsilon=1e-6, scale=None, window=None, softcap=None, q_norm=None,
             k_norm=None):
    """Returns (out, what it may be off by for a unit of rounding, {(row, slot): (k, v) of the new token}) in float64."""
    kind, rows, (kv_heads, most, dim) = qkv.dtype, qkv.shape[0], k_cache.shape[1:]
    scale = dim ** -0.5 if scale is None else scale
    out = torch.zeros(rows, heads * dim, dtype=torch.float64)
    slack, new = torch.zeros_like(out), {}
    for row, length in enumerate(lengths.tolist()):
        slot = row if slots is None else int(slots[row])
        if not (0 <= length < most and 0 <= slot < k_cache.shape[0]):
            continue
        q, k, v = qkv[row].double().view(-1, dim).split([heads, kv_heads, kv_heads])
        q, k = normed(q, q_norm, epsilon), normed(k, k_norm, epsilon)
        if rotary is not None:
            cos, sin = rotary[0][length].double(), rotary[1][length].double()
            q, k = turned(q, cos, sin), turned(k, cos, sin)
        q, k = q.to(kind).double(), k.to(kind).double()
        new[row, slot] = k, v
        first = 0 if window is None else max(0, length - window + 1)
        keys = torch.cat((k_cache[slot, :, first:length].double(), k[:, None]), 1).repeat_interleave(heads // kv_heads, 0)
        values = torch.cat((v_cache[slot, :, first:length].double(), v[:, None]), 1).repeat_interleave(heads // kv_heads, 0)
        logits = torch.einsum("hd,htd->ht", q, keys) * scale
        if softcap is not None:
            logits = softcap * torch.tanh(logits / softcap)
        weights = torch.softmax(logits, -1)
        out[row] = torch.einsum("ht,htd->hd", weights, values).flatten()
        slack[row] = torch.einsum("ht,htd->hd", weights, values.abs()).flatten()
    return out, slack, new


@dataclasses.dataclass
class Case:
    """Shapes of a call, and the call itself with poisoned outputs, workspace, and cache behind each sequence."""
    seed: int
    dim: int = 64
    kv_heads: int = 2
    group: int = 4
    lengths: tuple = (100,)
    most: int = 200
    rotary_dim: Optional[int] = None  # None: head_dim; 0: no rotation
    kind: torch.dtype = torch.float16
    splits: Optional[int] = None
    least: Optional[int] = 32
    window: Optional[int] = None
    softcap: Optional[float] = None
    epsilon: float = 1e-6
    scale: Optional[float] = None
    norms: str = ""
    mixed: bool = False  # slots in random order, rows with a pitch, one slot more than rows
    out_scale: Optional[float] = None
    device: str = "cpu"

    def make(self, **options):
        generator = torch.Generator().manual_seed(self.seed)
        rows, heads = len(self.lengths), self.kv_heads * self.group

        def normal(*shape, kind=self.kind, factor=1.0):
            return (torch.randn(*shape, generator=generator) * factor).to(kind)
        half = (self.dim if self.rotary_dim is None else self.rotary_dim) // 2
        angles = torch.rand(self.most, half, generator=generator) * 6.3
        self.rotary = (angles.cos(), angles.sin()) if half else None
        columns, extra = (heads + 2 * self.kv_heads) * self.dim, 16 * self.mixed
        qkv = normal(rows, columns + extra, factor=1.5)
        caches = [normal(rows + self.mixed, self.kv_heads, self.most, self.dim, factor=1.5) for _ in range(2)]
        slots = torch.randperm(rows + 1, generator=generator)[:rows].to(torch.int32) if self.mixed else None
        lengths = torch.tensor(self.lengths, dtype=torch.int32)
        for cache in caches:
            used = torch.zeros(cache.shape[0], cache.shape[2], dtype=torch.bool)
            for row, length in enumerate(self.lengths):
                used[int(slots[row]) if self.mixed else row, :max(length, 0)] = 0 <= length < self.most
            cache.masked_fill_(~used[:, None, :, None], float("nan"))
        out_kind = self.kind if self.out_scale is None else E4M3
        out = torch.full((rows, heads * self.dim + extra), float("nan")).to(out_kind)
        norms = {name + "_norm": normal(self.dim, factor=0.5) + 1.0 for name in "qk" if name in self.norms}
        if self.out_scale is not None:
            norms["out_scale"] = torch.tensor([self.out_scale])
        where = dict(device=self.device)
        self.attention = Attention(heads=heads, kv_heads=self.kv_heads, head_dim=self.dim, rows=rows, max_length=self.most,
                                   rotary=self.rotary and tuple(x.to(**where) for x in self.rotary), splits=self.splits, least=self.least,
                                   window=self.window, softcap=self.softcap, epsilon=self.epsilon, softmax_scale=self.scale,
                                   dtype=self.kind, **where, **options)
        self.attention._parts.fill_(float("nan"))
        self.attention._peaks.fill_(float("nan"))
        qkv, out, k_cache, v_cache, lengths = (x.to(**where) for x in (qkv, out, *caches, lengths))
        self.args = dict(qkv=qkv[:, :columns], k_cache=k_cache, v_cache=v_cache, slots=slots if slots is None else slots.to(**where),
                         lengths=lengths, out=out[:, :heads * self.dim], **{name: x.to(**where) for name, x in norms.items()})
        self.behind = out[:, heads * self.dim:]
        return self

    def check(self):
        """Runs the case once and compares out, both caches, the tickets and the memory around the output."""
        args = {name: x if x is None else x.cpu().clone() for name, x in self.args.items()}
        self.attention(**self.args)
        out = self.args["out"].cpu().double() * (1.0 if self.out_scale is None else self.out_scale)
        want, slack, new = expected(*(args[name] for name in ("qkv", "k_cache", "v_cache", "slots", "lengths")),
                                    heads=self.kv_heads * self.group, rotary=self.rotary, window=self.window, softcap=self.softcap,
                                    epsilon=self.epsilon, scale=self.scale, q_norm=args.get("q_norm"), k_norm=args.get("k_norm"))
        # The weights are rounded once, q and k might be rounded the other way, and the result is rounded once.
        bound = ROUNDING[self.kind] * (2 * slack + want.abs()) + 1e-7
        if self.out_scale is not None:
            top = 448.0 * self.out_scale
            bound += (ROUNDING[E4M3] * want.abs()).clamp(min=self.out_scale * 2.0**-10)
            want, bound = want.clamp(-top, top), bound
        off = ((out - want).abs() / bound).nan_to_num(float("inf"))
        assert off.max() <= 1.0, f"{self}: off by {off.max():.3g} bounds, in {int((off > 1).sum())} of {off.numel()} values"
        for name, which in (("k_cache", 0), ("v_cache", 1)):
            cache, before = self.args[name].cpu().clone(), args[name]
            for (row, slot), token in new.items():
                at = self.lengths[row]
                room = 0 if name == "v_cache" else 2.1 * ROUNDING[self.kind] * token[which].abs() + 1e-6
                wrong = (cache[slot, :, at].double() - token[which]).abs() > room
                assert not wrong.any() and not cache[slot, :, at].isnan().any(), f"{self}: the new {name[0]} of row {row}"
                cache[slot, :, at] = before[slot, :, at]
            assert torch.equal(cache.view(torch.int16), before.view(torch.int16)), f"{self}: {name} is written elsewhere"
        assert self.behind.double().isnan().all(), f"{self}: written behind a row of out"
        assert not self.attention._tickets.any(), f"{self}: tickets are {self.attention._tickets.tolist()}"
        return out


def random_case(seed, **fixed) -> Case:
    chosen = random.Random(seed)
    dim = chosen.choice([16, 24, 64, 64, 80, 96, 128, 256])
    most = chosen.choice([1, 33, 64, 130, 257])
    rows = chosen.choice([1, 2, 3])
    values = dict(
        dim=dim, most=most, kv_heads=chosen.choice([1, 2, 3]), group=chosen.choice([1, 2, 3, 4, 7, 8, 15, 16]),
        lengths=tuple(chosen.choice([-1, 0, most - 1, most, chosen.randrange(most), chosen.randrange(most)]) for _ in range(rows)),
        rotary_dim=chosen.choice([None, None, 0, dim // 2, dim // 4 * 2 - 2]) if dim > 16 else None,
        kind=chosen.choice([torch.float16, torch.bfloat16]), splits=chosen.choice([None, 1, 2, 3, 5, 8]),
        least=chosen.choice([None, 1, 64, 65]), window=chosen.choice([None, None, 1, 2, 31, 64, 1000]),
        softcap=chosen.choice([None, None, 3.0]), epsilon=chosen.choice([1e-6, 0.7]), scale=chosen.choice([None, 0.3]),
        norms=chosen.choice(["", "", "qk", "q", "k"]), mixed=chosen.random() < 0.5, out_scale=chosen.choice([None, None, 0.01, 0.002]))
    return Case(seed=seed, **{**values, **fixed})


def same_bits(a, b):
    return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


def left() -> float:
    return MOST_SECONDS - (time.time() - START)


def graph_of(body):
    body()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        body()
    return graph


def check_random(failures: list) -> int:
    """Compares random shapes, and the geometry of an 8B model, with the definition. Returns how many."""
    big = dict(dim=DIM, kv_heads=KV_HEADS, group=4, most=MOST, least=None, device="cuda", kind=torch.bfloat16)
    cases = [Case(seed=1, lengths=(4000, 127), **big), Case(seed=2, lengths=(1024,), norms="qk", out_scale=0.01, mixed=True, **big),
             Case(seed=3, lengths=(0, 1, 64, 128, 129, 300, -1), splits=16, **{**big, "least": 1, "most": 301})]
    cases += [random_case(seed, device="cuda") for seed in range(14)]
    done = 0
    for case in cases:
        if left() < 30:
            break
        try:
            case.make().check()
        except AssertionError as error:
            failures.append(str(error)[:400])
        done += 1
    return done


def check_repeats(failures: list) -> None:
    """Compares bits: over 300 launches, between dependent and ordinary launches, in a graph, and of a row alone."""
    shape = dict(dim=DIM, kv_heads=KV_HEADS, group=4, most=2048, splits=16, least=64, kind=torch.bfloat16, device="cuda")
    case = Case(seed=4, lengths=(2000, 70, 1024, 0), **shape).make()
    case.attention(**case.args)
    first = case.args["out"].clone()
    for call in range(300):
        case.args["out"].fill_(float("nan"))
        case.attention(**case.args)
        if not same_bits(case.args["out"], first):
            failures.append(f"launch {call} gives other bits")
            break
    graph = graph_of(lambda: [case.attention(**case.args) for _ in range(20)])
    case.args["out"].fill_(float("nan"))
    for _ in range(20):
        graph.replay()
    if not same_bits(case.args["out"], first):
        failures.append("a graph of dependent launches gives other bits")
    plain = Case(seed=4, lengths=(2000, 70, 1024, 0), **shape).make(dependent=False)
    plain.attention(**plain.args)
    if not same_bits(plain.args["out"], first):
        failures.append("ordinary launches give other bits")
    alone = Case(seed=4, lengths=(-1, -1, 1024, -1), **shape).make()
    for name in ("k_cache", "v_cache"):
        alone.args[name][2] = case.args[name][2]
    alone.attention(**alone.args)
    if not same_bits(alone.args["out"][2], first[2]):
        failures.append("a row alone gives other bits")
    if case.attention._tickets.any():
        failures.append("tickets are left")


class Clock:
    """Measures a call: 8B geometry, caches of many layers in one pool."""

    def __init__(self):
        self.k, self.v = (torch.empty(SLOTS, KV_HEADS, MOST, DIM, device="cuda", dtype=torch.bfloat16).normal_() for _ in range(2))
        angles = torch.rand(MOST, DIM // 2, device="cuda") * 6.3
        self.rotary = angles.cos(), angles.sin()

    def measure(self, rows: int, context: int, **options) -> dict:
        attend = Attention(heads=HEADS, kv_heads=KV_HEADS, head_dim=DIM, rotary=self.rotary, rows=rows, max_length=MOST,
                           device="cuda", **options)
        layers = min(64, SLOTS // rows)
        qkv = torch.randn(rows, (HEADS + 2 * KV_HEADS) * DIM, device="cuda", dtype=torch.bfloat16)
        out = torch.empty(rows, HEADS * DIM, device="cuda", dtype=torch.bfloat16)
        lengths = torch.full((rows,), context, device="cuda", dtype=torch.int32)
        caches = [(self.k[i * rows:(i + 1) * rows], self.v[i * rows:(i + 1) * rows]) for i in range(layers)]
        calls = max(layers, 32)
        graph = graph_of(lambda: [attend(qkv, *caches[i % layers], None, lengths, out) for i in range(calls)])
        times = []
        for _ in range(12):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) * 1e3 / calls)
        us = statistics.median(times[2:])
        size = rows * KV_HEADS * context * DIM * 2 * 2
        name = torch.cuda.get_device_name()
        peak = next((rate for part, rate in BANDWIDTH.items() if part in name), None)
        return {"rows": rows, "context": context, "splits": attend.splits, "least": attend.least, "dependent": attend.waits,
                "us": round(us, 2), "share": peak and round(size / us * 1e-6 / peak, 3), "footprint_MB": round(size * layers / 1e6)}


def main() -> int:
    failures: list = []
    found = {"commit": os.environ.get("SLUICE_COMMIT", ""), "gpu": torch.cuda.get_device_name(), "torch": torch.__version__,
             "command": " ".join(sys.argv), "failures": failures, "times": [], "skipped": 0}
    found["checked"] = check_random(failures)
    check_repeats(failures)
    print(f"{found['checked']} shapes checked, {len(failures)} failures, {time.time() - START:.1f} s", flush=True)
    clock = Clock()
    runs = [dict(rows=rows, context=context, dependent=dependent)
            for rows in (1, 16, 64) for context in (128, 1024, 4096) for dependent in (True, False)]
    runs += [dict(rows=1, context=context, splits=splits, least=least) for context in (128, 200, 1024, 4096)
             for splits, least in ((8, 64), (16, 64), (16, 256), (32, 64), (32, 128))]
    runs += [dict(rows=16, context=context, splits=splits) for context in (1024, 4096) for splits in (1, 4, 8)]
    for run in runs:
        if left() < 3:
            found["skipped"] += 1
            continue
        found["times"].append(clock.measure(**run))
        print(json.dumps(found["times"][-1]), flush=True)
    found["seconds"] = round(time.time() - START, 1)
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)
    print("\n".join(failures) or f"all checks hold; {found['seconds']} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
