# SPDX-License-Identifier: Apache-2.0
"""A host twin of st.Steps and st.Chain. Steps are computed by torch on the CPU as the documentation of the ops says: sums in fp32, one
rounding, e4m3 by the quantisers' formulas. The ops' limits on rows and types are checked. HostMachine is decode's machine on it.

A recording runs nothing. A chain refuses parts out of order, and steps whose output lies on an input that may not be overwritten.
"""
from __future__ import annotations

import contextlib
import time
import types

import sluice
import sluice.torch as st
import torch
from sluice.torch.decode.machine import Token
from sluice.torch.decode.now import Now
from sluice.torch.decode.reference import ReferenceAttention, ReferenceRouter
from sluice.weights import dequantize

E4M3 = torch.float8_e4m3fn
ACTIVATIONS = {None: lambda y: y, "silu": torch.nn.functional.silu, "gelu": torch.nn.functional.gelu, "relu": torch.relu}
_unpacked: dict = {}


def need(condition, text):
    if not condition:
        raise sluice.InvalidArgument(f"twin: {text}")


def static(values, scale):
    need(scale.numel() == 1 and scale.dtype is torch.float32, f"a scale is one fp32 value, and has {tuple(scale.shape)}")
    return (values * (1.0 / scale)).clamp(-448.0, 448.0).to(E4M3)


def by_granularity(values, granularity):
    need(granularity == "row", f"granularity {granularity}: the twin has rows")
    return st.quantize_reference(values, "row")


def normed(input, gamma, residual, epsilon):
    need(gamma.dtype is input.dtype and gamma.shape == input.shape[-1:], f"gamma is {gamma.dtype} {tuple(gamma.shape)}")
    total = input if residual is None else (input.float() + residual.float()).to(input.dtype)
    wide = total.float()
    return wide * (1.0 / torch.sqrt(wide.square().mean(-1, keepdim=True) + epsilon)) * gamma.float(), total


def rms_norm(input, gamma, *, residual=None, epsilon=1e-5):
    values, total = normed(input, gamma, residual, epsilon)
    made = values.to(input.dtype)
    return made if residual is None else (made, total)


def rms_norm_quantize(input, gamma, granularity="row", *, scale=None, residual=None, epsilon=1e-5):
    need((granularity == "tensor") == (scale is not None), "a scale is given for 'tensor' alone")
    values, total = normed(input, gamma, residual, epsilon)
    made = (static(values, scale), scale) if scale is not None else by_granularity(values, granularity)
    return made if residual is None else (*made, total)


def finished(sums, bias, activation, gated):
    sums = sums if bias is None else sums + bias.float()
    if not gated:
        return ACTIVATIONS[activation](sums)
    gate, up = sums.chunk(2, -1)
    return ACTIVATIONS[activation](gate) * up


def linear(input, weight, bias=None, *, c=None, activation=None, gated=False, out=None):
    need(input.dtype is weight.dtype and (bias is None or bias.dtype is input.dtype), "one type for input, weight and bias")
    sums = input.float() @ weight.float().t()
    made = finished(sums if c is None else sums + c.float(), bias, activation, gated).to(input.dtype)
    return made if out is None else out.copy_(made)


def scaled_mm(mat_a, mat_b, scale_a, scale_b, bias=None, scale_result=None, out_dtype=None, use_fast_accum=False, *, c=None,
              activation=None, gated=False, scale_d=None, out=None):
    need(mat_a.dtype is E4M3 and mat_b.dtype is E4M3 and mat_a.shape[1] % 16 == 0, "e4m3, k a multiple of 16")
    m, n = mat_a.shape[0], mat_b.shape[1]
    one = scale_a.numel() == 1 and scale_b.numel() == 1 and scale_a.dim() == 0
    need(one or (tuple(scale_a.shape), tuple(scale_b.shape)) == ((m, 1), (1, n)), f"scales {tuple(scale_a.shape)}, {tuple(scale_b.shape)}")
    need(scale_a.dtype is torch.float32 and scale_b.dtype is torch.float32, "fp32 scales")
    made = finished((mat_a.float() @ mat_b.float()) * scale_a * scale_b, bias, activation, gated)
    need((scale_d is not None) == (out_dtype is E4M3), "scale_d and an e4m3 output come together here")
    made = static(made, scale_d) if scale_d is not None else made.to(out_dtype)
    return made if out is None else out.copy_(made)


def weights_of(packed):
    key = packed.blob.data_ptr()
    if key not in _unpacked or _unpacked[key][0] is not packed.blob:
        _unpacked[key] = (packed.blob, torch.as_tensor(dequantize(packed.quantized())).float())
    return _unpacked[key][1]


