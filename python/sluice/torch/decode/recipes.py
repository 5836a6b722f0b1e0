# SPDX-License-Identifier: Apache-2.0
"""The steps of a layer, of the end (norm and head), and which launches they are, for each recipe. The same functions record a chain
(``ops`` is st.Steps, ``buffers`` are the bucket's) and run a prompt (``ops`` is now.Now, buffers are none, outputs are new).

The residual stream of a layer is (``stream``, ``pending``): what was added up, and a product that the next norm adds to it.
"""
from __future__ import annotations

import dataclasses
from typing import Any, Callable, List, NamedTuple, Optional

import torch
from torch import Tensor

from .._moe_ops import takes_slots
from .weights import Operand, Packed, Scaled

RECIPES = ("row", "tensor", "int4", None)
HEADS = ("row", "int4", None)
NORM_IN_PRODUCT_ROWS = 8  # up to which packed products apply the norm themselves
E4M3 = torch.float8_e4m3fn


@dataclasses.dataclass
class Layer:
    """The tensors of a layer. ``scales``: four values for the recipe "tensor", of the inputs of qkv, o, gate_up and down. With a
    ``router``, gate_up and down are those of experts."""

    norm1: Tensor
    norm2: Tensor
    qkv: Operand
    o: Operand
    gate_up: Operand
    down: Operand
    q_norm: Optional[Tensor] = None
    k_norm: Optional[Tensor] = None
    scales: Optional[List[Tensor]] = None
    router: Optional[Operand] = None


class Stream(NamedTuple):
    stream: Tensor
    pending: Optional[Tensor] = None


