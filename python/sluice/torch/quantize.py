# SPDX-License-Identifier: Apache-2.0
"""Quantisers to float8_e4m3fn with fp32 scales. Each is one fused kernel, and its results have the layouts that ``scaled_mm`` takes.

The scale of a group of elements is ``amax / 448``, where amax is the largest magnitude, at least 1e-4. An element becomes its value
times ``448 / amax``, rounded to nearest even. Divisions multiply by the reciprocal, as torch does on a GPU. So results are
bit-identical to the usual quantisers written in torch, such as DeepGEMM's casts.
"""
from __future__ import annotations

from typing import Optional, Tuple

import torch
from torch import Tensor

from .. import _binding as f
from .._names import GRANULARITIES
from ..errors import InvalidArgument
from ..plans import Workspace
from ._entry import op
from ._library import (QUANTIZE, QUANTIZE_STATIC, SILU_MUL, SILU_MUL_QUANTIZE, check_out, half_of_columns, scales_shape,
                       takes_no_dispatcher, workspace_number, written)
from .autograd import refuse_grad

_NO_GATE, _SILU_GATE = 0, 1  # sluice_gate of c_api.h


@op(output="out")
def quantize(input: Tensor, granularity: str = "1x128", *, out: Optional[Tensor] = None,
             scales: Optional[Tensor] = None, workspace: Optional[Workspace] = None) -> Tuple[Tensor, Tensor]:
    """Quantises a bf16, fp16 or fp32 input whose last dimension is contiguous. Returns ``(output, scales)``: float8_e4m3fn of
    the input's shape, and fp32.

    - ``granularity``: the elements that share a scale. The scales' shape is ``()`` for "tensor", ``(..., 1)`` for "row" and
      ``(..., ceil(k/128))`` for "1x128". For "128x128" (of a matrix) it is ``(ceil(n/128), ceil(k/128))``.
    - ``out``, ``scales``: tensors to write into; not under torch.compile.
    - ``workspace``: used for "tensor" only; by default the library lends one.

    There is no backward: an input that requires a gradient raises ``InvalidArgument``.
    """
    return _quantized("quantize", input, input.shape, granularity, _NO_GATE, out, scales, workspace)


@op(output="out")
def silu_mul_quantize(input: Tensor, granularity: str = "1x128", *, out: Optional[Tensor] = None,
                      scales: Optional[Tensor] = None, workspace: Optional[Workspace] = None) -> Tuple[Tensor, Tensor]:
    """Returns ``quantize(silu(gate) * up)``, computed in one kernel: the step between the two products of a gated feed-forward layer.

    The input is ``(..., 2 * k)``: ``gate`` is the first half of the columns, ``up`` the second. The product stays in fp32 until it
    is quantised. All else is as for ``quantize``. Raises ``InvalidSize`` for an odd number of columns.
    """
    return _quantized("silu_mul_quantize", input, half_of_columns(input.shape), granularity, _SILU_GATE, out, scales,
                      workspace)


@op(output="out")
def silu_mul(input: Tensor, *, out: Optional[Tensor] = None) -> Tensor:
    """Returns ``silu(gate) * up``, rounded once, for a bf16 or fp16 input ``(..., 2 * k)`` as for ``silu_mul_quantize``. There
    is no backward: an input that requires a gradient raises ``InvalidArgument``."""
    if input.requires_grad and torch.is_grad_enabled():
        refuse_grad("silu_mul")
    if not takes_no_dispatcher(input):
        if out is not None:
            raise InvalidArgument("out cannot be given under torch.compile; the compiler plans memory")
        return SILU_MUL(input)
    if out is None:
        return SILU_MUL(input)
    check_out(out, None)
    f.quantize(f.INPUT, input, f.OUTPUT, out, f.GATE, _SILU_GATE)
    written(out)
    return out


def _quantized(name: str, input: Tensor, shape: tuple, granularity: str, gate: int, out: Optional[Tensor],
               scales: Optional[Tensor], workspace: Optional[Workspace]) -> Tuple[Tensor, Tensor]:
    if input.requires_grad and torch.is_grad_enabled():
        refuse_grad(name)
    if not takes_no_dispatcher(input):
        if out is not None or scales is not None:
            raise InvalidArgument("out and scales cannot be given under torch.compile; the compiler plans memory")
        return (SILU_MUL_QUANTIZE if gate else QUANTIZE)(input, granularity, workspace_number(workspace))
    given = [tensor for tensor in (out, scales) if tensor is not None]
    for tensor in given:
        check_out(tensor, None)
    if scales is None:
        scales = input.new_empty(scales_shape(shape, granularity), dtype=torch.float32)
    if out is None:
        out = input.new_empty(shape, dtype=torch.float8_e4m3fn)
    if granularity not in GRANULARITIES:
        scales_shape(shape, granularity)  # raises
    f.quantize(f.INPUT, input, f.OUTPUT, out, f.SCALES, scales, f.GRANULARITY, GRANULARITIES.index(granularity), f.GATE, gate,
               f.WORKSPACE, workspace_number(workspace))
    if given:
        written(*given)
    return out, scales


@op(output="out", scales="scale")
def quantize_static(input: Tensor, scale: Tensor, *, out: Optional[Tensor] = None) -> Tensor:
    """Returns the input times ``1 / scale`` as float8_e4m3fn; ``scale`` is one fp32 value on the GPU, such as a calibrated scale.
    There is no backward: an argument that requires a gradient raises ``InvalidArgument``."""
    if (input.requires_grad or getattr(scale, "requires_grad", False)) and torch.is_grad_enabled():
        refuse_grad("quantize_static")
    if not takes_no_dispatcher(input):
        if out is not None:
            raise InvalidArgument("out cannot be given under torch.compile; the compiler plans memory")
        return QUANTIZE_STATIC(input, scale)
    if out is not None:
        check_out(out, None)
    result = input.new_empty(input.shape, dtype=torch.float8_e4m3fn) if out is None else out
    f.quantize(f.INPUT, input, f.OUTPUT, result, f.SCALES, scale, f.SCALE_GIVEN, True)
    if out is not None:
        written(out)
    return result


@op
def quantize_reference(input: Tensor, granularity: str = "1x128") -> Tuple[Tensor, Tensor]:
    """Returns the result of ``quantize``, computed by torch's own operations on any device. It is the reference for tests, and
    quantises weights in host memory."""
    shape = scales_shape(input.shape, granularity)
    columns = input.shape[-1]
    rows = input.numel() // columns if columns else 0
    values = input.reshape(rows, columns).float()
    height = {"tensor": max(rows, 1), "128x128": 128}.get(granularity, 1)
    width = 128 if granularity in ("1x128", "128x128") else max(columns, 1)
    padded = torch.nn.functional.pad(values, (0, -columns % width, 0, -rows % height))
    groups = padded.view(padded.shape[0] // height, height, padded.shape[1] // width, width)
    amax = groups.abs().amax((1, 3), keepdim=True).clamp(1e-4)
    scaled = (groups * (amax.reciprocal() * 448.0)).view(padded.shape)[:rows, :columns]
    # cvt.satfinite saturates every value beyond the largest finite number, infinities too.
    output = scaled.clamp(-448.0, 448.0).to(torch.float8_e4m3fn)
    return output.view(input.shape), (amax * (1.0 / 448.0)).reshape(shape)