def packed_mm(x, packed, bias=None, *, scale_x=None, c=None, activation=None, gated=False, scale_d=None, gamma=None, epsilon=1e-5, out=None,
              out_dtype=None):
    packed.check_gated(gated)
    need(x.shape[1] == packed.k, "columns of x")
    need(c is None or (x.shape[0] <= 64 and not gated and c.dtype is x.dtype), "c: at most 64 rows, not gated")
    need(not gated or x.shape[0] <= 128, "gated: at most 128 rows")
    need(gamma is None or (x.shape[0] <= 8 and x.dtype is gamma.dtype is torch.bfloat16), "gamma: at most 8 rows of bf16")
    tokens = x.float()
    if gamma is not None:
        tokens = (tokens * gamma.float()).bfloat16().float()
    sums = tokens @ weights_of(packed).t()
    if gamma is not None:
        sums = sums / torch.sqrt(x.float().square().mean(-1, keepdim=True) + epsilon)
    made = finished(sums, bias, activation, gated)
    made = (made if c is None else made + c.float()).to(out_dtype or x.dtype)
    return made if out is None else out.copy_(made)


def quantize(input, granularity="1x128", *, out=None, scales=None):
    return by_granularity(input, granularity)


def quantize_static(input, scale, *, out=None):
    return static(input.float(), scale)


def silu_mul_quantize(input, granularity="1x128", *, out=None, scales=None):
    gate, up = input.float().chunk(2, -1)
    return by_granularity(torch.nn.functional.silu(gate) * up, granularity)


def rows_of_groups(offs, rows):
    begin = 0
    for group, end in enumerate(offs.tolist()):
        end = min(max(end, begin), rows)
        yield group, slice(begin, end)
        begin = end


