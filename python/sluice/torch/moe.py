# SPDX-License-Identifier: Apache-2.0
"""The steps of a mixture of experts around its products of groups: sort tokens by expert, gather their rows, add up the results.

    ends, row_of_slot, token_of_row = st.moe.route(topk_ids, experts)
    x8, scales = st.moe.gather(x, token_of_row, "1x128")
    ...                                             # the products of the experts, whose groups end at ``ends``
    out = st.moe.combine(y, row_of_slot, topk_weights, shared)

    out = st.moe.experts(x, topk_ids, topk_weights, w13, w2)            # all of it

A slot is one chosen expert of one token. A row is a row of the products. Each function is one kernel, may be captured in a CUDA
graph that is replayed with other ids, and works under torch.compile. docs/experts.md has the layouts.
"""
from __future__ import annotations

from typing import Optional, Tuple, Union

import torch
from torch import Tensor

from .._arguments import shown
from ..errors import InvalidArgument, InvalidSize
from ..packed_experts import PackedExperts
from ..plans import Workspace
from ._entry import op
from ._moe_ops import (COMBINE, GATHER, GATHER_QUANTIZE, ROUTE, check_all_experts, check_experts, check_granularity, check_ids, gates_in_one_kernel,
                       granularity_of, layer_of_slots, layer_takes_slots, rows_are_aligned, rows_for, takes_slots)
from .autograd import needs_grad, refuse_grad
from .grouped import grouped_mm, packed_grouped_mm, scaled_grouped_mm, scaled_grouped_mm_quantize, slots_mm
from .quantize import quantize, silu_mul_quantize

__all__ = ["combine", "experts", "gather", "route"]


@op(ids="topk_ids", chosen="topk_ids.shape[-1]")
def route(topk_ids: Tensor, experts: int, *, pitch: int = 1, rows: Optional[int] = None) -> Tuple[Tensor, Tensor, Tensor]:
    """Sorts slots by expert, stably. Returns ``(ends, row_of_slot, token_of_row)``, all int32.

    - ``topk_ids``: ``(..., k)`` of int32 or int64, the experts of each token; k is at most 32. An id outside ``[0, experts)``, such
      as -1, costs nothing: its slot gets no row.
    - ``experts``: how many there are, up to 1,024. ``pitch``: each expert's first row is a multiple of it.
    - ``rows``: how many rows the products have room for; by default so many that all slots fit. Slots that do not fit get no row.
    - ``ends``: ``(experts,)``, one past the last row of each expert. ``row_of_slot``: of the shape of ``topk_ids``; -1: no row.
      ``token_of_row``: ``(rows,)``; -1: no token.

    Raises ``InvalidSize`` for sizes beyond these limits, and ``InvalidType`` for ids of another type.
    """
    check_ids(topk_ids)
    if rows is None:
        if not 1 <= experts <= 1024 or not 1 <= pitch <= 65536:  # else no tensor could be made for the kernel to refuse
            raise InvalidSize(f"experts = {experts} must be in 1..1024, and pitch = {pitch} in 1..65536")
        rows = rows_for(topk_ids.numel(), experts, pitch)
    if experts < 1 or rows < 0:
        raise InvalidSize(f"experts = {experts} must be in 1..1024, and rows = {rows} must not be negative")
    return ROUTE(topk_ids, experts, pitch, rows)  # type: ignore[no-any-return]


@op(input="x", output="out")
def gather(x: Tensor, token_of_row: Tensor, granularity: Optional[str] = None, *,
           scale: Optional[Tensor] = None) -> Union[Tensor, Tuple[Tensor, Tensor]]:
    """Returns the rows ``x[token_of_row]``, in one kernel; a row whose number is -1, or otherwise outside of x, is zeros.

    - ``x``: ``(..., k)``, bf16 or fp16. Its leading dimensions are the tokens. ``token_of_row``: ``(rows,)`` of int32.
    - ``granularity`` None: ``(rows, k)`` of x's type, bit by bit. Else ``(out, scales)``: ``out`` is float8_e4m3fn, quantised as
      ``st.quantize`` does, by "1x128", "row", or "tensor" (with a given ``scale``, which is returned unchanged, or without). x may
      then be fp32. Rows of zeros have scales of 1, but for "tensor".

    There is no backward: an x that requires a gradient raises ``InvalidArgument``.
    """
    if needs_grad(x, scale, None, None):
        refuse_grad("gather")
    if granularity is None and scale is None:
        return GATHER(x, token_of_row)  # type: ignore[no-any-return]
    granularity = "tensor" if granularity is None else granularity
    check_granularity(granularity)
    out, scales = GATHER_QUANTIZE(x, token_of_row, granularity, scale)
    return out, scales if scale is None else scale