class Buffers:
    """The activations of a bucket, which all layers share. A later step may overwrite what no step behind it reads."""

    def __init__(self, recipe: Optional[str], rows: int, shape: Any, dtype: torch.dtype, device: Any, activation: str) -> None:
        def new(columns: int, kind: torch.dtype = dtype) -> Tensor:
            return torch.zeros(rows, columns, dtype=kind, device=device)

        fp8, q = recipe in ("row", "tensor"), shape.q_columns
        unpaired = recipe == "row" and activation == "silu"  # the gate is a step of its own, and reads gate and up
        self.stream = new(shape.width)
        self.normed = new(shape.width)
        self.quantized = new(shape.width, E4M3) if fp8 else None
        self.qkv = new(shape.qkv_columns)
        self.attended = new(q, E4M3 if recipe == "tensor" else dtype)
        self.attended_quantized = new(q, E4M3) if recipe == "row" else None
        self.o = new(shape.width)
        self.gate_up = new(2 * shape.inner) if unpaired else None
        self.inner = None if unpaired else new(shape.inner, E4M3 if recipe == "tensor" else dtype)
        self.inner_quantized = new(shape.inner, E4M3) if recipe == "row" else None
        self.down = new(shape.width)
        self.scales = torch.ones(rows, 1, dtype=torch.float32, device=device) if recipe == "row" else None
        self.head_quantized, self.head_scales = new(shape.width, E4M3), torch.ones(rows, 1, dtype=torch.float32, device=device)
        self.logits = new(-(-shape.vocab // 8) * 8)[:, :shape.vocab]  # rows begin at multiples of 16 bytes
        if shape.experts is not None:
            self._add_experts(recipe, rows, shape, dtype, device)

    def _add_experts(self, recipe: Optional[str], rows: int, shape: Any, dtype: torch.dtype, device: Any) -> None:
        e, slots = shape.experts, rows * shape.experts.chosen

        def new(kind: torch.dtype, *size: int) -> Tensor:
            return torch.zeros(size, dtype=kind, device=device)

        self.router = new(dtype, rows, -(-e.count // 8) * 8)[:, :e.count]
        self.ids, self.weights = new(torch.int32, rows, e.chosen), new(torch.float32, rows, e.chosen)
        self.tables = (new(torch.int32, e.count), new(torch.int32, rows, e.chosen), new(torch.int32, slots))
        self.of_experts = new(E4M3 if recipe == "row" else dtype, slots, shape.width)
        self.scales_of_experts = new(torch.float32, slots, 1) if recipe == "row" else None
        self.inner_of_experts = new(dtype, slots, e.inner)
        self.inner_of_experts_quantized = new(E4M3, slots, e.inner) if recipe == "row" else None
        self.down_of_experts = new(dtype, slots, shape.width)


class NoBuffers:
    """In the place of Buffers where steps run now: every output is new."""

    def __getattr__(self, name: str) -> None:
        return None


Attend = Callable[..., Tensor]  # (qkv, out, out_scale) -> what attention writes, e4m3 where out_scale is given
Choose = Callable[..., tuple]  # (logits, ids, weights) -> the experts of each row and their weights


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A way to compute a layer. ``epsilon`` and ``activation`` are the model's."""

    name: Optional[str]
    epsilon: float
    activation: str
    dtype: torch.dtype

    def layer(self, ops: Any, w: Layer, state: Stream, b: Any, attend: Attend, choose: Optional[Choose] = None) -> Stream:
        """Adds the steps of a layer. ``choose``: for layers of experts."""
        made: Stream = {"row": self._row, "tensor": self._tensor, "int4": self._int4, None: self._dense}[self.name](ops, w, state, b, attend)
        return made if w.router is None else self._experts(ops, w, made, b, choose)

    def end(self, ops: Any, gamma: Tensor, head: Operand, state: Stream, b: Any) -> Tensor:
        """Norm and head; returns logits."""
        if isinstance(head, Scaled):
            x, scale, _ = self._norm_row(ops, state, gamma, "final_norm", b.head_quantized, b.head_scales)
            return head.product(ops, x, scale, self.dtype, out=b.logits, name="head")
        if isinstance(head, Packed) and self._norms_in_product(state):
            return head.product(ops, state.stream, gamma=gamma, epsilon=self.epsilon, out=b.logits, name="head")
        x, _ = self._norm(ops, state, gamma, "final_norm", b.normed)
        return head.product(ops, x, out=b.logits, name="head")

    # ---- norms
    def _norm(self, ops: Any, state: Stream, gamma: Tensor, name: str, out: Optional[Tensor]) -> tuple:
        if state.pending is None:
            return ops.rms_norm(state.stream, gamma, out=out, epsilon=self.epsilon, name=name), state.stream
        return ops.rms_norm(state.pending, gamma, residual=state.stream, sum=state.stream, out=out, epsilon=self.epsilon, name=name)

    def _norm_row(self, ops: Any, state: Stream, gamma: Tensor, name: str, out: Optional[Tensor], scales: Optional[Tensor]) -> tuple:
        if state.pending is None:
            made = ops.rms_norm_quantize(state.stream, gamma, "row", out=out, scales=scales, epsilon=self.epsilon, name=name)
            return (*made, state.stream)
        return ops.rms_norm_quantize(state.pending, gamma, "row", residual=state.stream, sum=state.stream, out=out, scales=scales,
                                     epsilon=self.epsilon, name=name)

    def _norm_static(self, ops: Any, state: Stream, gamma: Tensor, scale: Tensor, name: str, out: Optional[Tensor]) -> tuple:
        if state.pending is None:
            made = ops.rms_norm_quantize(state.stream, gamma, "tensor", scale=scale, out=out, epsilon=self.epsilon, name=name)
            return made[0], state.stream
        made = ops.rms_norm_quantize(state.pending, gamma, "tensor", scale=scale, residual=state.stream, sum=state.stream, out=out,
                                     epsilon=self.epsilon, name=name)
        return made[0], made[2]

    def _norms_in_product(self, state: Stream) -> bool:
        return state.pending is None and state.stream.shape[0] <= NORM_IN_PRODUCT_ROWS and self.dtype is torch.bfloat16

    # ---- layers
    def _row(self, ops: Any, w: Layer, state: Stream, b: Any, attend: Attend) -> Stream:
        x, scale, stream = self._norm_row(ops, state, w.norm1, "norm1", b.quantized, b.scales)
        attended = attend(w.qkv.product(ops, x, scale, self.dtype, out=b.qkv, name="qkv"), b.attended, None)
        x, scale = ops.quantize(attended, "row", out=b.attended_quantized, scales=b.scales, name="quantize")
        o = w.o.product(ops, x, scale, self.dtype, out=b.o, name="o")
        if w.router is not None:
            return Stream(stream, o)
        x, scale, stream = self._norm_row(ops, Stream(stream, o), w.norm2, "norm2", b.quantized, b.scales)
        if self.activation == "silu":
            pairs = w.gate_up.product(ops, x, scale, self.dtype, out=b.gate_up, name="gate_up")
            x, scale = ops.silu_mul_quantize(pairs, "row", out=b.inner_quantized, scales=b.scales, name="silu_mul")
        else:  # a quantiser has only the gate of silu
            inner = w.gate_up.product(ops, x, scale, self.dtype, activation=self.activation, gated=True, out=b.inner, name="gate_up")
            x, scale = ops.quantize(inner, "row", out=b.inner_quantized, scales=b.scales, name="quantize")
        return Stream(stream, w.down.product(ops, x, scale, self.dtype, out=b.down, name="down"))

    def _tensor(self, ops: Any, w: Layer, state: Stream, b: Any, attend: Attend) -> Stream:
        of_qkv, of_o, of_gate_up, of_down = w.scales
        x, stream = self._norm_static(ops, state, w.norm1, of_qkv, "norm1", b.quantized)
        attended = attend(w.qkv.product(ops, x, of_qkv, self.dtype, out=b.qkv, name="qkv"), b.attended, of_o)
        o = w.o.product(ops, attended, of_o, self.dtype, out=b.o, name="o")
        x, stream = self._norm_static(ops, Stream(stream, o), w.norm2, of_gate_up, "norm2", b.quantized)
        inner = w.gate_up.product(ops, x, of_gate_up, E4M3, activation=self.activation, gated=True, scale_d=of_down, out=b.inner,
                                  name="gate_up")
        return Stream(stream, w.down.product(ops, inner, of_down, self.dtype, out=b.down, name="down"))

    def _int4(self, ops: Any, w: Layer, state: Stream, b: Any, attend: Attend) -> Stream:
        if not self._norms_in_product(state):
            return self._dense(ops, w, state, b, attend)
        qkv = w.qkv.product(ops, state.stream, gamma=w.norm1, epsilon=self.epsilon, out=b.qkv, name="qkv")
        stream = w.o.product(ops, attend(qkv, b.attended, None), c=state.stream, out=b.stream, name="o")
        if w.router is not None:
            return Stream(stream)
        inner = w.gate_up.product(ops, stream, gamma=w.norm2, epsilon=self.epsilon, activation=self.activation, gated=True, out=b.inner,
                                  name="gate_up")
        return Stream(w.down.product(ops, inner, c=stream, out=b.stream, name="down"))

    def _dense(self, ops: Any, w: Layer, state: Stream, b: Any, attend: Attend) -> Stream:
        x, stream = self._norm(ops, state, w.norm1, "norm1", b.normed)
        attended = attend(w.qkv.product(ops, x, out=b.qkv, name="qkv"), b.attended, None)
        o = w.o.product(ops, attended, out=b.o, name="o")
        if w.router is not None:
            return Stream(stream, o)
        x, stream = self._norm(ops, Stream(stream, o), w.norm2, "norm2", b.normed)
        inner = w.gate_up.product(ops, x, activation=self.activation, gated=True, out=b.inner, name="gate_up")
        return Stream(stream, w.down.product(ops, inner, out=b.down, name="down"))

    def _experts(self, ops: Any, w: Layer, state: Stream, b: Any, choose: Any) -> Stream:
        """The feed-forward of a layer of experts. Few rows are slots, each of which reads its expert's weights by itself. Else the
        products' rows are those of all experts, and where they end stands in a table."""
        x, stream = self._norm(ops, state, w.norm2, "norm2", b.normed)
        logits = w.router.product(ops, x, out=b.router, name="router")  # type: ignore[union-attr]
        ids, weights = choose(logits, b.ids, b.weights)
        count = logits.shape[1]
        few = takes_slots(ids, count, w.gate_up.nbytes + w.down.nbytes, count)
        if few:
            table, row_of_slot, of_experts = dict(ids=ids), ids, dict(experts=count)
        else:
            ends, row_of_slot, token_of_row = ops.route(ids, count, out=b.tables, name="route")
            table, of_experts = dict(offs=ends), {}
        gate = dict(**table, activation=self.activation, gated=True, out=b.inner_of_experts, name="gate_up")
        if self.name == "row":
            rows, scales = (ops.quantize(x, "row", out=b.quantized, scales=b.scales, name="quantize_x") if few else
                            ops.gather(x, token_of_row, "row", out=b.of_experts, scales=b.scales_of_experts, name="gather"))
            inner = w.gate_up.product(ops, rows, scales, self.dtype, **gate)
            inner, scales = ops.quantize(inner, "row", out=b.inner_of_experts_quantized, scales=b.scales_of_experts, name="quantize")
            y = w.down.product(ops, inner, scales, self.dtype, **table, out=b.down_of_experts, name="down")
        else:
            inner = w.gate_up.product(ops, x if few else ops.gather(x, token_of_row, out=b.of_experts, name="gather"), **gate)
            y = w.down.product(ops, inner, **table, out=b.down_of_experts, name="down")
        return Stream(stream, ops.combine(y, row_of_slot, weights, **of_experts, out=b.down, name="combine"))
