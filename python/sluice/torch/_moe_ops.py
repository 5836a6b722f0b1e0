# SPDX-License-Identifier: Apache-2.0
"""The ops of a mixture of experts around its products: ``sluice::moe_route``, ``sluice::moe_gather``,
``sluice::moe_gather_quantize`` and ``sluice::moe_combine``. The fakes check what decides shapes and types."""
from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Tuple

import torch
from torch import Tensor

from .. import _binding as f
from .._arguments import integer
from .._names import GRANULARITIES, number_of
from ..errors import InvalidArgument, InvalidSize, InvalidType
from ..packed_experts import PackedExperts
from ._library import _define, scales_shape

_ID_TYPES = (torch.int32, torch.int64)
_ROW_TYPES = (torch.bfloat16, torch.float16)


def rows_for(slots: int, experts: int, pitch: int) -> int:
    """Returns the rows that ``slots`` slots need at most: each expert that is used may leave a gap behind the one before it."""
    return slots if pitch == 1 else slots + torch.sym_min(slots, experts) * (pitch - 1)


def check_ids(topk_ids: Tensor) -> None:
    if topk_ids.dtype not in _ID_TYPES:
        raise InvalidType(f"topk_ids is {topk_ids.dtype} and must be int32 or int64; convert it")
    if topk_ids.dim() < 2:
        raise InvalidSize(f"topk_ids has shape {tuple(topk_ids.shape)} and must have the tokens and the experts of each")


def granularity_of(w13: Tensor, scale_w13: Optional[Tensor], scale_w2: Optional[Tensor]) -> Optional[str]:
    """Returns how tokens are quantised for weights with these scales; None: they are not."""
    if scale_w13 is None and scale_w2 is None:
        return None
    if scale_w13 is None or scale_w2 is None or scale_w2.dim() != scale_w13.dim():
        raise InvalidArgument("scale_w13 and scale_w2 are given together, and have the same number of dimensions")
    kinds = {2: "row", 3: "1x128"}
    if scale_w13.dim() not in kinds:
        raise InvalidSize(f"scale_w13 has shape {tuple(scale_w13.shape)}: it must have one value for each row of each expert "
                          f"({w13.shape[0]}, {w13.shape[1]}), or for each block of 128 x 128")
    return kinds[scale_w13.dim()]


_FEW_TILES = 64  # half of a Hopper has so many SMs; a tile has 256 columns


def check_all_experts(all_experts: Optional[int], experts: int) -> int:
    """Returns the number of experts that ids choose from, which are those of the weights unless ranks share them."""
    if all_experts is None:
        return experts
    if (given := integer("all_experts", all_experts)) < experts:
        raise InvalidSize(f"all_experts = {given} must be at least {experts}, the experts of w13: it is the number on all ranks together; leave "
                          "it out if this rank has all")
    return given


