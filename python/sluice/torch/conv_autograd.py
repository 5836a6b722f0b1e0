# SPDX-License-Identifier: Apache-2.0
"""The three products of a convolution (output, input's gradient, weight's gradient) for any layout and channel count, and its backward.

Operands are made channels_last, padded and of one type before a product runs; the padding of the result is cut off afterwards. The
backward prepares the output's gradient once for both of its products.
"""
from __future__ import annotations

import math
from typing import Any, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from ..convolutions import output_size
from ..errors import InvalidSize
from ..plans import Workspace
from ._conv_layout import (MOST_PHASES, Geometry, as_pixel_rows, images_of_rows, is_aligned, laid_as, lies_channels_last, narrowed,
                           new_channels_last, of_pixel_rows, operand, owned, padded, rows_of_patches, takes_patches)
from ._conv_ops import CONV, CONV_FUSED, CONV_GRADIENTS, CONV_INPUT, CONV_WEIGHT, add_conv_weight_
from ._library import LINEAR, MM, SCALED_MM, dispatch, takes_no_dispatcher, workspace_number
from ._walks import adds_to_main_grad, holder_of_main_grad, result_of, saved_of, splittable, walk_of, weight_gradient, with_owner
from .autograd import add_product_, refuse_second_derivative

_is_compiling = torch.compiler.is_compiling


class Extras(NamedTuple):
    """The arguments other than the bias that a forward convolution without a backward may have."""

    c: Optional[Tensor] = None
    activation: Optional[str] = None
    out: Optional[Tensor] = None
    scale_x: Optional[Tensor] = None
    scale_w: Optional[Tensor] = None
    scale_d: Optional[Tensor] = None
    use_fast_accum: bool = False


def _by_patches(weight_size: Tuple[int, ...], geometry: Geometry) -> bool:
    return takes_patches(weight_size[1], weight_size[2:], geometry)


def _padded_bias(bias: Optional[Tensor], count: int) -> Optional[Tensor]:
    if bias is None or bias.shape[0] == count:
        return bias
    return torch.nn.functional.pad(bias, (0, count - bias.shape[0]))


def _padded_scales(scales: Optional[Tensor], count: int, wide: int) -> Optional[Tensor]:
    """Returns the scales of a weight, one per filter, padded from ``count`` to ``wide`` filters; a single scale is unchanged."""
    if scales is None or scales.numel() == 1:
        return scales
    if scales.numel() != count:
        raise InvalidSize(f"scale_w has shape {tuple(scales.shape)} and must have one value, or one for each filter, ({count},)")
    return _padded_bias(scales.reshape(-1), wide)


def _weight_rows(weight: Tensor, rows: int, dtype: torch.dtype) -> Tensor:
    """Returns a weight as the matrix that patches are multiplied by: K rows of (taps, C). It is padded with zeros to ``rows`` rows,
    and each row to a multiple of 16 bytes."""
    count, columns = weight.shape[0], math.prod(weight.shape[1:])
    lying = operand(weight, weight.shape[1], dtype, may_have_pitch=False).movedim(1, -1).reshape(count, columns)
    wide = padded(columns, dtype)
    if (rows, wide) == (count, columns):
        return lying
    made = lying.new_zeros((rows, wide))
    made[:count, :columns] = lying
    return made


def _product_of_patches(dtype: torch.dtype, rows: Tensor, weight: Tensor, bias: Optional[Tensor], c: Optional[Tensor], extras: Extras,
                        workspace: int) -> Tensor:
    if rows.dtype.itemsize > 1:
        return dispatch(LINEAR, None, dtype, rows, weight, bias, c, extras.activation, False, extras.scale_d, workspace)
    one = rows.new_ones((1, 1), dtype=torch.float32)
    scale_x, scale_w = (one if scale is None else scale for scale in (extras.scale_x, extras.scale_w))
    if scale_x.numel() != 1:
        raise InvalidSize(f"scale_x has shape {tuple(scale_x.shape)} and must have one value")
    scale_x, scale_w = scale_x.reshape(1, 1), scale_w.reshape(1, -1)
    if scale_w.shape[1] > 1:  # a scaled product takes either one value for each operand, or vectors for both
        scale_x = scale_x.expand(rows.shape[0], 1).contiguous()
    return dispatch(SCALED_MM, None, dtype, rows, weight.t(), scale_x, scale_w, extras.use_fast_accum, bias, c, extras.activation, False,
                    extras.scale_d, workspace)


