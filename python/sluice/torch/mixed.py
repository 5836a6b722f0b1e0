# SPDX-License-Identifier: Apache-2.0
"""Products of 16-bit tensors and packed weights. As in functional.py: eager calls go straight to libsluice_c.so, and under
torch.compile they are ops of torch.library."""
from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor

from .. import _binding
from ..errors import InvalidArgument
from ..packed import PackedWeights
from ._library import activation_number
from .autograd import refuse_grad

_is_compiling = torch.compiler.is_compiling
_is_grad_enabled = torch.is_grad_enabled
_empty = torch.empty
_mixed_into = _binding.mixed_mm
# Others (fake tensors, wrapper subclasses) have no memory of their own and need the dispatcher.
_PLAIN = frozenset((Tensor, torch.nn.Parameter))


def mixed_mm(x: Tensor, packed: PackedWeights, bias: Optional[Tensor] = None, *, activation: Optional[str] = None,
             out: Optional[Tensor] = None, out_dtype: Optional[torch.dtype] = None) -> Tensor:
    """``act(x @ W.t() + bias)`` for a bf16 or fp16 ``x`` and packed weights W (n x k), as ``torch.nn.functional.linear``.

    ``x`` may have any number of leading dimensions; its last is contiguous and, with more than one row, they lie a multiple
    of 8 elements apart. The output has x's type, or ``out_dtype`` (or that of ``out``): bf16, fp16 or fp32. Weights with a
    permutation (act-order) take ``x.index_select(-1, packed.permutation)``, **a copy of x**, at each call; order the layer
    before by it (``QuantizedWeights.reorder_rows``) to save that. There is no backward: an argument that wants a gradient
    raises.
    """
    if _is_grad_enabled() and (x.requires_grad or (bias is not None and bias.requires_grad)):
        refuse_grad("mixed_mm")
    if out is not None and out_dtype is not None and out.dtype is not out_dtype:
        raise InvalidArgument(f"out is {out.dtype} and out_dtype says {out_dtype}: give one of them")
    if packed.permutation is not None:
        x = x.index_select(-1, packed.permutation)
    return mixed_product(x, packed.blob, bias, activation, out, out_dtype or x.dtype, packed.format_number, packed.n, packed.k)


def mixed_product(x: Tensor, blob: Tensor, bias: Optional[Tensor], activation: Optional[str], out: Optional[Tensor],
                  out_dtype: torch.dtype, number: int, n: int, k: int) -> Tensor:
    """The same with the parts of the weights, for modules that keep them apart."""
    if _is_compiling() or x.__class__ not in _PLAIN:
        if out is None:
            return torch.ops.sluice.mixed_mm(x, blob, bias, number, n, k, activation or "none", out_dtype)
        torch.ops.sluice.mixed_mm_out(x, blob, out, bias, number, n, k, activation or "none")
        return out
    if out is None:
        out = _empty((*x.shape[:-1], n), dtype=out_dtype, device=x.device)
    _mixed_into(x, blob, bias, out, number, n, k, activation_number(activation))
    return out