def gates_in_one_kernel(ids: Tensor, up: Tensor, granularity: str, activation: str, batch_invariant: bool, all_experts: int) -> bool:
    """Returns whether one kernel multiplies gate and up and quantises what they make. It does so by blocks of whole gates. Few tokens, whose
    tiles would leave more than half of the SMs idle, take two with silu, unless ``batch_invariant``."""
    if granularity != "1x128" or up.shape[-1] % 256 != 0:
        return False
    slots = -(-ids.numel() * up.shape[0] // all_experts)  # this rank's, in the mean
    tiles = min(slots, up.shape[0]) * (up.shape[-1] // 256)
    return batch_invariant or activation != "silu" or tiles >= _FEW_TILES


_REPEATED_BYTES = 56 << 20  # slots may read so many again: about what L2 holds (docs/findings/experts.md)


def takes_slots(ids: Tensor, experts: int, weight_bytes: int, all_experts: int) -> bool:
    """Returns whether a layer multiplies slots as they stand (``slots_mm``) and sorts nothing: whether experts are likely to repeat so
    seldom that reading weights again costs less than the sort. Each token chooses as many of ``all_experts`` as ``ids`` has columns, at
    random; ``experts`` of them are here. Ids are read as they are, so they are contiguous and int32. ``weight_bytes``: those of
    ``experts``, both products."""
    if ids.dtype is not torch.int32 or ids.dim() != 2 or not ids.is_contiguous():
        return False
    tokens, chosen = ids.shape
    if chosen > all_experts or tokens > 16:  # experts repeat
        return False
    read = experts * (1 - (1 - chosen / all_experts) ** tokens)
    return bool((tokens * chosen * experts / all_experts - read) * (weight_bytes / experts) <= _REPEATED_BYTES)


def rows_are_aligned(x: Tensor) -> bool:
    """Returns whether a product can read the rows of ``x``, which begin at multiples of 16 bytes. ``gather`` reads any."""
    size = x.element_size()
    return bool(x.stride(-1) == 1 and x.storage_offset() * size % 16 == 0 and (x.shape[0] == 1 or x.stride(0) * size % 16 == 0))


def layer_takes_slots(x: Tensor, ids: Tensor, w13: Tensor, w2: Tensor, granularity: Optional[str], batch_invariant: bool,
                      all_experts: int) -> bool:
    """``takes_slots`` of a layer whose weights are not packed. A gate with block scales needs whole blocks."""
    if batch_invariant or (granularity == "1x128" and w13.shape[1] % 256 != 0) or (granularity is None and not rows_are_aligned(x)):
        return False
    return takes_slots(ids, w13.shape[0], w13.numel() * w13.element_size() + w2.numel() * w2.element_size(), all_experts)


def layer_of_slots(quantize: Any, slots_mm: Any, combine: Any, x: Tensor, ids: Tensor, topk_weights: Optional[Tensor], weights: Tuple[Any, Any],
                   scales: Tuple[Optional[Tensor], Optional[Tensor]], biases: Tuple[Optional[Tensor], Optional[Tensor]],
                   shared: Optional[Tensor], granularity: Optional[str], activation: str, use_fast_accum: bool,
                   named: Callable[[str], Dict[str, Any]] = lambda part: {}, **combined: Any) -> Tensor:
    """Returns the layer of so few slots that nothing is sorted. The three functions are those of sluice.torch, or methods of st.Steps;
    ``named(part)``: more arguments of a step; ``combined``: of the last one."""
    rows, of_rows = x, None
    for i, (quantizer, product) in enumerate((("quantize_x", "gate_up"), ("quantize", "down"))):
        if granularity is not None:
            rows, of_rows = quantize(rows, granularity, **named(quantizer))
        mat_b = weights[i] if isinstance(weights[i], PackedExperts) else weights[i].transpose(-2, -1)
        rows = slots_mm(rows, mat_b, ids, scale_a=of_rows, scale_b=scales[i], bias=biases[i], gated=i == 0,
                        activation=activation if i == 0 else None, use_fast_accum=use_fast_accum, out_dtype=x.dtype, **named(product))
    return combine(rows, ids, topk_weights, shared, experts=len(weights[0]), **named("combine"), **combined)  # type: ignore[no-any-return]


def new_routed(topk_ids: Tensor, experts: int, pitch: int, rows: int) -> Tuple[Tensor, Tensor, Tensor]:
    check_ids(topk_ids)
    return (topk_ids.new_empty((experts,), dtype=torch.int32), topk_ids.new_empty(topk_ids.shape, dtype=torch.int32),
            topk_ids.new_empty((rows,), dtype=torch.int32))


def _route(topk_ids: Tensor, experts: int, pitch: int, rows: int) -> Tuple[Tensor, Tensor, Tensor]:
    ends, row_of_slot, token_of_row = new_routed(topk_ids, experts, pitch, rows)
    f.route(f.TOPK_IDS, topk_ids, f.ENDS, ends, f.ROW_OF_SLOT, row_of_slot, f.TOKEN_OF_ROW, token_of_row, f.PITCH, pitch)
    return ends, row_of_slot, token_of_row


ROUTE = _define("moe_route(Tensor topk_ids, int experts, int pitch, int rows) -> (Tensor, Tensor, Tensor)", _route, new_routed)


def check_gathered(x: Tensor, token_of_row: Tensor) -> None:
    if token_of_row.dtype is not torch.int32:
        raise InvalidType(f"token_of_row is {token_of_row.dtype} and must be int32; convert it")
    if token_of_row.dim() != 1 or x.dim() < 2:
        raise InvalidSize(f"token_of_row has shape {tuple(token_of_row.shape)} and x {tuple(x.shape)}: they must be a list of rows, "
                          "and rows")


def _new_gathered(x: Tensor, token_of_row: Tensor) -> Tensor:
    check_gathered(x, token_of_row)
    return x.new_empty((token_of_row.shape[0], x.shape[-1]))


def _gather(x: Tensor, token_of_row: Tensor) -> Tensor:
    out = _new_gathered(x, token_of_row)
    f.gather(f.INPUT, x, f.TOKEN_OF_ROW, token_of_row, f.OUTPUT, out)
    return out


GATHER = _define("moe_gather(Tensor x, Tensor token_of_row) -> Tensor", _gather, _new_gathered)


def check_granularity(granularity: str) -> int:
    """Returns the granularity's number. Raises ``InvalidArgument`` for an unknown one."""
    return number_of("granularity", granularity, GRANULARITIES)


def _new_gathered_codes(x: Tensor, token_of_row: Tensor, granularity: str, scale: Optional[Tensor]) -> Tuple[Tensor, Tensor]:
    check_gathered(x, token_of_row)
    if scale is not None and granularity != "tensor":
        raise InvalidArgument(f"a scale is given for granularity = {granularity!r}, and only 'tensor' takes one")
    shape = (token_of_row.shape[0], x.shape[-1])
    of_scales = scales_shape(shape, granularity) if scale is None else (0,)  # an op may not return its argument
    return x.new_empty(shape, dtype=torch.float8_e4m3fn), x.new_empty(of_scales, dtype=torch.float32)


def _gather_quantize(x: Tensor, token_of_row: Tensor, granularity: str, scale: Optional[Tensor]) -> Tuple[Tensor, Tensor]:
    out, scales = _new_gathered_codes(x, token_of_row, granularity, scale)
    f.gather(f.INPUT, x, f.TOKEN_OF_ROW, token_of_row, f.OUTPUT, out, f.SCALES, scales if scale is None else scale, f.GRANULARITY,
             check_granularity(granularity), f.SCALE_GIVEN, scale is not None)
    return out, scales


GATHER_QUANTIZE = _define("moe_gather_quantize(Tensor x, Tensor token_of_row, str granularity, Tensor? scale) -> (Tensor, Tensor)",
                          _gather_quantize, _new_gathered_codes)


def check_experts(experts: Optional[int]) -> None:
    if experts is not None and experts < 1:
        raise InvalidSize(f"experts = {experts} must be at least 1: it is how many there are; leave it out if row_of_slot has rows")


def _new_combined(y: Tensor, row_of_slot: Tensor, topk_weights: Optional[Tensor], shared: Optional[Tensor], experts: int) -> Tensor:
    if y.dtype not in _ROW_TYPES:
        raise InvalidType(f"y is {y.dtype} and must be bfloat16 or float16; convert it")
    if row_of_slot.dtype is not torch.int32:
        raise InvalidType(f"row_of_slot is {row_of_slot.dtype} and must be int32; convert it")
    if topk_weights is not None and topk_weights.dtype is not torch.float32:
        raise InvalidType(f"topk_weights is {topk_weights.dtype} and must be float32; convert them")
    return y.new_empty((*row_of_slot.shape[:-1], y.shape[-1]))


def _combine(y: Tensor, row_of_slot: Tensor, topk_weights: Optional[Tensor], shared: Optional[Tensor], experts: int) -> Tensor:
    out = _new_combined(y, row_of_slot, topk_weights, shared, experts)
    f.combine(f.Y, y, f.ROW_OF_SLOT, row_of_slot, f.TOPK_WEIGHTS, topk_weights, f.SHARED, shared, f.OUT, out, f.EXPERTS, experts)
    return out


COMBINE = _define("moe_combine(Tensor y, Tensor row_of_slot, Tensor? topk_weights, Tensor? shared, int experts) -> Tensor", _combine,
                  _new_combined)
