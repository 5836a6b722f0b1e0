# SPDX-License-Identifier: Apache-2.0
"""Products of packed weights and tensors of 16 bits, or of e4m3 with scales. As in functional.py: eager calls go straight to libsluice_c.so, and under
torch.compile they are ops of torch.library."""
from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor

from .. import _binding
from ..errors import InvalidSize
from ..packed import PackedWeights
from ._entry import op
from ._library import PLAIN, activation_number, check_out, written
from .autograd import refuse_grad

_is_compiling = torch.compiler.is_compiling
_is_grad_enabled = torch.is_grad_enabled
_empty = torch.empty
_packed_into = _binding.packed_mm


@op
def packed_mm(x: Tensor, packed: PackedWeights, bias: Optional[Tensor] = None, *, scale_x: Optional[Tensor] = None,
             activation: Optional[str] = None, out: Optional[Tensor] = None, out_dtype: Optional[torch.dtype] = None) -> Tensor:
    """``act(x @ W.t() + bias)`` for a bf16 or fp16 ``x`` and packed weights W (n x k), as ``torch.nn.functional.linear``; or
    ``act(scale_x * (x @ W.t()) + bias)`` for a float8_e4m3fn ``x`` and weights packed in the order "byte".

    ``x`` may have any number of leading dimensions; its last is contiguous and, with more than one row, they lie a multiple
    of 16 bytes apart. ``scale_x``: fp32, one value, or one for each row of x (``(..., 1)``), as ``quantize(input, "row")`` gives
    both. The output has x's type (bf16 for an e4m3 one), or ``out_dtype`` (or that of ``out``): bf16, fp16 or fp32. Weights with
    a permutation (act-order) take ``x.index_select(-1, packed.permutation)``, **a copy of x**, at each call; order the layer
    before by it (``QuantizedWeights.reorder_rows``) to save that. There is no backward: an argument that wants a gradient
    raises.
    """
    if _is_grad_enabled() and (x.requires_grad or (bias is not None and bias.requires_grad)
                               or (scale_x is not None and scale_x.requires_grad)):
        refuse_grad("packed_mm")
    if out is not None:
        check_out(out, out_dtype)
    if packed.permutation is not None:
        x = permuted(x, packed.permutation, packed.token_width)
    if out_dtype is None:
        out_dtype = torch.bfloat16 if x.dtype is torch.float8_e4m3fn else x.dtype
    return packed_product(x, packed.blob, bias, scale_x, activation, out, out_dtype, packed.format_number, packed.n, packed.k)


def permuted(x: Tensor, permutation: Tensor, width: int) -> Tensor:
    """Columns of x, which has ``width``, in the order of the weights'. torch has no index_select of e4m3: its bytes are moved."""
    if x.dim() == 0 or x.shape[-1] != width:
        raise InvalidSize(f"x has shape {tuple(x.shape)} and must have {width} columns, which the permutation of the weights counts: "
                          "pass whole tokens, of a shard of the weights too")
    if x.dtype is torch.float8_e4m3fn:
        return x.view(torch.uint8).index_select(-1, permutation).view(torch.float8_e4m3fn)
    return x.index_select(-1, permutation)


def packed_product(x: Tensor, blob: Tensor, bias: Optional[Tensor], scale_x: Optional[Tensor], activation: Optional[str],
                  out: Optional[Tensor], out_dtype: torch.dtype, number: int, n: int, k: int) -> Tensor:
    """The same with the parts of the weights, for modules that keep them apart."""
    if _is_compiling() or x.__class__ not in PLAIN:
        if out is None:
            return torch.ops.sluice.packed_mm(x, blob, bias, scale_x, number, n, k, activation or "none", out_dtype)
        torch.ops.sluice.packed_mm_out(x, blob, out, bias, scale_x, number, n, k, activation or "none")
        written(out)
        return out
    result = out
    if out is None:
        result = _empty((*x.shape[:-1], n), dtype=out_dtype, device=x.device)
    _packed_into(x, blob, bias, scale_x, result, number, n, k, activation_number(activation))
    if out is not None:
        written(out)
    return result
