# SPDX-License-Identifier: Apache-2.0
"""RMSNorm of rows in one kernel, optionally with a residual added before and a quantiser after it. docs/numerics.md states
its error bounds."""
from __future__ import annotations

from typing import Optional, Tuple, Union

import torch
from torch import Tensor

from ._entry import op
from ._library import RMS_NORM, RMS_NORM_QUANTIZE, check_norm_scale
from .autograd import needs_grad, refuse_grad


@op
def rms_norm(input: Tensor, gamma: Tensor, *, residual: Optional[Tensor] = None,
             epsilon: float = 1e-5) -> Union[Tensor, Tuple[Tensor, Tensor]]:
    """Returns ``sum / sqrt(mean(sum ** 2) + epsilon) * gamma`` over the last dimension, in bf16 or fp16.

    ``sum`` is the input, or ``input + residual``. With a residual it returns ``(normed, sum)``; the rounded sum is the next
    residual. There is no backward: an argument that requires a gradient raises ``InvalidArgument``.
    """
    if needs_grad(input, gamma, residual, None):
        refuse_grad("rms_norm")
    output, total = RMS_NORM(input, gamma, residual, epsilon)
    return output if residual is None else (output, total)


@op
def rms_norm_quantize(input: Tensor, gamma: Tensor, granularity: str = "row", *, scale: Optional[Tensor] = None,
                      residual: Optional[Tensor] = None, epsilon: float = 1e-5) -> Tuple[Tensor, ...]:
    """Returns ``rms_norm`` quantised to float8_e4m3fn: ``(output, scales)``, or ``(output, scales, sum)`` with a residual.

    ``granularity`` is "row", "1x128", or "tensor" with a given ``scale`` (one fp32 value), which is returned unchanged. There
    is no backward. Raises ``InvalidArgument`` for an argument that requires a gradient, and for "tensor" without a scale.
    """
    if needs_grad(input, gamma, residual, scale):
        refuse_grad("rms_norm_quantize")
    check_norm_scale(granularity, scale)
    output, scales, total = RMS_NORM_QUANTIZE(input, gamma, granularity, scale, residual, epsilon)
    made = (output, scales if scale is None else scale)
    return made if residual is None else (*made, total)