def input_operand(input: Tensor, weight_size: Tuple[int, ...], geometry: Geometry, dtype: torch.dtype) -> Tensor:
    """Returns an input in the layout that the products read: channels_last and padded, or a matrix of patches."""
    if _by_patches(weight_size, geometry):
        return rows_of_patches(input, weight_size[2:], dtype)
    return operand(input, padded(weight_size[1], dtype), dtype)


def filter_operand(weight: Tensor, geometry: Geometry, dtype: torch.dtype, out_dtype: Optional[torch.dtype] = None) -> Tensor:
    """Returns a weight in the layout that the products read. ``out_dtype``: the output's type, if it is not ``dtype``.

    A weight whose channels or filters are not a multiple of 8 is padded at each call. A cached copy could be stale: writes through
    ``.data`` or by a graph's replay cannot be detected."""
    rows = padded(weight.shape[0], out_dtype or dtype)
    if _by_patches(weight.shape, geometry):
        return _weight_rows(weight, rows, dtype)
    return operand(weight, padded(weight.shape[1], dtype), dtype, rows, may_have_pitch=False)


def forward_product(input: Tensor, weight: Tensor, bias: Optional[Tensor], sizes: Tuple[int, ...], weight_size: Tuple[int, ...],
                    geometry: Geometry, dtype: torch.dtype, workspace: int, extras: Optional[Extras] = None) -> Tensor:
    """Returns the output, of ``dtype``. ``input`` and ``weight`` come from ``input_operand`` and ``filter_operand``; ``sizes`` is the
    input's shape without padding."""
    plain, extras = extras is None, extras or Extras()
    count, wide, by_patches = weight_size[0], weight.shape[0], _by_patches(weight_size, geometry)
    c, out = extras.c, extras.out
    bias = _padded_bias(bias, wide)
    if extras.scale_w is not None:
        extras = extras._replace(scale_w=_padded_scales(extras.scale_w, count, wide))

    def run(into: Optional[Tensor], residual: Optional[Tensor]) -> Tensor:
        if plain:
            return dispatch(CONV, into, dtype, input, weight, geometry.numbers, bias, workspace)
        return dispatch(CONV_FUSED, into, dtype, input, weight, geometry.numbers, bias, workspace, residual, extras.activation,
                        extras.scale_x, extras.scale_w, extras.scale_d, extras.use_fast_accum)

    if c is None and out is None and not by_patches and sizes[0] != 0:  # most calls end here
        return narrowed(run(None, None), count)
    pixels = output_size(sizes[2:], weight_size[2:], *geometry)
    for name, tensor in (("c", c), ("out", out)):
        if tensor is not None and tensor.shape != (sizes[0], count, *pixels):
            raise InvalidSize(f"{name} has shape {tuple(tensor.shape)} and must have the output's, {(sizes[0], count, *pixels)}")
    # The kernel writes directly into ``out`` unless filters are padded or the address is not a multiple of 16 bytes.
    into = out if out is not None and wide == count and is_aligned(out) and not by_patches else None
    if c is not None:
        c = operand(c, wide, c.dtype, may_have_pitch=into is not None)
        c = c if into is None else laid_as(c, into)
    if sizes[0] == 0:
        return new_channels_last(input, (0, count, *pixels), dtype) if out is None else out
    if by_patches:
        if 0 in pixels:
            raise InvalidSize(f"input has shape {tuple(sizes)} and must hold at least one patch of {tuple(weight_size[2:])}")
        rows = None if c is None else as_pixel_rows(c)
        made = _product_of_patches(dtype, input, weight, bias, rows, extras, workspace)
        result = of_pixel_rows(made, sizes[0], pixels)
    else:
        result = run(into, c)
    result = narrowed(result, count)
    return result if out is None or out is result else out.copy_(result)


