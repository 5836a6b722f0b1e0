# SPDX-License-Identifier: Apache-2.0
"""Chains: sequences of dependent launches that are planned as a whole, with gaps where somebody else launches.

    steps = st.Steps()
    x8, scales, hidden = steps.rms_norm_quantize(x, gamma, "row", residual=residual)
    qkv = steps.scaled_mm(x8, w_qkv.t(), scales, s_qkv.t(), name="qkv")
    steps.gap("attention", writes=[attended], waits=True, triggers=True)
    ...
    chain = st.Chain(steps)
    chain.run(0); attention(qkv, out=attended); chain.run(1)      # eager, or while a CUDA graph is captured

docs/chains.md has the contract: which launch may read and write which memory, and when.
"""
from __future__ import annotations

import ctypes
from typing import Any, Iterable, List, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from .. import _binding as f
from .._arguments import check_one_of, integer, name_of, shown, switch_of
from .._library import ChainOptionsStruct, GapStruct, Handle, RangeStruct, default_device, lib
from .._names import GRANULARITIES, number_of
from ..errors import InvalidArgument, InvalidType, WrongDevice
from ..packed import PackedWeights
from ..packed_experts import PackedExperts
from ._entry import checked
from ._library import SLOTS, activation_number, check_norm_scale, check_out, half_of_columns, scales_shape
from ._moe_ops import check_all_experts, check_experts, gates_in_one_kernel, granularity_of, layer_of_slots, layer_takes_slots, new_routed, rows_for
from .grouped import ENDS, default_of_slots, refuse_scales_of_packed, slots_of_row

__all__ = ["Chain", "Steps"]

_OVERLAPS = ("off", "wait_first", "weights_first", "tuned")  # sluice_overlap
_AS_PLANNED, _GUARDED, _TUNE = 0, 1, 2  # sluice_chain_search
_SILU_GATE = 1
_Out = Optional[Tensor]