def grouped_mm(mat_a, mat_b, *, offs, bias=None, c=None, activation=None, gated=False, out=None):
    need(mat_a.dtype is mat_b.dtype and offs.dtype is torch.int32 and mat_b.stride(-2) == 1, "one type, int32 ends, B k-major")
    made = torch.full((mat_a.shape[0], mat_b.shape[-1] // (1 + gated)), float("nan"), dtype=mat_a.dtype)  # rows of no group stay
    for group, rows in rows_of_groups(offs, mat_a.shape[0]):
        made[rows] = finished(mat_a[rows].float() @ mat_b[group].float(), None if bias is None else bias[group], activation, gated).to(made.dtype)
    return made


def scaled_grouped_mm(mat_a, mat_b, scale_a, scale_b, offs, bias=None, *, out_dtype=None, use_fast_accum=False, c=None, activation=None,
                      gated=False, scale_d=None, row_factors=None, out=None):
    need(mat_a.dtype is E4M3 and mat_b.dtype is E4M3 and offs.dtype is torch.int32 and mat_b.stride(-2) == 1, "e4m3, int32 ends, B k-major")
    need(scale_a.shape == (mat_a.shape[0], 1) and scale_b.shape == (mat_b.shape[0], mat_b.shape[-1]), "scales of rows and of columns")
    made = torch.full((mat_a.shape[0], mat_b.shape[-1] // (1 + gated)), float("nan"), dtype=out_dtype)
    for group, rows in rows_of_groups(offs, mat_a.shape[0]):
        sums = (mat_a[rows].float() @ mat_b[group].float()) * scale_a[rows] * scale_b[group]
        made[rows] = finished(sums, None if bias is None else bias[group], activation, gated).to(out_dtype)
    return made


def packed_grouped_mm(x, packed, offs, bias=None, *, activation=None, gated=False, out=None, out_dtype=None):
    packed.check_gated(gated)
    need(offs.dtype is torch.int32 and x.shape[1] == packed.k, "int32 ends, columns of x")
    made = torch.full((x.shape[0], packed.n // (1 + gated)), float("nan"), dtype=out_dtype or x.dtype)
    for group, rows in rows_of_groups(offs, x.shape[0]):
        sums = x[rows].float() @ torch.as_tensor(dequantize(packed.expert(group).quantized())).float().t()
        made[rows] = finished(sums, None if bias is None else bias[group], activation, gated).to(made.dtype)
    return made


def route(topk_ids, experts, *, pitch=1, rows=None, out=None):
    flat = topk_ids.flatten()
    slots = [slot for expert in range(experts) for slot in (flat == expert).nonzero().flatten().tolist()]
    row_of_slot = torch.full((flat.numel(),), -1, dtype=torch.int32)
    token_of_row = torch.full((flat.numel(),), -1, dtype=torch.int32)
    for row, slot in enumerate(slots):
        row_of_slot[slot], token_of_row[row] = row, slot // topk_ids.shape[1]
    ends = torch.tensor([int(((flat >= 0) & (flat <= expert)).sum()) for expert in range(experts)], dtype=torch.int32)
    return ends, row_of_slot.view(topk_ids.shape), token_of_row


def gather(x, token_of_row, granularity=None, *, scale=None, out=None, scales=None):
    rows = x[token_of_row.clamp(min=0).long()] * (token_of_row >= 0).unsqueeze(-1)
    return rows if granularity is None else by_granularity(rows, granularity)


def slots_mm(mat_a, mat_b, ids, *, scale_a=None, scale_b=None, bias=None, activation=None, gated=False, use_fast_accum=False, out=None,
             out_dtype=None):
    need(ids.dtype is torch.int32 and ids.is_contiguous() and ids.numel() % mat_a.shape[0] == 0, "int32 ids of whole rows")
    chosen, rows = ids.numel() // mat_a.shape[0], mat_a.float() * (1 if scale_a is None else scale_a)
    made = []
    for slot, expert in enumerate(ids.flatten().tolist()):
        if not 0 <= expert < (len(mat_b) if isinstance(mat_b, sluice.PackedExperts) else mat_b.shape[0]):
            made.append(None)
            continue
        if isinstance(mat_b, sluice.PackedExperts):
            matrix = torch.as_tensor(dequantize(mat_b.expert(expert).quantized())).float().t()
        else:
            need(mat_b.dtype is mat_a.dtype and mat_b.stride(-2) == 1, "one type, B k-major")
            matrix = mat_b[expert].float() * (1 if scale_b is None else scale_b[expert])
        made.append(finished(rows[slot // chosen, None] @ matrix, None if bias is None else bias[expert], activation, gated))
    columns = (mat_b.n if isinstance(mat_b, sluice.PackedExperts) else mat_b.shape[-1]) // (1 + gated)
    kept = torch.full((1, columns), float("nan"))  # rows of no expert stay
    return torch.cat([kept if row is None else row for row in made]).to(out_dtype or mat_a.dtype)


def combine(y, row_of_slot, topk_weights=None, shared=None, *, experts=None, out=None):
    need(topk_weights.dtype is torch.float32, "fp32 weights")
    if experts is not None:
        own = torch.arange(row_of_slot.numel(), dtype=torch.int32).view(row_of_slot.shape)
        row_of_slot = torch.where((row_of_slot >= 0) & (row_of_slot < experts), own, -1)
    total = torch.zeros(row_of_slot.shape[0], y.shape[1])
    for slot in range(row_of_slot.shape[1]):
        has = row_of_slot[:, slot] >= 0
        total[has] += topk_weights[has, slot, None] * y[row_of_slot[has, slot].long()].float()
    return total.to(y.dtype)


FUNCTIONS = types.SimpleNamespace(moe=types.SimpleNamespace(route=route, gather=gather, combine=combine), grouped_mm=grouped_mm,
                                  packed_grouped_mm=packed_grouped_mm, slots_mm=slots_mm,
                                  scaled_grouped_mm=scaled_grouped_mm, rms_norm=rms_norm, rms_norm_quantize=rms_norm_quantize, linear=linear, scaled_mm=scaled_mm,
                                  packed_mm=packed_mm, quantize=quantize, quantize_static=quantize_static,
                                  silu_mul_quantize=silu_mul_quantize)


def overlaps(a, b):
    if a.untyped_storage().data_ptr() != b.untyped_storage().data_ptr():
        return False
    begin = [t.storage_offset() * t.element_size() for t in (a, b)]
    end = [x + (sum((n - 1) * s for n, s in zip(t.shape, t.stride())) + 1) * t.element_size() for x, t in zip(begin, (a, b))]
    return begin[0] < end[1] and begin[1] < end[0]


class HostSteps:
    """Records (name, reads, may, writes, call). ``may``: inputs that an output may lie on."""

    def __init__(self):
        self.parts, self.gaps = [[]], []

    def _add(self, name, call, given, outputs, may=(), dimensions=2):
        outputs = [out for out in outputs if out is not None]
        for out in outputs:
            for tensor in given:
                apart = tensor is None or not overlaps(out, tensor) or any(tensor is own for own in may)
                need(apart, f"{name}: an output lies on an input")
        for tensor in [*given, *outputs]:
            need(tensor is None or tensor.dim() <= dimensions, f"{name}: tensors are matrices")
        self.parts[-1].append((name, call))

    @staticmethod
    def _into(out, value):
        need(out.dtype is value.dtype and out.shape == value.shape,
             f"output is {out.dtype} {tuple(out.shape)}, step gives {value.dtype} {tuple(value.shape)}")
        out.copy_(value)

    def _all(self, name, function, given, outs, dimensions=2):
        """Adds a step whose function returns what all ``outs`` get."""
        def call():
            made = function()
            for out, value in zip(outs, made if isinstance(made, tuple) else (made,)):
                self._into(out, value)

        self._add(name, call, given, outs, dimensions=dimensions)
        return outs if len(outs) > 1 else outs[0]

    def grouped_mm(self, mat_a, mat_b, *, offs, bias=None, activation=None, gated=False, out, name="product"):
        return self._all(name, lambda: grouped_mm(mat_a, mat_b, offs=offs, bias=bias, activation=activation, gated=gated),
                         [mat_a, mat_b, offs, bias], [out], 3)

    def scaled_grouped_mm(self, mat_a, mat_b, scale_a, scale_b, offs, bias=None, *, out_dtype, use_fast_accum=False, activation=None,
                          gated=False, out, name="product"):
        return self._all(name, lambda: scaled_grouped_mm(mat_a, mat_b, scale_a, scale_b, offs, bias, out_dtype=out_dtype,
                                                         activation=activation, gated=gated),
                         [mat_a, mat_b, scale_a, scale_b, offs, bias], [out], 3)

    def slots_mm(self, mat_a, mat_b, ids, *, scale_a=None, scale_b=None, bias=None, activation=None, gated=False, use_fast_accum=False,
                 out, out_dtype=None, name="product"):
        weights = mat_b.blob if isinstance(mat_b, sluice.PackedExperts) else mat_b
        return self._all(name, lambda: slots_mm(mat_a, mat_b, ids, scale_a=scale_a, scale_b=scale_b, bias=bias, activation=activation,
                                                gated=gated, out_dtype=out_dtype or out.dtype),
                         [mat_a, weights, ids, scale_a, scale_b, bias], [out], 3)

    def packed_grouped_mm(self, x, packed, offs, bias=None, *, activation=None, gated=False, out, name="product"):
        return self._all(name, lambda: packed_grouped_mm(x, packed, offs, bias, activation=activation, gated=gated),
                         [x, packed.blob, offs, bias], [out])

    def route(self, topk_ids, experts, *, out, name="route"):
        return self._all(name, lambda: route(topk_ids, experts), [topk_ids], list(out))

    def gather(self, x, token_of_row, granularity=None, *, out, scales=None, name="gather"):
        return self._all(name, lambda: gather(x, token_of_row, granularity), [x, token_of_row],
                         [out] if granularity is None else [out, scales])

    def combine(self, y, row_of_slot, topk_weights=None, *, experts=None, out, name="combine"):
        return self._all(name, lambda: combine(y, row_of_slot, topk_weights, experts=experts), [y, row_of_slot, topk_weights], [out])

    def rms_norm(self, input, gamma, *, residual=None, sum=None, out=None, epsilon=1e-5, name="norm"):
        out = torch.empty_like(input) if out is None else out
        sum = torch.empty_like(input) if sum is None and residual is not None else sum

        def call():
            made = rms_norm(input, gamma, residual=residual, epsilon=epsilon)
            if residual is not None:
                made, total = made
                self._into(sum, total)
            self._into(out, made)

        self._add(name, call, [input, gamma, residual], [out], ())
        return out if residual is None else (out, sum)

    def rms_norm_quantize(self, input, gamma, granularity="row", *, scale=None, residual=None, sum=None, out=None, scales=None,
                          epsilon=1e-5, name="norm"):
        out = torch.empty(input.shape, dtype=E4M3) if out is None else out
        scales = scale if scale is not None else torch.empty(input.shape[0], 1) if scales is None else scales

        def call():
            made = rms_norm_quantize(input, gamma, granularity, scale=scale, residual=residual, epsilon=epsilon)
            self._into(out, made[0])
            if scale is None:
                self._into(scales, made[1])
            if residual is not None:
                self._into(sum, made[2])

        self._add(name, call, [input, gamma, residual], [out])
        return (out, scales) if residual is None else (out, scales, sum)

    def _product(self, name, function, given, out, c, columns, dtype, *arguments, **more):
        out = torch.empty(given[0].shape[0], columns, dtype=dtype) if out is None else out
        self._add(name, lambda: self._into(out, function(*arguments, c=c, **more)), [*given, c], [out], (c,))
        return out

    def linear(self, input, weight, bias=None, *, c=None, activation=None, gated=False, out=None, name="linear"):
        return self._product(name, linear, [input, weight, bias], out, c, weight.shape[0] // (1 + gated), input.dtype, input, weight, bias,
                             activation=activation, gated=gated)

    def scaled_mm(self, mat_a, mat_b, scale_a, scale_b, bias=None, *, out_dtype=torch.bfloat16, use_fast_accum=False, c=None,
                  activation=None, gated=False, scale_d=None, out=None, name="product"):
        return self._product(name, scaled_mm, [mat_a, mat_b, scale_a, scale_b, bias], out, c, mat_b.shape[1] // (1 + gated), out_dtype,
                             mat_a, mat_b, scale_a, scale_b, bias, out_dtype=out_dtype, activation=activation, gated=gated, scale_d=scale_d)

    def packed_mm(self, x, packed, bias=None, *, scale_x=None, c=None, activation=None, gated=False, scale_d=None, gamma=None, epsilon=1e-5,
                  out=None, out_dtype=None, name="product"):
        return self._product(name, packed_mm, [x, packed.blob, bias, gamma], out, c, packed.n // (1 + gated), out_dtype or x.dtype, x,
                             packed, bias, activation=activation, gated=gated, gamma=gamma, epsilon=epsilon, out_dtype=out_dtype)

    def _quantizer(self, name, function, input, columns, granularity, out, scales):
        out = torch.empty(input.shape[0], columns, dtype=E4M3) if out is None else out
        scales = torch.empty(input.shape[0], 1) if scales is None else scales

        def call():
            made = function(input, granularity)
            self._into(out, made[0])
            self._into(scales, made[1])

        self._add(name, call, [input], [out, scales])
        return out, scales

    def quantize(self, input, granularity="row", *, out=None, scales=None, name="quantize"):
        return self._quantizer(name, quantize, input, input.shape[1], granularity, out, scales)

    def silu_mul_quantize(self, input, granularity="row", *, scale=None, out=None, scales=None, name="silu_mul"):
        return self._quantizer(name, silu_mul_quantize, input, input.shape[1] // 2, granularity, out, scales)

    def gap(self, name="gap", *, writes=(), waits=False, triggers=False, nodes=1, programmatic_edges=0, stand_in_us=5.0):
        need(len(writes) > 0, "a gap that writes anything lets nothing be loaded early")
        self.gaps.append(types.SimpleNamespace(name=name, writes=writes, waits=waits, triggers=triggers, nodes=nodes))
        self.parts.append([])


class HostChain:
    def __init__(self, steps, overlap="tuned", tune=None):
        self.steps, self.overlap, self.tune, self.next = steps, overlap, tune, 0

    @property
    def parts(self):
        return len(self.steps.parts)

    def run(self, part):
        need(part == self.next, f"part {part} runs and part {self.next} is next")
        self.next = (part + 1) % self.parts
        for _, call in self.steps.parts[part]:
            call()

    def names(self):
        return [[name for name, _ in part] for part in self.steps.parts]

    def explain(self):
        return "\n".join(" ".join(part) for part in self.names())


class HostClock:
    def begin(self):
        self._since = time.perf_counter()

    def end(self):
        self._until = time.perf_counter()

    def ms(self):
        return (self._until - self._since) * 1e3


class HostMachine:
    """decode's machine on the CPU. ``chains``: those that were made; ``tokens``: how many tokens ran."""

    dtypes = (torch.float32, torch.bfloat16, torch.float16)
    device = torch.device("cpu")

    def __init__(self):
        self.now, self.chains, self.tokens, self.captures = Now(FUNCTIONS), [], 0, 0

    def quantize(self, input, granularity):
        return st.quantize_reference(input, granularity)

    def steps(self):
        return HostSteps()

    def chain(self, steps, overlap, tune):
        self.chains.append(HostChain(steps, overlap, tune))
        return self.chains[-1]

    def attention(self, **what):
        return ReferenceAttention(**what)

    def router(self, *what):
        return ReferenceRouter(*what)

    def greedy(self, books, rows):
        return lambda logits: books.enter(books.pick(logits, "greedy"))

    def capture(self, chain, body):
        self.captures += 1
        body()

        def run():
            self.tokens += 1
            body()

        return Token(run, sum(map(len, chain.names())))

    def current(self):
        return contextlib.nullcontext()

    def clock(self):
        return HostClock()

    def describe(self):
        return {"device": "NVIDIA H200 (twin)", "hbm_gb_s": 4800}
