# SPDX-License-Identifier: Apache-2.0
"""Convolutions of torch tensors, on the current stream, with the signatures of ``torch.nn.functional``.

Kernels read and write channels_last: the output is channels_last, and a tensor of another layout is copied once, which
``conv_layout_copies`` counts. Channels that are not a multiple of 8 are padded with zeros.

Under ``torch.autocast`` fp32 tensors are cast as torch casts them. Their gradients are in fp32, stored from the accumulators
without rounding to 16 bits.
"""
from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor

from ..errors import InvalidArgument, InvalidType
from ..plans import Workspace
from ._conv_layout import Numbers, Padding, check_axes, check_bias, check_channels, check_groups, check_tensor, geometry_of, layout_copies
from ._entry import op
from ._library import check_empty_batch, check_out, is_empty_batch, workspace_number
from .autograd import needs_grad
from .conv_autograd import Extras, differentiable_convolution, filter_operand, forward_product, input_operand

_CAST = (torch.float32, torch.bfloat16, torch.float16)  # types that torch.autocast casts

__all__ = ["conv1d", "conv2d", "conv3d", "conv_layout_copies"]


def computed_in(input: Tensor, weight: Tensor) -> torch.dtype:
    """Returns the type in which a convolution is computed: the type that torch.autocast casts to, if it is on, or the input's.
    Raises ``InvalidType`` for a tensor that would have to be cast without torch.autocast."""
    kind, dtype = input.device.type, input.dtype
    casts = kind != "meta" and torch.is_autocast_enabled(kind)
    if casts and dtype in _CAST:
        dtype = torch.get_autocast_dtype(kind)
    if weight.dtype is not dtype and not (casts and dtype.itemsize == 2 and weight.dtype in _CAST):
        raise InvalidType(f"weight is {weight.dtype} and input is {input.dtype}: convert one of them, or use torch.autocast")
    if dtype.itemsize > 2 or not dtype.is_floating_point:
        raise InvalidType(f"input is {dtype}: convolutions take bfloat16 and float16, and float8 forward; convert it, or use "
                          "torch.autocast")
    return dtype


def _convolution(axes: int, input: Tensor, weight: Tensor, bias: Optional[Tensor], stride: Any, padding: Any, dilation: Any,
                 groups: Any, activation: Optional[str], c: Optional[Tensor], out: Optional[Tensor], deterministic: bool,
                 out_dtype: Optional[torch.dtype], scale_x: Optional[Tensor], scale_w: Optional[Tensor], scale_d: Optional[Tensor],
                 use_fast_accum: bool, workspace: Optional[Workspace]) -> Tensor:
    check_tensor("weight", weight, axes)
    check_tensor("input", input)
    if input.dim() == axes + 1:  # one image without a batch dimension, as in torch
        if c is not None or out is not None:
            raise InvalidArgument("c and out need an input with a batch: pass input.unsqueeze(0)")
        return _convolution(axes, input.unsqueeze(0), weight, bias, stride, padding, dilation, groups, activation, None, None,
                            deterministic, out_dtype, scale_x, scale_w, scale_d, use_fast_accum, workspace).squeeze(0)
    check_axes("input", input, axes)
    check_groups(groups)
    check_channels(input, weight)
    check_bias(bias, weight.shape[0])
    geometry = geometry_of(axes, weight.shape[2:], stride, padding, dilation)
    dtype = computed_in(input, weight)
    if is_empty_batch(input):
        check_empty_batch(_convolution, axes, input, weight, bias, stride, padding, dilation, groups, activation, c, out, deterministic,
                          out_dtype, scale_x, scale_w, scale_d, use_fast_accum, None, images=(1, 9, 10), cast=(1, 2), dtype=dtype)
    if c is not None:
        check_tensor("c", c, axes)
    plain = c is None and out is None and activation in (None, "none") and scale_x is None and scale_w is None and scale_d is None
    if needs_grad(input, weight, bias, c):
        if not plain or out_dtype not in (None, dtype) or dtype.itemsize == 1:
            raise InvalidArgument(f"conv{axes}d is differentiable in 16 bits, without c, activation, out, scales and another out_dtype; "
                                  "add c and apply the activation to its result, or use torch.no_grad()")
        return differentiable_convolution(input, weight, bias, geometry, dtype, deterministic, workspace)
    if out is not None:
        check_tensor("out", out, axes)
        check_out(out, out_dtype)
        out_dtype = out.dtype
    weight_size = tuple(weight.shape)
    return forward_product(input_operand(input, weight_size, geometry, dtype), filter_operand(weight, geometry, dtype, out_dtype), bias,
                           tuple(input.shape), weight_size, geometry, out_dtype or dtype, workspace_number(workspace),
                           None if plain and not use_fast_accum else
                           Extras(c, activation, out, scale_x, scale_w, scale_d, use_fast_accum))