class Steps:
    """The steps of a chain, in order. Each method has the arguments of the op of its name. It adds one launch, runs nothing, and
    returns the tensors that the launch will write: those given as ``out``, ``scales`` and ``sum``, or new ones.

    Operands are matrices on one GPU. Their addresses are read once, so a tensor's memory must not move; the steps keep all tensors
    alive. ``name`` is shown by ``Chain.explain`` and in messages. Weights (B, its scales, bias, gamma, packed blobs) are read before
    earlier steps have ended, so no step may write them. Weights of groups are read behind their table, and no step may write them either.
    Errors are those of the op, raised when the step is added.
    """

    def __init__(self) -> None:
        self._handle = Handle(lib.sluice_steps_free)
        lib.sluice_steps_create(ctypes.byref(self._handle._as_parameter_))
        self._tensors: List[Any] = []
        self._device: Optional[int] = None

    def __len__(self) -> int:
        return int(lib.sluice_steps_count(self._handle))

    @checked
    def linear(self, input: Tensor, weight: Tensor, bias: Optional[Tensor] = None, *, c: Optional[Tensor] = None,
               activation: Optional[str] = None, gated: bool = False, out: Optional[Tensor] = None, name: str = "linear") -> Tensor:
        """Adds ``st.linear``: bf16 or fp16, rows x k times the transpose of n x k. Returns ``out``, rows x n (n / 2 if gated)."""
        out = self._out(out, input, _width(weight.shape[0], gated), input.dtype)
        self._add(f.add_product, name, f.INPUT, input, f.WEIGHT, weight, f.OUT, out, f.BIAS, bias, f.C, c, f.BETA, 1.0, f.ACTIVATION,
                  activation_number(activation), f.GATED, gated)
        return out

    @checked
    def scaled_mm(self, mat_a: Tensor, mat_b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Optional[Tensor] = None, *,
                  out_dtype: torch.dtype = torch.bfloat16, use_fast_accum: bool = False, c: Optional[Tensor] = None,
                  activation: Optional[str] = None, gated: bool = False, scale_d: Optional[Tensor] = None,
                  out: Optional[Tensor] = None, name: str = "product") -> Tensor:
        """Adds ``st.scaled_mm``: fp8 matrices and their scales. Returns ``out``, m x n (n / 2 if gated) of ``out_dtype``."""
        out = self._out(out, mat_a, _width(mat_b.shape[1], gated), out_dtype)
        self._add(f.add_product, name, f.MAT_A, mat_a, f.MAT_B, mat_b, f.OUT, out, f.SCALE_A, scale_a, f.SCALE_B, scale_b, f.BIAS, bias,
                  f.C, c, f.BETA, 1.0, f.USE_FAST_ACCUM, use_fast_accum, f.ACTIVATION, activation_number(activation), f.GATED, gated,
                  f.SCALE_D, scale_d)
        return out

    @checked
    def packed_mm(self, x: Tensor, packed: PackedWeights, bias: Optional[Tensor] = None, *, scale_x: Optional[Tensor] = None,
                  c: Optional[Tensor] = None, activation: Optional[str] = None, gated: bool = False, scale_d: Optional[Tensor] = None,
                  gamma: Optional[Tensor] = None, epsilon: float = 1e-5, out: Optional[Tensor] = None,
                  out_dtype: Optional[torch.dtype] = None, name: str = "product") -> Tensor:
        """Adds ``st.packed_mm``: tokens and packed weights. Returns ``out``, rows x n (n / 2 if gated). Raises ``InvalidArgument``
        for weights in act-order, whose columns another launch would have to move."""
        packed.check_gated(gated)
        if packed.permutation is not None:
            raise InvalidArgument("packed has a permutation (act-order), and a chain moves no columns: reorder the rows of the weights "
                                  "in front (QuantizedWeights.reorder_rows), or pack without act-order")
        default = torch.bfloat16 if x.dtype is torch.float8_e4m3fn else x.dtype
        out = self._out(out, x, _width(packed.n, gated), out_dtype or (default if out is None else out.dtype))
        self._add(f.add_product, name, f.X, x, f.PACKED_BLOB, packed.blob, f.OUT, out, *f.weights_fields(packed.numbers), f.SCALE_X, scale_x,
                  f.GAMMA, gamma, f.EPSILON, epsilon, f.BIAS, bias, f.C, c, f.BETA, 1.0, f.ACTIVATION, activation_number(activation),
                  f.GATED, gated, f.SCALE_D, scale_d)
        return out

    @checked
    def rms_norm(self, input: Tensor, gamma: Tensor, *, residual: Optional[Tensor] = None, sum: Optional[Tensor] = None,
                 out: Optional[Tensor] = None, epsilon: float = 1e-5, name: str = "norm") -> Union[Tensor, Tuple[Tensor, Tensor]]:
        """Adds ``st.rms_norm``. Returns ``out``, or ``(out, sum)`` with a residual. ``sum`` may be the input, the residual, or None
        for a new tensor."""
        total = self._sum(input, residual, sum)
        out = self._out(out, input, input.shape[1], input.dtype)
        self._add(f.add_norm, name, f.INPUT, input, f.GAMMA, gamma, f.RESIDUAL, residual, f.SUM, total, f.OUTPUT, out, f.EPSILON, epsilon)
        return out if total is None else (out, total)

    @checked
    def rms_norm_quantize(self, input: Tensor, gamma: Tensor, granularity: str = "row", *, scale: Optional[Tensor] = None,
                          residual: Optional[Tensor] = None, sum: Optional[Tensor] = None, out: Optional[Tensor] = None,
                          scales: Optional[Tensor] = None, epsilon: float = 1e-5, name: str = "norm") -> Tuple[Tensor, ...]:
        """Adds ``st.rms_norm_quantize``. Returns ``(out, scales)``, or ``(out, scales, sum)`` with a residual; ``scales`` is the given
        ``scale`` for "tensor"."""
        check_norm_scale(granularity, scale)
        total = self._sum(input, residual, sum)
        out = self._out(out, input, input.shape[1], torch.float8_e4m3fn)
        scales = scale if scale is not None else self._scales(scales, out, granularity)
        self._add(f.add_norm, name, f.INPUT, input, f.GAMMA, gamma, f.RESIDUAL, residual, f.SUM, total, f.OUTPUT, out, f.SCALES, scales,
                  f.GRANULARITY, number_of("granularity", granularity, GRANULARITIES), f.EPSILON, epsilon)
        return (out, scales) if total is None else (out, scales, total)

    @checked
    def quantize(self, input: Tensor, granularity: str = "row", *, out: Optional[Tensor] = None, scales: Optional[Tensor] = None,
                 name: str = "quantize") -> Tuple[Tensor, Tensor]:
        """Adds ``st.quantize``. Returns ``(out, scales)``. Chains refuse "tensor", whose scale takes two kernels: use
        ``quantize_static``."""
        return self._quantized(input, input.shape[1], granularity, None, out, scales, 0, name)

    @checked
    def quantize_static(self, input: Tensor, scale: Tensor, *, out: Optional[Tensor] = None, name: str = "quantize") -> Tensor:
        """Adds ``st.quantize_static``: ``scale`` is one fp32 value. Returns ``out``."""
        return self._quantized(input, input.shape[1], "tensor", scale, out, None, 0, name)[0]

    @checked
    def silu_mul_quantize(self, input: Tensor, granularity: str = "row", *, scale: Optional[Tensor] = None, out: Optional[Tensor] = None,
                          scales: Optional[Tensor] = None, name: str = "silu_mul") -> Tuple[Tensor, Tensor]:
        """Adds ``st.silu_mul_quantize`` of rows x 2 k; "tensor" with a given ``scale`` too. Returns ``(out, scales)``."""
        return self._quantized(input, half_of_columns(input.shape)[1], granularity, scale, out, scales, _SILU_GATE, name)

    @checked
    def silu_mul(self, input: Tensor, *, out: Optional[Tensor] = None, name: str = "silu_mul") -> Tensor:
        """Adds ``st.silu_mul`` of rows x 2 k. Returns ``out``, rows x k."""
        out = self._out(out, input, half_of_columns(input.shape)[1], input.dtype)
        self._add(f.add_quantizer, name, f.INPUT, input, f.OUTPUT, out, f.GATE, _SILU_GATE)
        return out

    @checked
    def grouped_mm(self, mat_a: Tensor, mat_b: Tensor, *, offs: Tensor, bias: Optional[Tensor] = None, c: Optional[Tensor] = None,
                   activation: Optional[str] = None, gated: bool = False, out: Optional[Tensor] = None, name: str = "product") -> Tensor:
        """Adds ``st.grouped_mm`` of rows x k and groups x k x n. Returns ``out``, rows x n (n / 2 if gated). An earlier step may write
        ``offs``."""
        out = self._out(out, mat_a, _width(mat_b.shape[-1], gated), mat_a.dtype)
        self._add(f.add_product, name, f.MAT_A, mat_a, f.MAT_B, mat_b, f.OUT, out, f.OFFS, offs, f.GROUPS, ENDS, f.BIAS, bias, f.C, c, f.BETA,
                  1.0, f.ACTIVATION, activation_number(activation), f.GATED, gated)
        return out

    @checked
    def scaled_grouped_mm(self, mat_a: Tensor, mat_b: Tensor, scale_a: Tensor, scale_b: Tensor, offs: Tensor, bias: Optional[Tensor] = None,
                          *, out_dtype: torch.dtype = torch.bfloat16, use_fast_accum: bool = False, c: Optional[Tensor] = None,
                          activation: Optional[str] = None, gated: bool = False, scale_d: Optional[Tensor] = None,
                          row_factors: Optional[Tensor] = None, out: Optional[Tensor] = None, name: str = "product") -> Tensor:
        """Adds ``st.scaled_grouped_mm``: fp8 rows, a matrix of each group, and their scales. Returns ``out``, rows x n (n / 2 if gated) of
        ``out_dtype``. An earlier step may write ``offs``."""
        out = self._out(out, mat_a, _width(mat_b.shape[-1], gated), out_dtype)
        self._add(f.add_product, name, f.MAT_A, mat_a, f.MAT_B, mat_b, f.OUT, out, f.OFFS, offs, f.GROUPS, ENDS, f.SCALE_A, scale_a, f.SCALE_B,
                  scale_b, f.ROW_FACTORS, row_factors, f.BIAS, bias, f.C, c, f.BETA, 1.0, f.USE_FAST_ACCUM, use_fast_accum, f.ACTIVATION,
                  activation_number(activation), f.GATED, gated, f.SCALE_D, scale_d)
        return out

    @checked
    def scaled_grouped_mm_quantize(self, mat_a: Tensor, mat_b: Tensor, scale_a: Tensor, scale_b: Tensor, offs: Tensor,
                                   bias: Optional[Tensor] = None, *, activation: Optional[str] = None, gated: bool = False,
                                   out: Optional[Tensor] = None, scales: Optional[Tensor] = None,
                                   name: str = "product") -> Tuple[Tensor, Tensor]:
        """Adds ``st.scaled_grouped_mm_quantize``. Returns ``(out, scales)``: float8_e4m3fn, and fp32 by 1x128."""
        out = self._out(out, mat_a, _width(mat_b.shape[-1], gated), torch.float8_e4m3fn)
        scales = self._scales(scales, out, "1x128")
        self._add(f.add_product, name, f.MAT_A, mat_a, f.MAT_B, mat_b, f.OUT, out, f.SCALE_OUT, scales, f.OFFS, offs, f.GROUPS, ENDS, f.SCALE_A,
                  scale_a, f.SCALE_B, scale_b, f.BIAS, bias, f.ACTIVATION, activation_number(activation), f.GATED, gated)
        return out, scales

    @checked
    def slots_mm(self, mat_a: Tensor, mat_b: Union[Tensor, PackedExperts], ids: Tensor, *, scale_a: Optional[Tensor] = None,
                 scale_b: Optional[Tensor] = None, bias: Optional[Tensor] = None, activation: Optional[str] = None, gated: bool = False,
                 use_fast_accum: bool = False, out: Optional[Tensor] = None, out_dtype: Optional[torch.dtype] = None,
                 name: str = "product") -> Tensor:
        """Adds ``st.slots_mm``. Returns ``out``, slots x n (n / 2 if gated). ``ids`` has no gaps, and an earlier step may write it."""
        if not ids.is_contiguous():
            raise InvalidArgument(f"ids has shape {tuple(ids.shape)} and strides {ids.stride()}: it must be contiguous, because later "
                                  "launches read its memory; pass ids.contiguous()")
        if out is None:
            out_dtype = out_dtype or default_of_slots(mat_a)
        table, pitch = ids.view(-1), slots_of_row(mat_a, ids)
        extras = (f.OFFS, table, f.GROUPS, SLOTS, f.GROUP_PITCH, pitch, f.BIAS, bias, f.ACTIVATION, activation_number(activation), f.GATED,
                  gated)
        if isinstance(mat_b, PackedExperts):
            mat_b.check_gated(gated)
            refuse_scales_of_packed(scale_a, scale_b)
            out = self._out(out, table, _width(mat_b.n, gated), out_dtype)
            self._add(f.add_product, name, f.X, mat_a, f.PACKED_BLOB, mat_b.blob, f.OUT, out, *f.weights_fields(mat_b.numbers), *extras)
            return out
        out = self._out(out, table, _width(mat_b.shape[-1], gated), out_dtype)
        self._add(f.add_product, name, f.MAT_A, mat_a, f.MAT_B, mat_b, f.OUT, out, f.SCALE_A, scale_a, f.SCALE_B, scale_b,
                  f.USE_FAST_ACCUM, use_fast_accum, *extras)
        return out

    @checked
    def packed_grouped_mm(self, x: Tensor, packed: PackedExperts, offs: Tensor, bias: Optional[Tensor] = None, *,
                          activation: Optional[str] = None, gated: bool = False, out: Optional[Tensor] = None,
                          out_dtype: Optional[torch.dtype] = None, name: str = "product") -> Tensor:
        """Adds ``st.packed_grouped_mm``. Returns ``out``, rows x n (n / 2 if gated). An earlier step may write ``offs``."""
        packed.check_gated(gated)
        out = self._out(out, x, _width(packed.n, gated), out_dtype or (x.dtype if out is None else out.dtype))
        self._add(f.add_product, name, f.X, x, f.PACKED_BLOB, packed.blob, f.OUT, out, *f.weights_fields(packed.numbers), f.OFFS, offs,
                  f.GROUPS, ENDS, f.BIAS, bias, f.ACTIVATION, activation_number(activation), f.GATED, gated)
        return out

    @checked
    def route(self, topk_ids: Tensor, experts: int, *, pitch: int = 1, rows: Optional[int] = None,
              out: Optional[Tuple[Tensor, Tensor, Tensor]] = None, name: str = "route") -> Tuple[Tensor, Tensor, Tensor]:
        """Adds ``st.moe.route``. Returns ``(ends, row_of_slot, token_of_row)``: ``out``, or new tensors."""
        rows = rows_for(topk_ids.numel(), experts, pitch) if rows is None else rows
        ends, row_of_slot, token_of_row = new_routed(topk_ids, experts, pitch, rows) if out is None else out
        self._add(f.add_route, name, f.TOPK_IDS, topk_ids, f.ENDS, ends, f.ROW_OF_SLOT, row_of_slot, f.TOKEN_OF_ROW, token_of_row, f.PITCH,
                  pitch)
        return ends, row_of_slot, token_of_row

    @checked
    def gather(self, x: Tensor, token_of_row: Tensor, granularity: Optional[str] = None, *, scale: Optional[Tensor] = None,
               out: Optional[Tensor] = None, scales: Optional[Tensor] = None, name: str = "gather") -> Union[Tensor, Tuple[Tensor, Tensor]]:
        """Adds ``st.moe.gather``. Returns ``out``, or ``(out, scales)`` with a granularity. Chains refuse "tensor" without a scale."""
        codes = granularity is not None or scale is not None
        if out is None:
            out = x.new_empty((token_of_row.shape[0], x.shape[1]), dtype=torch.float8_e4m3fn if codes else x.dtype)
        if not codes:
            self._add(f.add_gather, name, f.INPUT, x, f.TOKEN_OF_ROW, token_of_row, f.OUTPUT, out)
            return out
        granularity = "tensor" if granularity is None else granularity
        scales = scale if scale is not None else self._scales(scales, out, granularity)
        self._add(f.add_gather, name, f.INPUT, x, f.TOKEN_OF_ROW, token_of_row, f.OUTPUT, out, f.SCALES, scales, f.GRANULARITY,
                  number_of("granularity", granularity, GRANULARITIES), f.SCALE_GIVEN, scale is not None)
        return out, scales

    @checked
    def combine(self, y: Tensor, row_of_slot: Tensor, topk_weights: Optional[Tensor] = None, shared: Optional[Tensor] = None, *,
                experts: Optional[int] = None, out: Optional[Tensor] = None, name: str = "combine") -> Tensor:
        """Adds ``st.moe.combine``. Returns ``out``, which may be ``shared``."""
        check_experts(experts)
        out = self._out(out, row_of_slot, y.shape[1], y.dtype)
        self._add(f.add_combine, name, f.Y, y, f.ROW_OF_SLOT, row_of_slot, f.TOPK_WEIGHTS, topk_weights, f.SHARED, shared, f.OUT, out,
                  f.EXPERTS, experts or 0)
        return out

    @checked
    def experts(self, x: Tensor, topk_ids: Tensor, topk_weights: Optional[Tensor], w13: Tensor, w2: Tensor, *,
                scale_w13: Optional[Tensor] = None, scale_w2: Optional[Tensor] = None, bias_13: Optional[Tensor] = None,
                bias_2: Optional[Tensor] = None, shared: Optional[Tensor] = None, batch_invariant: bool = False,
                all_experts: Optional[int] = None, out: Optional[Tensor] = None, name: str = "experts") -> Tensor:
        """Adds the steps of ``st.moe.experts`` with silu: NAME.route, .gather, .gate_up, .quantize, .down and .combine, or for few tokens
        with contiguous ids of int32 NAME.quantize_x, .gate_up, .quantize, .down and .combine. Returns ``out``, tokens x h, which may be
        ``shared``. ``x``: tokens x h; ``topk_weights``: fp32. An earlier step may write both and the ids; none may write the weights of
        experts. These are not packed."""
        def named(part: str) -> str:
            return f"{name}.{part}"

        if isinstance(w13, PackedExperts) or isinstance(w2, PackedExperts):
            raise InvalidType("w13 and w2 are packed: add route, gather, packed_grouped_mm and combine by themselves")
        if topk_weights is not None and topk_weights.dtype != torch.float32:
            raise InvalidType(f"topk_weights is {topk_weights.dtype} and must be float32; convert it")
        granularity, everyone = granularity_of(w13, scale_w13, scale_w2), check_all_experts(all_experts, len(w13))
        up, down = w13.transpose(-2, -1), w2.transpose(-2, -1)
        if layer_takes_slots(x, topk_ids, w13, w2, granularity, batch_invariant, everyone):
            return layer_of_slots(self.quantize, self.slots_mm, self.combine, x, topk_ids, topk_weights, (w13, w2), (scale_w13, scale_w2),
                                  (bias_13, bias_2), shared, granularity, "silu", False, lambda part: {"name": named(part)}, out=out)
        ends, row_of_slot, token_of_row = self.route(topk_ids, w13.shape[0], name=named("route"))
        if granularity is None:
            rows = self.gather(x, token_of_row, name=named("gather"))
            hidden = self.grouped_mm(rows, up, offs=ends, bias=bias_13, activation="silu", gated=True, name=named("gate_up"))
            y = self.grouped_mm(hidden, down, offs=ends, bias=bias_2, name=named("down"))
            return self.combine(y, row_of_slot, topk_weights, shared, out=out, name=named("combine"))
        codes, scales = self.gather(x, token_of_row, granularity, name=named("gather"))
        if gates_in_one_kernel(topk_ids, up, granularity, "silu", batch_invariant, everyone):
            codes, scales = self.scaled_grouped_mm_quantize(codes, up, scales, scale_w13, ends, bias_13,  # type: ignore[arg-type]
                                                            activation="silu", gated=True, name=named("gate_up"))
        else:
            by_row = granularity == "row"
            hidden = self.scaled_grouped_mm(codes, up, scales, scale_w13, ends, bias_13, out_dtype=x.dtype,  # type: ignore[arg-type]
                                            gated=by_row, activation="silu" if by_row else None, name=named("gate_up"))
            quantize = self.quantize if by_row else self.silu_mul_quantize
            codes, scales = quantize(hidden, granularity, name=named("quantize"))
        y = self.scaled_grouped_mm(codes, down, scales, scale_w2, ends, bias_2, out_dtype=x.dtype, name=named("down"))  # type: ignore[arg-type]
        return self.combine(y, row_of_slot, topk_weights, shared, out=out, name=named("combine"))

    @checked
    def gap(self, name: str = "gap", *, writes: Optional[Iterable[Tensor]] = None, waits: bool = False, triggers: bool = False,
            nodes: int = 1, programmatic_edges: int = 0, stand_in_us: float = 5.0) -> None:
        """Adds a gap: between ``chain.run(i)`` and ``chain.run(i + 1)`` the caller launches ``nodes`` kernels into the same stream.

        - ``writes``: the tensors that these launches write. None: unknown; then the next step must not begin early.
        - ``waits``: the first of them is a kernel under programmatic dependent launch. Each of its CTAs executes griddepcontrol.wait
          before it reads what an earlier launch writes, before it writes, and before it exits.
        - ``triggers``: the last of them is a kernel whose CTAs all execute griddepcontrol.launch_dependents, best at their start.
        - ``programmatic_edges``: the number of programmatic edges between the ``nodes`` launches.
        - ``stand_in_us``: microseconds that the launches take, about; ``Chain.tune`` puts an idle kernel of that time here.
        """
        written = () if writes is None else tuple(writes)
        ranges = None if writes is None else [_range_of(tensor) for tensor in written]
        self._tensors.extend(written)
        name_of("name", name)
        array = (RangeStruct * max(len(ranges or ()), 1))(*(ranges or ()))
        gap = GapStruct(nodes=integer("nodes", nodes), programmatic_edges=integer("programmatic_edges", programmatic_edges),
                        waits=switch_of("waits", waits), triggers=switch_of("triggers", triggers),
                        write_count=-1 if ranges is None else len(ranges), writes=array, stand_in_us=stand_in_us)
        lib.sluice_steps_add_gap(self._handle, ctypes.byref(gap))
        self._name(name)

    def _quantized(self, input: Tensor, columns: int, granularity: str, scale: _Out, out: _Out, scales: _Out, gate: int,
                   name: str) -> Tuple[Tensor, Tensor]:
        out = self._out(out, input, columns, torch.float8_e4m3fn)
        scales = scale if scale is not None else self._scales(scales, out, granularity)
        self._add(f.add_quantizer, name, f.INPUT, input, f.OUTPUT, out, f.SCALES, scales, f.GRANULARITY,
                  number_of("granularity", granularity, GRANULARITIES), f.SCALE_GIVEN, scale is not None, f.GATE, gate)
        return out, scales

    def _out(self, out: _Out, like: Tensor, columns: int, dtype: torch.dtype) -> Tensor:
        if out is None:
            return like.new_empty((like.shape[0], columns), dtype=dtype)
        check_out(out, dtype)
        return out

    def _sum(self, input: Tensor, residual: _Out, total: _Out) -> _Out:
        if residual is None and total is None:
            return None
        return torch.empty_like(input) if total is None else total

    def _scales(self, scales: _Out, out: Tensor, granularity: str) -> Tensor:
        return out.new_empty(scales_shape(out.shape, granularity), dtype=torch.float32) if scales is None else scales

    def _add(self, add: Any, name: str, *pairs: Any) -> None:
        tensors = [value for value in pairs if isinstance(value, Tensor)]
        for tensor in tensors:
            if tensor.requires_grad and torch.is_grad_enabled():
                raise InvalidArgument("an operand wants a gradient, and a chain has no backward: build it under torch.no_grad(), or pass "
                                      "tensor.detach()")
        name_of("name", name)
        self._tensors.extend(tensors)  # before their addresses are recorded
        add(f.STEPS, self._handle._as_parameter_.value, *pairs)
        self._name(name)
        if self._device is None and tensors:
            self._device = tensors[0].device.index

    def _name(self, name: str) -> None:
        lib.sluice_steps_name(self._handle, name_of("name", name))