def _wide_input(sizes: Tuple[int, ...], weight: Tensor) -> Tuple[int, ...]:
    """Returns the shape of the input's gradient with padded channels."""
    return (sizes[0], weight.shape[1], *sizes[2:])


def _wide_weight(weight_size: Tuple[int, ...], grad: Tensor, input: Tensor) -> Tuple[int, ...]:
    """Returns the shape of the weight's gradient with padded filters and channels."""
    return (grad.shape[1], input.shape[1], *weight_size[2:])


def input_product(grad: Tensor, weight: Tensor, sizes: Tuple[int, ...], weight_size: Tuple[int, ...], geometry: Geometry,
                  dtype: torch.dtype, workspace: int) -> Tensor:
    """Returns the input's gradient of shape ``sizes`` and of ``dtype``. ``grad`` and ``weight`` are in the products' layout."""
    if sizes[0] == 0:
        return new_channels_last(grad, sizes, dtype)
    if _by_patches(weight_size, geometry):
        rows = dispatch(MM, None, dtype, as_pixel_rows(grad), weight, 1.0, 0.0, False, None, None, None, False, None, workspace)
        return images_of_rows(rows, sizes, weight_size[2:], dtype)
    made = dispatch(CONV_INPUT, None, dtype, grad, weight, _wide_input(sizes, weight), geometry.numbers, workspace)
    return narrowed(made, sizes[1])


def weight_product(grad: Tensor, input: Tensor, weight_size: Tuple[int, ...], geometry: Geometry, dtype: torch.dtype,
                   workspace: int) -> Tensor:
    """Returns the weight's gradient of shape ``weight_size`` and of ``dtype``, channels_last. ``grad`` and ``input`` are in the
    products' layout."""
    if grad.shape[0] == 0:
        return new_channels_last(grad, weight_size, dtype).zero_()
    if _by_patches(weight_size, geometry):
        rows = dispatch(MM, None, dtype, as_pixel_rows(grad).t(), input, 1.0, 0.0, False, None, None, None, False, None, workspace)
        columns = math.prod(weight_size[1:])
        return rows[:weight_size[0], :columns].unflatten(1, (*weight_size[2:], weight_size[1])).movedim(-1, 1)
    made = dispatch(CONV_WEIGHT, None, dtype, grad, input, _wide_weight(weight_size, grad, input), geometry.numbers, workspace)
    return narrowed(made, weight_size[1], weight_size[0])


def both_products(grad: Tensor, input: Tensor, weight: Tensor, sizes: Tuple[int, ...], weight_size: Tuple[int, ...], geometry: Geometry,
                  input_type: torch.dtype, weight_type: torch.dtype, workspace: int) -> Tuple[Tensor, Tensor]:
    """Returns the gradients of input and weight, as ``input_product`` and ``weight_product`` do."""
    if takes_no_dispatcher(grad) or sizes[0] == 0 or _by_patches(weight_size, geometry):
        return (input_product(grad, weight, sizes, weight_size, geometry, input_type, workspace),
                weight_product(grad, input, weight_size, geometry, weight_type, workspace))
    one, other = CONV_GRADIENTS(grad, input, weight, _wide_input(sizes, weight), _wide_weight(weight_size, grad, input),
                                geometry.numbers, workspace, input_type, weight_type)
    return narrowed(one, sizes[1]), narrowed(other, weight_size[1], weight_size[0])


def add_weight_product_(total: Tensor, grad: Tensor, input: Tensor, geometry: Geometry, deterministic: bool, workspace: int) -> None:
    """Adds the weight's gradient to an fp32 ``total`` of the weight's shape. The kernel adds if ``total`` is channels_last and
    nothing is padded. Else a kernel computes the gradient in fp32, and torch adds it."""
    size = tuple(total.shape)
    exact = size[0] == grad.shape[1] and lies_channels_last(total, may_have_pitch=False)
    if _by_patches(size, geometry):
        if exact and input.shape[1] == math.prod(size[1:]):
            add_product_(total.movedim(1, -1).view(size[0], -1), as_pixel_rows(grad).t(), input, deterministic, workspace)
            return
    elif exact and size[1] == input.shape[1]:
        add_conv_weight_(total, grad, input, geometry, deterministic, workspace)
        return
    total.add_(weight_product(grad, input, size, geometry, torch.float32, workspace))


