# SPDX-License-Identifier: Apache-2.0
"""Products of packed weights and torch tensors, in 16 bits or in e4m3 with scales. functional.py has the dense products."""
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
    """Returns the product of tokens and packed weights W (n x k), as ``torch.nn.functional.linear`` does.

    For a bf16 or fp16 ``x`` it is ``act(x @ W.t() + bias)``. For a float8_e4m3fn ``x`` and weights packed in the order
    "byte" it is ``act(scale_x * (x @ W.t()) + bias)``.

    - ``x``: k columns and any number of leading dimensions. Its last dimension is contiguous, and its row pitch (if it has more than
      one row) is a multiple of 16 bytes.
    - ``scale_x``: fp32, one value, or one per row of x (``(..., 1)``). ``quantize(input, "row")`` returns x and ``scale_x``.
    - ``out_dtype``: bf16, fp16 or fp32. By default it is the type of ``out``, or else of ``x`` (bf16 for e4m3).
    - ``c``: a residual of the output's shape and type, added after the activation (16-bit tokens, at most 64 rows). It
      may be ``out``.
    - ``gated``, ``scale_d``: as for ``mm``. Gated products need weights that are packed with ``gated=True``.
    - ``gamma``: k bf16 values. With it, the same kernel first applies RMSNorm with ``gamma`` and ``epsilon`` to x (bf16, at most 8
      rows).

    For weights with a permutation (act-order), each call **copies x**: ``x.index_select(-1, packed.permutation)``. To save the copy,
    reorder the outputs of the previous layer (``QuantizedWeights.reorder_rows``). There is no backward: an argument that
    requires a gradient raises ``InvalidArgument``.
    """
    packed.check_gated(gated)
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
    """Returns the columns of x in the weights' order. Raises ``InvalidSize`` unless x has ``width`` columns. torch has no
    index_select for e4m3, so e4m3 tensors are permuted as uint8."""
    if x.dim() == 0 or x.shape[-1] != width:
        raise InvalidSize(f"x has shape {tuple(x.shape)} and must have {width} columns, which the permutation of the weights counts: "
                          "pass whole tokens, of a shard of the weights too")
    if x.dtype is torch.float8_e4m3fn:
        return x.view(torch.uint8).index_select(-1, permutation).view(torch.float8_e4m3fn)
    return x.index_select(-1, permutation)
