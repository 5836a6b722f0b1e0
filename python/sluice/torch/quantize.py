# SPDX-License-Identifier: Apache-2.0
"""To float8_e4m3fn with fp32 scales, each a fused kernel, in the layouts that ``scaled_mm`` takes.

``scale = amax / 448`` over what shares a scale, amax at least 1e-4, and an element is its value times ``448 / amax``, rounded
to nearest even. Divisions are torch's own on a GPU (a product with the reciprocal), so the bits are those of the usual
quantisers written in torch, as DeepGEMM's casts are.
"""
from __future__ import annotations

from typing import Optional, Tuple

import torch
from torch import Tensor

from .. import _binding as f
from ..errors import InvalidArgument
from ..problems import GRANULARITIES
from ..plans import Workspace
from ._entry import op
from ._library import (PLAIN, QUANTIZE, QUANTIZE_STATIC, SILU_MUL, SILU_MUL_QUANTIZE, check_out, half_of_columns, scales_shape,
                       workspace_number, written)
from .autograd import refuse_grad

_is_compiling = torch.compiler.is_compiling
_NO_GATE, _SILU_GATE = 0, 1  # sluice_gate of c_api.h


@op
def quantize(input: Tensor, granularity: str = "1x128", *, out: Optional[Tensor] = None,
             scales: Optional[Tensor] = None, workspace: Optional[Workspace] = None) -> Tuple[Tensor, Tensor]:
    """``(output, scales)`` of a bf16, fp16 or fp32 input whose last dimension is contiguous.

    ``granularity`` says what shares a scale, and the scales' shape: "tensor" ``()``; "row" ``(..., 1)``; "1x128"
    ``(..., ceil(k/128))``; "128x128", of a matrix, ``(ceil(n/128), ceil(k/128))``. ``out`` and ``scales`` may be given. "tensor"
    uses a workspace: the one given, or one that is lent. There is no backward: an input that wants a gradient raises.
    """
    return _quantized("quantize", input, input.shape, granularity, _NO_GATE, out, scales, workspace)


@op
def silu_mul_quantize(input: Tensor, granularity: str = "1x128", *, out: Optional[Tensor] = None,
                      scales: Optional[Tensor] = None, workspace: Optional[Workspace] = None) -> Tuple[Tensor, Tensor]:
    """``quantize(silu(gate) * up)`` in one kernel, for an input ``(..., 2 * k)`` of which ``gate`` is the first half of the
    columns and ``up`` the second: what stands between the two products of a gated feed-forward. The value is not rounded
    before it is quantised. Otherwise as ``quantize``.
    """
    return _quantized("silu_mul_quantize", input, half_of_columns(input.shape), granularity, _SILU_GATE, out, scales,
                      workspace)


@op
def silu_mul(input: Tensor, *, out: Optional[Tensor] = None) -> Tensor:
    """``silu(gate) * up``, rounded once, of a bf16 or fp16 input ``(..., 2 * k)`` as for ``silu_mul_quantize``. There is no
    backward: an input that wants a gradient raises."""
    if input.requires_grad and torch.is_grad_enabled():
        refuse_grad("silu_mul")
    if _is_compiling() or input.__class__ not in PLAIN:
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
    if _is_compiling() or input.__class__ not in PLAIN:
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


@op
def quantize_static(input: Tensor, scale: Tensor, *, out: Optional[Tensor] = None) -> Tensor:
    """The input times ``1 / scale`` as float8_e4m3fn; ``scale`` is one fp32 value on the GPU, from a calibration.
    There is no backward: an input that wants a gradient raises."""
    if (input.requires_grad or getattr(scale, "requires_grad", False)) and torch.is_grad_enabled():
        refuse_grad("quantize_static")
    if _is_compiling() or input.__class__ not in PLAIN:
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
    """The same from torch's own operations, on any device: the definition, for tests and for weights in host memory."""
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
    # cvt.satfinite: infinities become the largest number, as every value past it.
    output = scaled.clamp(-448.0, 448.0).to(torch.float8_e4m3fn)
    return output.view(input.shape), (amax * (1.0 / 448.0)).reshape(shape)