def check_phases(weight: Tensor, geometry: Geometry) -> None:
    """Raises ``InvalidSize`` if the data gradient has more than ``MOST_PHASES`` phases (one per offset within the stride)."""
    phases = math.prod(geometry.stride)
    if phases > MOST_PHASES and not _by_patches(weight.shape, geometry):
        raise InvalidSize(f"stride {geometry.stride} makes {phases} phases of the input's gradient and at most {MOST_PHASES} are launched "
                          "at once: detach() the input, or use torch's convolution")


def differentiable_convolution(input: Tensor, weight: Tensor, bias: Optional[Tensor], geometry: Geometry, dtype: torch.dtype,
                               deterministic: bool, workspace: Optional[Workspace]) -> Tensor:
    """Applies ``ConvFunction``. Eager autograd keeps the workspace alive for the backward."""
    if input.requires_grad:  # raises in the forward rather than in the backward
        check_phases(weight, geometry)
    call = (geometry, dtype, deterministic, workspace_number(workspace), None if _is_compiling() else workspace)
    return result_of(ConvFunction.apply(input, weight, bias, call))


@splittable
class ConvFunction(torch.autograd.Function):
    """A convolution with a backward, computed in 16 bits. Gradients are rounded once, from the accumulators to the types of input,
    weight and bias. ``call`` holds geometry, type, ``deterministic``, the workspace's address, and the object that keeps the workspace
    alive. It is one tuple, because autograd's overhead grows with each argument.

    If ``weight.main_grad`` is an fp32 tensor of the weight's shape when the backward runs, the weight's gradient is added to it.
    ``weight.grad`` then stays as it is, and ``weight.grad_added_to_main_grad`` becomes True.
    """

    @staticmethod
    def forward(ctx: Any, input: Tensor, weight: Tensor, bias: Optional[Tensor], call: tuple) -> Any:
        geometry, dtype, _, workspace, _ = call
        sizes, weight_size = tuple(input.shape), tuple(weight.shape)
        ctx.call, ctx.sizes, ctx.types = call, (sizes, weight_size), (input.dtype, weight.dtype, None if bias is None else bias.dtype)
        ctx.holder = holder_of_main_grad(weight)
        read = input_operand(input, weight_size, geometry, dtype)
        filters = filter_operand(weight, geometry, dtype)
        # Saves only the operands that a gradient will need.
        needs = ctx.needs_input_grad
        result = owned(forward_product(read, filters, bias, sizes, weight_size, geometry, dtype, workspace))
        return with_owner(ctx, result, read if needs[1] else None, filters if needs[0] else None)

    @staticmethod
    def backward(ctx: Any, grad_output: Optional[Tensor], owner: Optional[Tensor] = None) -> tuple:
        refuse_second_derivative()
        read, filters = saved_of(ctx, 2)
        if grad_output is None:
            return None, None, None, None
        geometry, dtype, deterministic, workspace, _ = ctx.call
        geometry = Geometry(*geometry)  # torch.compile turns it into a plain tuple
        (sizes, weight_size), (input_type, weight_type, bias_type) = ctx.sizes, ctx.types
        grad_input = grad_weight = grad_bias = None
        grad, walk = operand(grad_output, padded(weight_size[0]), dtype), walk_of(ctx)
        if walk.input and walk.weight and not adds_to_main_grad(ctx.holder):
            grad_input, grad_weight = both_products(grad, read, filters, sizes, weight_size, geometry, input_type, weight_type, workspace)
        else:
            if walk.input:
                grad_input = input_product(grad, filters, sizes, weight_size, geometry, input_type, workspace)
            if walk.weight:
                grad_weight = weight_gradient(
                    ctx.holder, weight_type, walk, lambda made_type: weight_product(grad, read, weight_size, geometry, made_type, workspace),
                    lambda total: add_weight_product_(total, grad, read, geometry, deterministic, workspace))
        if walk.bias:
            grad_bias = grad_output.sum((0, *range(2, grad_output.dim())), dtype=bias_type)
        return grad_input, grad_weight, grad_bias, None
