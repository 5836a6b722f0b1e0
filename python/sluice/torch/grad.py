# SPDX-License-Identifier: Apache-2.0
"""Gradients of convolutions as functions, with the names and signatures of ``torch.nn.grad``.

As for ``conv2d``, a tensor that is not channels_last is copied once, and channels that are not a multiple of 8 are padded. The results
are channels_last. There is no second derivative.
"""
from __future__ import annotations

from typing import Any, Optional, Sequence

import torch
from torch import Tensor

from ..convolutions import output_size
from ..errors import InvalidArgument, InvalidSize, InvalidType
from ..plans import Workspace
from ._conv_layout import Numbers, Padding, check_groups, check_tensor, geometry_of, operand, padded, sizes_of
from ._entry import op
from ._library import check_empty_batch, is_empty_batch, workspace_number
from .autograd import needs_grad, refuse_grad
from .conv_autograd import add_weight_product_, filter_operand, input_operand, input_product, weight_product

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]


def _check(name: str, other: Tensor, grad_output: Tensor, axes: int) -> None:
    check_tensor(name, other, axes)
    check_tensor("grad_output", grad_output, axes)
    if grad_output.dtype is not other.dtype or grad_output.dtype not in (torch.bfloat16, torch.float16):
        raise InvalidType(f"{name} is {other.dtype} and grad_output is {grad_output.dtype}: gradients of convolutions take bfloat16 or "
                          "float16, the same for both; convert them")
    if needs_grad(other, grad_output, None, None):
        refuse_grad("a gradient of a convolution")


def _check_output(grad_output: Tensor, sizes: Sequence[int], weight_size: Sequence[int], geometry: Any) -> None:
    wanted = (sizes[0], weight_size[0], *output_size(sizes[2:], weight_size[2:], *geometry))
    if tuple(grad_output.shape) != wanted:
        raise InvalidSize(f"grad_output has shape {tuple(grad_output.shape)} and must have the output's, {wanted}")
    if sizes[1] != weight_size[1]:
        raise InvalidSize(f"input has {sizes[1]} channels and weight has {weight_size[1]}: they must be the same number")


def _input(axes: int, input_size: Sequence[int], weight: Tensor, grad_output: Tensor, stride: Any, padding: Any, dilation: Any,
           groups: Any, out_dtype: Optional[torch.dtype], workspace: Optional[Workspace]) -> Tensor:
    _check("weight", weight, grad_output, axes)
    check_groups(groups)
    sizes, weight_size = tuple(sizes_of("input_size", input_size, axes)), tuple(weight.shape)
    if is_empty_batch(grad_output) and sizes[0] == 0:
        check_empty_batch(_input, axes, (1, *sizes[1:]), weight, grad_output, stride, padding, dilation, groups, out_dtype, None, images=(3,))
    geometry = geometry_of(axes, weight_size[2:], stride, padding, dilation)
    _check_output(grad_output, sizes, weight_size, geometry)
    dtype = grad_output.dtype
    grad = operand(grad_output, padded(weight_size[0]), dtype)
    return input_product(grad, filter_operand(weight, geometry, dtype), sizes, weight_size, geometry, out_dtype or dtype,
                         workspace_number(workspace))


def _weight(axes: int, input: Tensor, weight_size: Sequence[int], grad_output: Tensor, stride: Any, padding: Any, dilation: Any,
            groups: Any, out_dtype: Optional[torch.dtype], total: Optional[Tensor], deterministic: bool,
            workspace: Optional[Workspace]) -> Tensor:
    _check("input", input, grad_output, axes)
    check_groups(groups)
    if is_empty_batch(grad_output):
        check_empty_batch(_weight, axes, input, weight_size, grad_output, stride, padding, dilation, groups, out_dtype, total, deterministic,
                          None, images=(1, 3))
    size, dtype = tuple(sizes_of("weight_size", weight_size, axes)), grad_output.dtype
    geometry = geometry_of(axes, size[2:], stride, padding, dilation)
    _check_output(grad_output, input.shape, size, geometry)
    grad, read = operand(grad_output, padded(size[0]), dtype), input_operand(input, size, geometry, dtype)
    if total is None:
        return weight_product(grad, read, size, geometry, out_dtype or dtype, workspace_number(workspace))
    check_tensor("total", total, axes)
    if total.dtype is not torch.float32 or out_dtype not in (None, torch.float32):
        raise InvalidType(f"total is {total.dtype} and must be torch.float32: gradients are added to it in fp32; make it .float()")
    if tuple(total.shape) != size:
        raise InvalidSize(f"total has shape {tuple(total.shape)} and must have weight_size, {size}")
    if needs_grad(total, None, None, None):
        raise InvalidArgument("total wants a gradient, and what is added to it has no backward: pass total.detach()")
    add_weight_product_(total, grad, read, geometry, deterministic, workspace_number(workspace))
    return total


