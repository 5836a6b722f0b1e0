# SPDX-License-Identifier: Apache-2.0
"""A layer by sluice's operations, for each recipe, as calls of one object ``s``: ``Now`` runs them (chains.py), ``Recorded`` makes
steps of a chain (chains.py). So both have the same products, norms and quantisers.

A layer takes and returns ``(x, y)``: the residual, and what has yet to be added to it (None: nothing).
"""
from __future__ import annotations

import functools
from typing import Any, Callable, Optional

import torch
from torch import Tensor

from attend import E4M3
from models import BF16, Model
from recipes import GROUP, Recipe, recipe

FEW = 8  # up to so many rows a packed product computes the norm in front of it
GATED = {"gated": True, "activation": "silu"}
Streams = tuple[Tensor, Optional[Tensor]]


class Packed(Recipe):
    """sluice's packed int4."""

    kind, accuracy = "int4", "int4"

    def pack(self, weight: Tensor, largest: float, product: str) -> tuple:
        import sluice.torch as st
        return (st.pack_int4(weight, group=GROUP, gated=product == "gate_up"),)


WEIGHTS = {"row": recipe("row"), "tensor": recipe("tensor"), "int4": Packed(), "bf16": recipe("bf16")}


class Now:
    """Runs each operation at once."""

    def __init__(self, st: Any):
        self.st = st

    def __getattr__(self, operation: str) -> Callable:
        function = getattr(self.st, operation)
        return lambda *of, name, **more: function(*of, **more)


class Recorded:
    """Records each operation as a step. Layers share buffers: a step of the same name writes where it wrote before, which a
    chain allows."""

    OUTPUTS = {"rms_norm": ("out", "sum"), "rms_norm_quantize": ("out", "scales", "sum"), "quantize": ("out", "scales"),
               "silu_mul_quantize": ("out", "scales"), "linear": ("out",), "scaled_mm": ("out",), "packed_mm": ("out",)}

    def __init__(self, steps: Any):
        self.steps, self.written = steps, {}

    def __getattr__(self, operation: str) -> Callable:
        def record(*of: Any, name: str, **more: Any) -> Any:
            written = self.written.setdefault(name, {})
            absent = {"scales"} if more.get("scale") is not None else set()
            if more.get("residual") is None:
                absent |= {"sum"}
            else:
                written.setdefault("sum", torch.empty_like(more["residual"]))
            made = getattr(self.steps, operation)(*of, name=name, **more, **{k: v for k, v in written.items() if k not in absent})
            outputs = made if isinstance(made, tuple) else (made,)
            written.update({k: v for k, v in zip(self.OUTPUTS[operation], outputs) if k not in absent})
            return made
        return record


def normed(s: Any, gamma: Tensor, streams: Streams, name: str) -> tuple[Tensor, Tensor]:
    """Returns the norm of the sum of the streams, and the sum."""
    x, y = streams
    return (s.rms_norm(x, gamma, name=name), x) if y is None else s.rms_norm(y, gamma, residual=x, name=name)


def quantized(s: Any, gamma: Tensor, streams: Streams, name: str, granularity: str, **scale: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the norm of the sum of the streams as codes and scales of e4m3, and the sum."""
    x, y = streams
    if y is None:
        return (*s.rms_norm_quantize(x, gamma, granularity, name=name, **scale), x)
    return s.rms_norm_quantize(y, gamma, granularity, residual=x, name=name, **scale)


def row(s: Any, gammas: tuple, w: dict, streams: Streams, attention: Callable) -> Streams:
    def product(name: str, codes: Tensor, scales: Tensor) -> Tensor:
        return s.scaled_mm(codes, w[name][0].t(), scales, w[name][1].t(), out_dtype=BF16, use_fast_accum=True, name=name)
    codes, scales, x = quantized(s, gammas[0], streams, "norm_1", "row")
    y = product("o", *s.quantize(attention(product("qkv", codes, scales)), "row", name="quantize"))
    codes, scales, x = quantized(s, gammas[1], (x, y), "norm_2", "row")
    return x, product("down", *s.silu_mul_quantize(product("gate_up", codes, scales), "row", name="silu_mul"))


def tensor(s: Any, gammas: tuple, w: dict, streams: Streams, attention: Callable) -> Streams:
    def product(name: str, codes: Tensor, out_dtype: torch.dtype = BF16, **more: Any) -> Tensor:
        return s.scaled_mm(codes, w[name][0].t(), w[name][2], w[name][1], out_dtype=out_dtype, use_fast_accum=True, name=name, **more)
    codes, _, x = quantized(s, gammas[0], streams, "norm_1", "tensor", scale=w["qkv"][2])
    y = product("o", attention(product("qkv", codes), w["o"][2]))
    codes, _, x = quantized(s, gammas[1], (x, y), "norm_2", "tensor", scale=w["gate_up"][2])
    return x, product("down", product("gate_up", codes, E4M3, scale_d=w["down"][2], **GATED))


def int4(s: Any, gammas: tuple, w: dict, streams: Streams, attention: Callable) -> Streams:
    def product(name: str, of: Tensor, **more: Any) -> Tensor:
        return s.packed_mm(of, w[name][0], name=name, **more)
    if streams[0].shape[0] <= FEW:
        x = streams[0]
        x = product("o", attention(product("qkv", x, gamma=gammas[0])), c=x)
        return product("down", product("gate_up", x, gamma=gammas[1], **GATED), c=x), None
    z, x = normed(s, gammas[0], streams, "norm_1")
    z, x = normed(s, gammas[1], (x, product("o", attention(product("qkv", z)))), "norm_2")
    return x, product("down", product("gate_up", z, **GATED))


def bf16(s: Any, gammas: tuple, w: dict, streams: Streams, attention: Callable) -> Streams:
    def product(name: str, of: Tensor, **more: Any) -> Tensor:
        return s.linear(of, w[name][0], name=name, **more)
    z, x = normed(s, gammas[0], streams, "norm_1")
    z, x = normed(s, gammas[1], (x, product("o", attention(product("qkv", z)))), "norm_2")
    return x, product("down", product("gate_up", z, **GATED))


LAYERS = {"row": row, "tensor": tensor, "int4": int4, "bf16": bf16}


def through(by: str, s: Any, model: Model, packed: list, x: Tensor, count: int, attended: Callable) -> Tensor:
    """Runs or records ``count`` layers and the last norm; ``attended(layer, qkv, out_scale)`` is the attention of a layer. Returns what the
    head reads."""
    streams: Streams = (x, None)
    for i in range(count):
        streams = LAYERS[by](s, model.gammas[i], packed[i], streams, functools.partial(attended, i))
    return normed(s, model.final, streams, "final")[0]