@op(weights="topk_weights")
def combine(y: Tensor, row_of_slot: Tensor, topk_weights: Optional[Tensor] = None, shared: Optional[Tensor] = None, *,
            experts: Optional[int] = None) -> Tensor:
    """Returns ``shared[t] + sum over j of topk_weights[t, j] * y[row_of_slot[t, j]]``. Sums are fp32, in the order of j, and
    rounded once. So a token's bits depend on its own rows alone.

    - ``y``: ``(rows, n)``, bf16 or fp16. ``row_of_slot``: ``(..., k)`` of int32, as ``route`` gives it; a slot without a row adds
      nothing, and neither its weight nor a row is read.
    - ``experts``: how many there are, behind ``slots_mm``. Then ``row_of_slot`` holds its ids, and the row of slot s is s.
    - ``topk_weights``: ``(..., k)`` of fp32; None: all are 1, for rows that are weighted already. ``shared``: ``(..., n)`` of y's type.

    There is no backward: an argument that requires a gradient raises ``InvalidArgument``.
    """
    if needs_grad(y, topk_weights, shared, None):
        refuse_grad("combine")
    check_experts(experts)
    return COMBINE(y, row_of_slot, topk_weights, shared, experts or 0)  # type: ignore[no-any-return]


def _hidden(codes: Tensor, scales: Tensor, up: Tensor, scale_up: Tensor, ends: Tensor, bias: Optional[Tensor], dtype: torch.dtype,
            activation: str, use_fast_accum: bool, in_one: bool, workspace: Optional[Workspace]) -> Tuple[Tensor, Tensor]:
    """Returns ``act(gate) * up``, quantised as the tokens are: by one kernel if ``in_one``. Else it is two by row, and by block with silu;
    with other activations the gate is torch's."""
    if in_one:
        return scaled_grouped_mm_quantize(codes, up, scales, scale_up, ends, bias=bias, gated=True,  # type: ignore[no-any-return]
                                          activation=activation, workspace=workspace)
    by_row = scale_up.dim() == 2
    hidden = scaled_grouped_mm(codes, up, scales, scale_up, ends, bias, out_dtype=dtype, use_fast_accum=use_fast_accum, gated=by_row,
                               activation=activation if by_row else None, workspace=workspace)
    if not by_row and activation == "silu":
        return silu_mul_quantize(hidden, "1x128")  # type: ignore[no-any-return]
    return quantize(hidden, "row") if by_row else quantize(_gated(hidden, activation), "1x128")  # type: ignore[no-any-return]