@op
def conv1d_input(input_size: Sequence[int], weight: Tensor, grad_output: Tensor, stride: Numbers = 1, padding: Padding = 0,
                 dilation: Numbers = 1, groups: int = 1, *, out_dtype: Optional[torch.dtype] = None,
                 workspace: Optional[Workspace] = None) -> Tensor:
    """As ``conv2d_input``, for an input of (N, C, L) and a weight of (K, C, S)."""
    return _input(1, input_size, weight, grad_output, stride, padding, dilation, groups, out_dtype, workspace)


@op
def conv1d_weight(input: Tensor, weight_size: Sequence[int], grad_output: Tensor, stride: Numbers = 1, padding: Padding = 0,
                  dilation: Numbers = 1, groups: int = 1, *, out_dtype: Optional[torch.dtype] = None,
                  total: Optional[Tensor] = None, deterministic: bool = True, workspace: Optional[Workspace] = None) -> Tensor:
    """As ``conv2d_weight``, for an input of (N, C, L) and a weight of (K, C, S)."""
    return _weight(1, input, weight_size, grad_output, stride, padding, dilation, groups, out_dtype, total, deterministic,
                   workspace)


@op
def conv2d_input(input_size: Sequence[int], weight: Tensor, grad_output: Tensor, stride: Numbers = 1, padding: Padding = 0,
                 dilation: Numbers = 1, groups: int = 1, *, out_dtype: Optional[torch.dtype] = None,
                 workspace: Optional[Workspace] = None) -> Tensor:
    """Returns the gradient of a convolution's input, of shape ``input_size``, (N, C, H, W), as ``torch.nn.grad.conv2d_input``.

    - ``weight``: (K, C, R, S); ``grad_output``: of the output's shape; both in bf16 or fp16.
    - ``stride``, ``padding``, ``dilation``, ``groups``: as for ``conv2d``. The product of the strides is at most 8.
    - ``out_dtype``: ``grad_output``'s type by default; also fp32.
    """
    return _input(2, input_size, weight, grad_output, stride, padding, dilation, groups, out_dtype, workspace)


@op
def conv2d_weight(input: Tensor, weight_size: Sequence[int], grad_output: Tensor, stride: Numbers = 1, padding: Padding = 0,
                  dilation: Numbers = 1, groups: int = 1, *, out_dtype: Optional[torch.dtype] = None,
                  total: Optional[Tensor] = None, deterministic: bool = True, workspace: Optional[Workspace] = None) -> Tensor:
    """Returns the gradient of a convolution's weight, of shape ``weight_size``, (K, C, R, S), as ``torch.nn.grad.conv2d_weight``.

    - ``input``: (N, C, H, W); ``grad_output``: of the output's shape; both in bf16 or fp16.
    - ``stride``, ``padding``, ``dilation``, ``groups``: as for ``conv2d``.
    - ``out_dtype``: ``grad_output``'s type by default; also fp32.
    - ``total``: an fp32 tensor of shape ``weight_size``, to which the gradient is added and which is returned. The kernel itself adds if
      ``total`` is channels_last and channels are not padded; else torch adds.
    - ``deterministic``: False lets split-K slices be added to ``total`` in any order.
    """
    return _weight(2, input, weight_size, grad_output, stride, padding, dilation, groups, out_dtype, total, deterministic,
                   workspace)


@op
def conv3d_input(input_size: Sequence[int], weight: Tensor, grad_output: Tensor, stride: Numbers = 1, padding: Padding = 0,
                 dilation: Numbers = 1, groups: int = 1, *, out_dtype: Optional[torch.dtype] = None,
                 workspace: Optional[Workspace] = None) -> Tensor:
    """As ``conv2d_input``, for an input of (N, C, D, H, W) and a weight of (K, C, T, R, S)."""
    return _input(3, input_size, weight, grad_output, stride, padding, dilation, groups, out_dtype, workspace)


@op
def conv3d_weight(input: Tensor, weight_size: Sequence[int], grad_output: Tensor, stride: Numbers = 1, padding: Padding = 0,
                  dilation: Numbers = 1, groups: int = 1, *, out_dtype: Optional[torch.dtype] = None,
                  total: Optional[Tensor] = None, deterministic: bool = True, workspace: Optional[Workspace] = None) -> Tensor:
    """As ``conv2d_weight``, for an input of (N, C, D, H, W) and a weight of (K, C, T, R, S)."""
    return _weight(3, input, weight_size, grad_output, stride, padding, dilation, groups, out_dtype, total, deterministic,
                   workspace)