@op
def conv1d(input: Tensor, weight: Tensor, bias: Optional[Tensor] = None, stride: Numbers = 1, padding: Padding = 0,
           dilation: Numbers = 1, groups: int = 1, *, activation: Optional[str] = None, c: Optional[Tensor] = None,
           out: Optional[Tensor] = None, deterministic: bool = True, out_dtype: Optional[torch.dtype] = None,
           scale_x: Optional[Tensor] = None, scale_w: Optional[Tensor] = None, scale_d: Optional[Tensor] = None,
           use_fast_accum: bool = False, workspace: Optional[Workspace] = None) -> Tensor:
    """Returns the convolution of ``input``, (N, C, L), and ``weight``, (K, C, S). All else is as for ``conv2d``.

    torch has no channels_last format for three dimensions. It means the strides of ``x.transpose(1, 2).contiguous().transpose(1, 2)``.
    """
    return _convolution(1, input, weight, bias, stride, padding, dilation, groups, activation, c, out, deterministic, out_dtype,
                        scale_x, scale_w, scale_d, use_fast_accum, workspace)


@op
def conv2d(input: Tensor, weight: Tensor, bias: Optional[Tensor] = None, stride: Numbers = 1, padding: Padding = 0,
           dilation: Numbers = 1, groups: int = 1, *, activation: Optional[str] = None, c: Optional[Tensor] = None,
           out: Optional[Tensor] = None, deterministic: bool = True, out_dtype: Optional[torch.dtype] = None,
           scale_x: Optional[Tensor] = None, scale_w: Optional[Tensor] = None, scale_d: Optional[Tensor] = None,
           use_fast_accum: bool = False, workspace: Optional[Workspace] = None) -> Tensor:
    """Returns ``act(conv(input, weight) + c + bias)``: ``torch.nn.functional.conv2d`` with an activation and a residual in the same
    kernel. The output is channels_last.

    - ``input``: (N, C, H, W), or (C, H, W), in bf16 or fp16, or in fp8 without a backward. ``weight``: (K, C, R, S) of the same type.
      Under ``torch.autocast`` both may be in fp32.
    - ``stride``, ``dilation``: one number, or one per spatial axis, outermost first. ``padding``: also "same", "valid", or one
      pair (before, after) per axis, such as ((2, 0), (1, 1)).
    - ``groups`` must be 1.
    - ``c``: a residual of the output's shape; it may be ``out``.
    - ``activation``: "relu", "gelu" or "silu".
    - ``out``: a tensor to write into, channels_last; it may be a slice of channels.
    - ``out_dtype``: the input's type by default; also fp32.
    - ``scale_x``, ``scale_w``, ``scale_d``: for fp8; fp32 multipliers of the input (one value) and of the weight (one value, or one
      per filter), and a divisor of an e4m3 output. ``use_fast_accum``: as for ``scaled_mm``.
    - ``deterministic``: False lets the backward add split-K slices of the weight's gradient to ``weight.main_grad`` in any order.

    An input, weight or residual that is not channels_last, or does not begin at a multiple of 16 bytes, is copied once
    (``conv_layout_copies``). Channels that are not a multiple of 8 (16 in fp8) are padded, which copies too; few channels take the time of
    64. Patches that do not overlap (kernel = stride, no padding) are copied into the rows of a matrix product in two cases. One is fewer
    than 8 channels; the other is a stride above 8 pixels, which TMA does not support.

    It is differentiable in 16 bits without ``c``, ``activation``, ``out``, scales and ``out_dtype``. With one of them, an argument that
    requires a gradient raises ``InvalidArgument``. Raises ``InvalidSize``, ``InvalidType``, ``InvalidStride`` or ``InvalidArgument`` for
    arguments that no kernel takes. The backward uses ``workspace`` too.
    """
    return _convolution(2, input, weight, bias, stride, padding, dilation, groups, activation, c, out, deterministic, out_dtype,
                        scale_x, scale_w, scale_d, use_fast_accum, workspace)


@op
def conv3d(input: Tensor, weight: Tensor, bias: Optional[Tensor] = None, stride: Numbers = 1, padding: Padding = 0,
           dilation: Numbers = 1, groups: int = 1, *, activation: Optional[str] = None, c: Optional[Tensor] = None,
           out: Optional[Tensor] = None, deterministic: bool = True, out_dtype: Optional[torch.dtype] = None,
           scale_x: Optional[Tensor] = None, scale_w: Optional[Tensor] = None, scale_d: Optional[Tensor] = None,
           use_fast_accum: bool = False, workspace: Optional[Workspace] = None) -> Tensor:
    """Returns the convolution of ``input``, (N, C, D, H, W), and ``weight``, (K, C, T, R, S). All else is as for ``conv2d``.

    The layout is ``torch.channels_last_3d``. ``padding=((2, 0), (1, 1), (1, 1))`` pads the first axis causally, without a copy.
    """
    return _convolution(3, input, weight, bias, stride, padding, dilation, groups, activation, c, out, deterministic, out_dtype,
                        scale_x, scale_w, scale_d, use_fast_accum, workspace)


def conv_layout_copies() -> int:
    """Returns how many tensors eager convolutions of this process have copied because of their layout or address: inputs,
    residuals, weights and gradients. A model whose input and weights are channels_last copies none. Compiled graphs are not
    counted."""
    return layout_copies()


CONVOLUTIONS = {1: conv1d, 2: conv2d, 3: conv3d}
