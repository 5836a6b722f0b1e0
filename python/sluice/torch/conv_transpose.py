# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions, with the signatures of ``torch.nn.functional``. The forward is the data gradient (dgrad) of a convolution.

Weight and geometry are those of that convolution. So the backward runs the convolution itself, for the input's gradient, and its
weight gradient (wgrad).
"""
from __future__ import annotations

from typing import Any, Optional, Tuple

import torch
from torch import Tensor

from .._arguments import shown
from ..errors import InvalidSize
from ..plans import Workspace
from ._conv_layout import (Geometry, Numbers, check_axes, check_bias, check_groups, check_tensor, geometry_of, numbers_of, operand,
                           owned, padded)
from ._entry import op
from ._library import check_empty_batch, is_empty_batch, workspace_number
from ._walks import result_of, saved_of, splittable, walk_of, with_owner
from .autograd import needs_grad, refuse_second_derivative
from .conv import computed_in
from .conv_autograd import check_phases, filter_operand, forward_product, input_operand, input_product, weight_product

__all__ = ["conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]


@splittable
class TransposedFunction(torch.autograd.Function):
    """A transposed convolution without its bias, and its backward. Gradients have the types of input and weight."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, weight: Tensor, sizes: Tuple[int, ...], geometry: Geometry, dtype: torch.dtype, workspace: int,
                kept: Optional[Workspace]) -> Any:
        ctx.geometry, ctx.dtype, ctx.sizes, ctx.workspace, ctx.kept = geometry, dtype, sizes, workspace, kept
        ctx.weight_size, ctx.input_type, ctx.weight_type = tuple(weight.shape), input.dtype, weight.dtype
        read, filters = operand(input, padded(weight.shape[0]), dtype), filter_operand(weight, geometry, dtype)
        result = owned(input_product(read, filters, sizes, ctx.weight_size, geometry, dtype, workspace))
        return with_owner(ctx, result, read if ctx.needs_input_grad[1] else None, filters if ctx.needs_input_grad[0] else None)

    @staticmethod
    def backward(ctx: Any, grad_output: Optional[Tensor], owner: Optional[Tensor] = None) -> tuple:
        refuse_second_derivative()
        read, filters = saved_of(ctx, 2)
        if grad_output is None:
            return None, None, None, None, None, None, None
        geometry = Geometry(*ctx.geometry)
        grad = input_operand(grad_output, ctx.weight_size, geometry, ctx.dtype)
        grad_input, grad_weight, walk = None, None, walk_of(ctx)
        if walk.input:
            grad_input = forward_product(grad, filters, None, ctx.sizes, ctx.weight_size, geometry, ctx.input_type, ctx.workspace)
        if walk.weight:
            grad_weight = weight_product(read, grad, ctx.weight_size, geometry, ctx.weight_type, ctx.workspace)
        return grad_input, grad_weight, None, None, None, None, None


def _within_stride(geometry: Geometry, more: Tuple[int, ...]) -> Tuple[Geometry, Tuple[int, ...]]:
    """Returns a geometry whose convolution has one output per pixel of the input, and zeros to append to the result per axis.
    An ``output_padding`` that reaches the stride is first taken off the padding at the end; the rest is appended as zeros."""
    beyond = [max(0, extra - step + 1) for extra, step in zip(more, geometry.stride)]
    taken = [min(after, extra) for after, extra in zip(geometry.padding_after, beyond)]
    after = tuple(first - some for first, some in zip(geometry.padding_after, taken))
    return geometry._replace(padding_after=after), tuple(extra - some for extra, some in zip(beyond, taken))