@op(mat_b="w13")
def experts(x: Tensor, topk_ids: Tensor, topk_weights: Optional[Tensor], w13: Union[Tensor, PackedExperts],
            w2: Union[Tensor, PackedExperts], *, scale_w13: Optional[Tensor] = None, scale_w2: Optional[Tensor] = None,
            bias_13: Optional[Tensor] = None, bias_2: Optional[Tensor] = None, shared: Optional[Tensor] = None, activation: str = "silu",
            use_fast_accum: bool = False, batch_invariant: bool = False, all_experts: Optional[int] = None,
            workspace: Optional[Workspace] = None) -> Tensor:
    """Returns ``shared[t] + sum over j of topk_weights[t, j] * w2[e] (act(gate) * up)``, where gate and up are the halves of
    ``w13[e] x[t]`` and ``e = topk_ids[t, j]``: a whole layer of experts.

    - ``x``: ``(..., h)``, bf16 or fp16; its leading dimensions are the tokens. ``topk_ids``, ``topk_weights``: as for ``route`` and
      ``combine``. ``shared``: ``(..., h)`` of x's type.
    - ``w13``: ``(experts, 2 * i, h)``, the rows of gate, then those of up. ``w2``: ``(experts, h, i)``. Of x's type, or
      float8_e4m3fn with scales in fp32. Or both are ``PackedExperts``, w13 packed with ``gated=True``: 4 or 8 bits, for few tokens.
    - ``scale_w13``, ``scale_w2``: ``(experts, 2 * i)`` and ``(experts, h)``: one for each row, and tokens are quantised by row. Or
      ``(experts, ceil(2 * i / 128), ceil(h / 128))`` and ``(experts, ceil(h / 128), ceil(i / 128))``: one for each block, and
      tokens are quantised by 1x128.
    - ``bias_13``, ``bias_2``: ``(experts, 2 * i)`` and ``(experts, h)``.
    - ``activation``: "silu", "gelu", "relu", or "clamped_swiglu", that of gpt-oss: ``act(gate) * up`` is
      ``g * sigmoid(1.702 * g) * (u + 1)``, where g is gate, at most 7, and u is up in -7..7. With block scales it costs two kernels of
      torch unless 2 * i is a multiple of 256 or it is "silu"; with packed weights "clamped_swiglu" does.

    - ``batch_invariant``: True: a token's bits do not depend on the number of tokens. False: few tokens take other kernels. Up to 16,
      whose experts seldom repeat, are not sorted (``slots_mm``) if ``topk_ids`` is contiguous and int32. With block scales and silu,
      tokens whose tiles of gates would fill less than half of the GPU take another kernel. It rounds gate and up to x's type before it
      multiplies them. Packed weights cannot promise it.
    - ``all_experts``: for weights of one of several ranks, where ids of other ranks' experts are -1: how many experts the router chooses
      from. The layer then expects as many slots as this rank gets in the mean, and picks faster kernels for few tokens. Results stay
      right whatever the ids are.

    In 16 bits it is differentiable in x, the topk_weights, both weights and ``shared``. Gathering, gates and adding are then torch's, so
    bits differ from those without a gradient. A token's bits never depend on other tokens' values or experts.
    """
    if activation not in _GATES:
        raise InvalidArgument(f"activation = {shown(activation)} must be one of {', '.join(_GATES)}")
    tokens = x.reshape(-1, x.shape[-1])
    ids = topk_ids.reshape(tokens.shape[0], topk_ids.shape[-1])
    weights = None if topk_weights is None else topk_weights.reshape(ids.shape).float()
    more = None if shared is None else shared.reshape(tokens.shape)
    everyone = check_all_experts(all_experts, len(w13))
    if isinstance(w13, PackedExperts) or isinstance(w2, PackedExperts):
        if needs_grad(x, topk_weights, shared, None):
            refuse_grad("experts of packed weights")
        if scale_w13 is not None or scale_w2 is not None or type(w13) is not type(w2):
            raise InvalidArgument("w13 or w2 is packed: both are, and they contain their scales; leave scale_w13 and scale_w2 out")
        if batch_invariant:
            raise InvalidArgument("batch_invariant = True and the experts are packed: their kernels divide k by the number of tokens; "
                                  "leave it out, or take 16 bits or fp8")
        if (activation != "clamped_swiglu" and rows_are_aligned(tokens)
                and takes_slots(ids, len(w13), w13.nbytes + w2.nbytes, everyone)):  # type: ignore[union-attr]
            return layer_of_slots(quantize, slots_mm, combine, tokens, ids, weights, (w13, w2), (None, None), (bias_13, bias_2), more, None,
                                  activation, False).view(x.shape)
        ends, row_of_slot, token_of_row = route(ids, len(w13))
        y = _packed(gather(tokens, token_of_row), w13, w2, ends, (bias_13, bias_2), activation)  # type: ignore[arg-type]
    elif (granularity := granularity_of(w13, scale_w13, scale_w2)) is None:
        wants = needs_grad(tokens, w13, weights, shared) or needs_grad(w2, None, bias_13, bias_2)
        if wants and batch_invariant:
            raise InvalidArgument("batch_invariant = True and an argument requires a gradient: gates are torch's then, and round once "
                                  "more than without one; leave it out, or call under torch.no_grad()")
        if not wants and layer_takes_slots(tokens, ids, w13, w2, None, batch_invariant, everyone):
            return layer_of_slots(quantize, slots_mm, combine, tokens, ids, weights, (w13, w2), (None, None), (bias_13, bias_2), more, None,
                                  activation, use_fast_accum).view(x.shape)
        tables = route(ids, w13.shape[0])
        if wants:
            return _differentiable(tokens, weights, w13, w2, tables, (bias_13, bias_2), more, activation, workspace).view(x.shape)
        ends, row_of_slot, token_of_row = tables
        hidden = grouped_mm(gather(tokens, token_of_row), w13.transpose(-2, -1), offs=ends, bias=bias_13, gated=True,
                            activation=activation, workspace=workspace)
        y = grouped_mm(hidden, w2.transpose(-2, -1), offs=ends, bias=bias_2, workspace=workspace)
    else:
        if needs_grad(x, topk_weights, shared, None):
            refuse_grad("experts of fp8 weights")
        if layer_takes_slots(tokens, ids, w13, w2, granularity, batch_invariant, everyone):
            return layer_of_slots(quantize, slots_mm, combine, tokens, ids, weights, (w13, w2), (scale_w13, scale_w2), (bias_13, bias_2), more,
                                  granularity, activation, use_fast_accum).view(x.shape)
        ends, row_of_slot, token_of_row = route(ids, w13.shape[0])
        codes, scales = gather(tokens, token_of_row, granularity)
        up = w13.transpose(-2, -1)
        in_one = gates_in_one_kernel(ids, up, granularity, activation, batch_invariant, everyone)
        codes, scales = _hidden(codes, scales, up, scale_w13, ends, bias_13, x.dtype, activation,  # type: ignore[arg-type]
                                use_fast_accum, in_one, workspace)
        y = scaled_grouped_mm(codes, w2.transpose(-2, -1), scales, scale_w2, ends, bias_2, out_dtype=x.dtype,  # type: ignore[arg-type]
                              use_fast_accum=use_fast_accum, workspace=workspace)
    return combine(y, row_of_slot, weights, more).view(x.shape)


