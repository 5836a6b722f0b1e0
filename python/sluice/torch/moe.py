# SPDX-License-Identifier: Apache-2.0
"""The steps of a mixture of experts around its products of groups: sort tokens by expert, gather their rows, add up the results.

    ends, row_of_slot, token_of_row = st.moe.route(topk_ids, experts)
    x8, scales = st.moe.gather(x, token_of_row, "1x128")
    ...                                             # the products of the experts, whose groups end at ``ends``
    out = st.moe.combine(y, row_of_slot, topk_weights, shared)

A slot is one chosen expert of one token. A row is a row of the products. Each function is one kernel, may be captured in a CUDA
graph that is replayed with other ids, and works under torch.compile. docs/experts.md has the layouts.
"""
from __future__ import annotations

from typing import Optional, Tuple, Union

from torch import Tensor

from ..errors import InvalidSize
from ._entry import op
from ._moe_ops import COMBINE, GATHER, GATHER_QUANTIZE, ROUTE, check_granularity, check_ids, rows_for
from .autograd import needs_grad, refuse_grad

__all__ = ["combine", "gather", "route"]


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
def combine(y: Tensor, row_of_slot: Tensor, topk_weights: Optional[Tensor] = None, shared: Optional[Tensor] = None) -> Tensor:
    """Returns ``shared[t] + sum over j of topk_weights[t, j] * y[row_of_slot[t, j]]``. Sums are fp32, in the order of j, and
    rounded once. So a token's bits depend on its own rows alone.

    - ``y``: ``(rows, n)``, bf16 or fp16. ``row_of_slot``: ``(..., k)`` of int32, as ``route`` gives it; a slot without a row adds
      nothing, and neither its weight nor a row is read.
    - ``topk_weights``: ``(..., k)`` of fp32; None: all are 1, for rows that are weighted already. ``shared``: ``(..., n)`` of y's type.

    There is no backward: an argument that requires a gradient raises ``InvalidArgument``.
    """
    if needs_grad(y, topk_weights, shared, None):
        refuse_grad("combine")
    return COMBINE(y, row_of_slot, topk_weights, shared)  # type: ignore[no-any-return]