def _transposed(axes: int, input: Tensor, weight: Tensor, bias: Optional[Tensor], stride: Any, padding: Any, output_padding: Any,
                groups: Any, dilation: Any, workspace: Optional[Workspace]) -> Tensor:
    check_tensor("weight", weight, axes)
    check_tensor("input", input)
    if input.dim() == axes + 1:  # one image without a batch dimension, as in torch
        return _transposed(axes, input.unsqueeze(0), weight, bias, stride, padding, output_padding, groups, dilation, workspace).squeeze(0)
    check_axes("input", input, axes)
    check_groups(groups)
    if input.shape[1] != weight.shape[0]:
        raise InvalidSize(f"input has {input.shape[1]} channels and weight has shape {tuple(weight.shape)}: its first dimension must be "
                          "the same number")
    check_bias(bias, weight.shape[1])
    geometry = geometry_of(axes, weight.shape[2:], stride, padding, dilation)
    check_phases(weight, geometry)
    more = numbers_of("output_padding", output_padding, axes, 0)
    if any(extra >= max(step, d) for extra, step, d in zip(more, geometry.stride, geometry.dilation)):
        raise InvalidSize(f"output_padding = {shown(output_padding)} must be less than stride {geometry.stride} or dilation "
                          f"{geometry.dilation}, on each axis")
    sizes = tuple((size - 1) * step - before - after + d * (k - 1) + extra + 1 for size, step, before, after, d, k, extra
                  in zip(input.shape[2:], geometry.stride, geometry.padding, geometry.padding_after, geometry.dilation, weight.shape[2:], more))
    if 0 in input.shape[1:] or min(sizes) < 1:
        raise InvalidSize(f"the output would have the size {sizes}: give a larger input than {tuple(input.shape)}, or less padding")
    geometry, zeros = _within_stride(geometry, more)
    sizes = tuple(size - behind for size, behind in zip(sizes, zeros))
    sizes, dtype = (input.shape[0], weight.shape[1], *sizes), computed_in(input, weight)
    if is_empty_batch(input):
        check_empty_batch(_transposed, axes, input, weight, bias, stride, padding, output_padding, groups, dilation, None, images=(1,),
                          cast=(1, 2), dtype=dtype)
    if needs_grad(input, weight, bias, None):
        result = result_of(TransposedFunction.apply(input, weight, sizes, geometry, dtype, workspace_number(workspace),
                                                    None if torch.compiler.is_compiling() else workspace))
    else:
        result = input_product(operand(input, padded(weight.shape[0]), dtype), filter_operand(weight, geometry, dtype), sizes,
                               tuple(weight.shape), geometry, dtype, workspace_number(workspace))
    if any(zeros):
        sides = [side for behind in reversed(zeros) for side in (0, behind)]
        result = torch.nn.functional.pad(result.movedim(1, -1), (0, 0, *sides)).movedim(-1, 1)
    return result if bias is None else result + bias.to(dtype).view(-1, *[1] * axes)


@op
def conv_transpose1d(input: Tensor, weight: Tensor, bias: Optional[Tensor] = None, stride: Numbers = 1, padding: Numbers = 0,
                     output_padding: Numbers = 0, groups: int = 1, dilation: Numbers = 1, *,
                     workspace: Optional[Workspace] = None) -> Tensor:
    """As ``conv_transpose2d``, for an input of (N, C, L) and a weight of (C, K, S)."""
    return _transposed(1, input, weight, bias, stride, padding, output_padding, groups, dilation, workspace)


@op
def conv_transpose2d(input: Tensor, weight: Tensor, bias: Optional[Tensor] = None, stride: Numbers = 1, padding: Numbers = 0,
                     output_padding: Numbers = 0, groups: int = 1, dilation: Numbers = 1, *,
                     workspace: Optional[Workspace] = None) -> Tensor:
    """Returns the transposed convolution of ``input``, (N, C, H, W), and ``weight``, (C, K, R, S), as
    ``torch.nn.functional.conv_transpose2d``: the data gradient of a convolution, in one launch. The output is channels_last.

    Types, layouts and padding of channels are as for ``conv2d``. If the patches overlap, the product of the strides is at most 8. torch
    adds the bias in a separate kernel. It is differentiable. Raises ``InvalidSize``, ``InvalidType`` or ``InvalidArgument``.
    """
    return _transposed(2, input, weight, bias, stride, padding, output_padding, groups, dilation, workspace)


@op
def conv_transpose3d(input: Tensor, weight: Tensor, bias: Optional[Tensor] = None, stride: Numbers = 1, padding: Numbers = 0,
                     output_padding: Numbers = 0, groups: int = 1, dilation: Numbers = 1, *,
                     workspace: Optional[Workspace] = None) -> Tensor:
    """As ``conv_transpose2d``, for an input of (N, C, D, H, W) and a weight of (C, K, T, R, S)."""
    return _transposed(3, input, weight, bias, stride, padding, output_padding, groups, dilation, workspace)