class Chain:
    """Planned, compiled and loaded steps, to be enqueued part by part.

    - ``overlap``: "off": each launch begins when the one before has ended. "wait_first": it begins earlier, and waits before its
      first load. "weights_first": it loads weights, then waits. "tuned": the step's tuning record between its neighbours decides;
      without one it is "weights_first".

    ``Chain.guarded`` times about 20 variants first, ``Chain.tune`` searches for some seconds. The steps' memory must stay allocated as
    long as the chain and graphs of it exist; the chain keeps the tensors alive. Keep the chain until its launches have ended and graphs of
    it are gone: they use its workspace and kernels. One stream or one graph at a time may use it.
    """

    @checked
    def __init__(self, steps: Steps, overlap: str = "tuned") -> None:
        self._make(steps, overlap, _AS_PLANNED, 0.0, False)

    @classmethod
    @checked
    def guarded(cls, steps: Steps, overlap: str = "tuned") -> "Chain":
        """Makes the chain, and keeps the overlap off unless another variant is measured at least 1 % faster. It takes some tenths of
        a second and its compilations. What the steps write is undefined afterwards. Pass as many layers as L2 cannot hold."""
        made = cls.__new__(cls)
        made._make(steps, overlap, _GUARDED, 0.0, False)
        return made

    @classmethod
    @checked
    def tune(cls, steps: Steps, seconds: float = 3.0, *, overlap: str = "tuned", keep: bool = True) -> "Chain":
        """Searches kernels and overlaps for ``seconds`` (changes of all steps together come first, without a limit), and returns the
        fastest chain. ``keep``: its choices are stored among the user's records (SLUICE_RECORDS_DIR), where later chains find them.
        What the steps write is undefined afterwards. Raises ``InvalidArgument`` for weights of less than three times L2."""
        made = cls.__new__(cls)
        made._make(steps, overlap, _TUNE, float(seconds), keep)
        return made

    def _make(self, steps: Steps, overlap: str, search: int, seconds: float, keep: bool) -> None:
        if not isinstance(steps, Steps):
            raise InvalidType(f"steps = {shown(steps)} must be sluice.torch.Steps, and is of type {type(steps).__name__}")
        check_one_of("overlap", overlap, _OVERLAPS)
        if len(steps) == 0 or steps._device is None:
            raise InvalidArgument("steps is empty: add steps first, such as steps.linear(x, weight)")
        self._handle = Handle(lib.sluice_chain_free)
        self._tensors = list(steps._tensors)
        self.device = torch.device("cuda", steps._device)
        if search != _AS_PLANNED:
            torch.cuda.synchronize(self.device)  # the tuner runs in a stream of its own, on what other streams may still write
        options = ChainOptionsStruct(overlap=_OVERLAPS.index(overlap), search=search, seconds=seconds, keep=switch_of("keep", keep))
        lib.sluice_chain_create(default_device(steps._device), steps._handle, ctypes.byref(options),
                                ctypes.byref(self._handle._as_parameter_))
        self._address = self._handle._as_parameter_.value
        self._on_device = torch.empty(1, device=self.device)  # in calls without another tensor, tvm-ffi does not ask torch for its stream
        self.parts: int = lib.sluice_chain_parts(self._handle)
        """Gaps + 1."""
        self.kernels: int = lib.sluice_chain_kernels(self._handle)
        """Launches per pass, those of gaps included."""
        self.programmatic_edges: int = lib.sluice_chain_programmatic_edges(self._handle)
        """Launches that may begin before the one in front has ended."""

    def run(self, part: int = 0) -> None:
        """Enqueues the steps in front of gap ``part``, back to the gap before it, on the current stream; the last part is what
        follows the last gap. It allocates nothing and does not synchronise; the stream may be capturing. Enqueue parts in order, the
        gaps' launches between them, and nothing else between. Raises ``InvalidArgument`` for a part that the chain has not."""
        f.chain_run(f.CHAIN, self._address, f.PART, part, f.A, self._on_device)

    def explain(self) -> str:
        """Returns the plan as text: two lines per step (kernel, overlap, bytes, estimate), then the totals."""
        return lib.sluice_chain_text(self._handle).decode()  # type: ignore[no-any-return]

    @checked
    def check(self, graph: Any) -> None:
        """Checks that a captured graph holds the chain's launches in order, with the gaps' launches between them, and that each
        launch that may begin early has its programmatic edge. ``graph``: a ``torch.cuda.CUDAGraph(keep_graph=True)`` after its
        capture, or the number of a cudaGraph_t. Raises ``InternalError``, which names the first step that differs."""
        if isinstance(graph, torch.cuda.CUDAGraph):
            graph = graph.raw_cuda_graph()
        lib.sluice_chain_check(self._handle, ctypes.c_void_p(integer("graph", graph)))


def _width(columns: int, gated: bool) -> int:
    return columns // 2 if gated else columns


def _range_of(tensor: Tensor) -> RangeStruct:
    """Returns the memory from a tensor's first element to its last."""
    if not isinstance(tensor, Tensor):
        raise InvalidType(f"writes holds {shown(tensor)} and must hold tensors")
    if not tensor.is_cuda:
        raise WrongDevice(f"writes holds a tensor on {tensor.device}, and a chain runs on a GPU")
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride())) if tensor.numel() else -1
    return RangeStruct(data=tensor.data_ptr(), bytes=(last + 1) * tensor.element_size())