def _clamped_swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """Returns gpt-oss's gate, as transformers computes it."""
    gate, up = gate.clamp(max=7.0), up.clamp(-7.0, 7.0)
    return (up + 1) * (gate * torch.sigmoid(gate * 1.702))


_GATES = {"silu": lambda gate, up: torch.nn.functional.silu(gate) * up, "gelu": lambda gate, up: torch.nn.functional.gelu(gate) * up,
          "relu": lambda gate, up: torch.relu(gate) * up, "clamped_swiglu": _clamped_swiglu}


def _gated(gate_up: Tensor, activation: str) -> Tensor:
    """Returns what a gated product does with its sums, by torch's differentiable operations."""
    gate, up = gate_up.chunk(2, -1)
    return _GATES[activation](gate, up)


def _packed(rows: Tensor, w13: PackedExperts, w2: PackedExperts, ends: Tensor, biases: Tuple[Optional[Tensor], Optional[Tensor]],
            activation: str) -> Tensor:
    """Returns the rows of w2. Kernels of packed weights do not have gpt-oss's gate, so it is torch's."""
    if activation == "clamped_swiglu":
        hidden = _gated(packed_grouped_mm(rows, w13, ends, biases[0]), activation)
    else:
        hidden = packed_grouped_mm(rows, w13, ends, biases[0], gated=True, activation=activation)
    return packed_grouped_mm(hidden, w2, ends, biases[1])  # type: ignore[no-any-return]


def _differentiable(tokens: Tensor, weights: Optional[Tensor], w13: Tensor, w2: Tensor, tables: Tuple[Tensor, Tensor, Tensor],
                    biases: Tuple[Optional[Tensor], Optional[Tensor]], shared: Optional[Tensor], activation: str,
                    workspace: Optional[Workspace]) -> Tensor:
    """Returns the layer in 16 bits, with torch's operations around the products."""
    ends, row_of_slot, token_of_row = tables
    gate_up = grouped_mm(rows_of(tokens, token_of_row), w13.transpose(-2, -1), offs=ends, bias=biases[0], zero_rest=True, workspace=workspace)
    y = grouped_mm(_gated(gate_up, activation), w2.transpose(-2, -1), offs=ends, bias=biases[1], zero_rest=True, workspace=workspace)
    total = sum_of_slots(y, row_of_slot, weights)
    return (total if shared is None else total + shared.float()).to(tokens.dtype)


def rows_of(tokens: Tensor, token_of_row: Tensor) -> Tensor:
    """Returns what ``gather`` does, by torch's differentiable operations. Rows of no token are zeros, so that no gradient of theirs is
    NaN."""
    return torch.where((token_of_row >= 0).unsqueeze(-1), tokens[token_of_row.clamp(min=0).long()], tokens.new_zeros(()))


def sum_of_slots(y: Tensor, row_of_slot: Tensor, weights: Optional[Tensor]) -> Tensor:
    """Returns what ``combine`` does without ``shared``, in fp32, by torch's differentiable operations."""
    has_row = row_of_slot >= 0
    of_slots = torch.where(has_row.unsqueeze(-1), y[row_of_slot.clamp(min=0).long()].float(), 0.0)
    if weights is not None:
        of_slots = of_slots * torch.where(has_row, weights.float(), 0.0).unsqueeze(-1)
    return of_slots.sum(1)
