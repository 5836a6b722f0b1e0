# SPDX-License-Identifier: Apache-2.0
"""Products of packed weights and tensors of 16 bits, or of e4m3 with scales; as functional.py has those of dense ones."""
from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor

from ..errors import InvalidArgument, InvalidSize
from ..packed import PackedWeights
from ._entry import op
from ._library import PACKED_MM, check_out, dispatch
from .autograd import needs_grad, refuse_grad


@op
def packed_mm(x: Tensor, packed: PackedWeights, bias: Optional[Tensor] = None, *, scale_x: Optional[Tensor] = None,
              c: Optional[Tensor] = None, activation: Optional[str] = None, gated: bool = False, scale_d: Optional[Tensor] = None,
              gamma: Optional[Tensor] = None, epsilon: float = 1e-5, out: Optional[Tensor] = None,
              out_dtype: Optional[torch.dtype] = None) -> Tensor:
    """``act(x @ W.t() + bias)`` for a bf16 or fp16 ``x`` and packed weights W (n x k), as ``torch.nn.functional.linear``; or
    ``act(scale_x * (x @ W.t()) + bias)`` for a float8_e4m3fn ``x`` and weights packed in the order "byte".

    ``x`` may have any number of leading dimensions; its last is contiguous and, with more than one row, they lie a multiple
    of 16 bytes apart. ``scale_x``: fp32, one value, or one for each row of x (``(..., 1)``), as ``quantize(input, "row")`` gives
    both. The output has x's type (bf16 for an e4m3 one), or ``out_dtype`` (or that of ``out``): bf16, fp16 or fp32. Weights with
    a permutation (act-order) take ``x.index_select(-1, packed.permutation)``, **a copy of x**, at each call; order the layer
    before by it (``QuantizedWeights.reorder_rows``) to save that. ``c``: a residual of the output's shape and type, added behind the activation (16-bit tokens, at most 64 rows); it may be
    ``out``. ``gated``, ``scale_d``: as for ``mm``. ``gamma``: k bf16 values; up to 8 bf16 rows of x are RMS-normed by it (and
    ``epsilon``) in the same kernel. There is no backward: an argument that wants a gradient raises.
    """
    if needs_grad(x, bias, c, scale_x):
        refuse_grad("packed_mm")
    if out is not None:
        check_out(out, out_dtype)
    if packed.permutation is not None:
        if gamma is not None:
            raise InvalidArgument("gamma is given and the weights are in act-order, whose columns are moved first: call rms_norm "
                                  "before, and leave gamma out")
        x = permuted(x, packed.permutation, packed.token_width)
    if out_dtype is None:
        out_dtype = torch.bfloat16 if x.dtype is torch.float8_e4m3fn else x.dtype
    return dispatch(PACKED_MM, out, out_dtype, x, packed.blob, packed.numbers, scale_x, gamma, epsilon, bias, c, activation, gated,
                    scale_d, 0)


def permuted(x: Tensor, permutation: Tensor, width: int) -> Tensor:
    """Columns of x, which has ``width``, in the order of the weights'. torch has no index_select of e4m3: its bytes are moved."""
    if x.dim() == 0 or x.shape[-1] != width:
        raise InvalidSize(f"x has shape {tuple(x.shape)} and must have {width} columns, which the permutation of the weights counts: "
                          "pass whole tokens, of a shard of the weights too")
    if x.dtype is torch.float8_e4m3fn:
        return x.view(torch.uint8).index_select(-1, permutation).view(torch.float8_e4m3fn)
    return x.index_select(-1, permutation)
