# SPDX-License-Identifier: Apache-2.0
"""Quantisers to fp8 with fp32 scales. Each is one fused kernel, and its results have the layouts that ``scaled_mm`` takes.

The scale of a group of elements is ``amax / 448``, where amax is the largest magnitude, at least 1e-4. An element becomes its value
times ``448 / amax``, rounded to nearest even. Divisions multiply by the reciprocal, as torch does on a GPU. So results are
bit-identical to the usual quantisers written in torch, such as DeepGEMM's casts. ``quantize_both`` is for training: its amax is at least
1e-12, because gradients are small.
"""
from __future__ import annotations

import math
from typing import NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from .. import _binding as f
from .._arguments import shown
from .._names import GRANULARITIES
from ..errors import InvalidArgument, InvalidSize, InvalidType
from ..plans import Workspace
from ._entry import checked, op
from ._library import (QUANTIZE, QUANTIZE_STATIC, SILU_MUL, SILU_MUL_QUANTIZE, _define, check_out, half_of_columns, scales_shape,
                       takes_no_dispatcher, workspace_number, written)
from .autograd import refuse_grad

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
LARGEST = {E4M3: 448.0, E5M2: 57344.0}
SMALLEST_OF_BOTH = 1e-12  # the least amax of quantize_both
TOKENS = 128  # the columns' order is padded with zeros to a multiple of as many tokens
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
    return _reference(input, granularity, E4M3, False, 1e-4)


def _reference(input: Tensor, granularity: str, dtype: torch.dtype, power_of_two: bool, smallest: float) -> Tuple[Tensor, Tensor]:
    shape = scales_shape(input.shape, granularity)
    columns = input.shape[-1]
    rows = math.prod(input.shape[:-1])
    values = input.reshape(rows, columns).float().contiguous()  # a transposed one comes from quantize_both_reference
    height = {"tensor": max(rows, 1), "128x128": 128}.get(granularity, 1)
    width = 128 if granularity in ("1x128", "128x128") else max(columns, 1)
    # A group without elements has the scale of zeros.
    missing = 1 if granularity == "tensor" and rows == 0 else -rows % height
    beyond = 1 if granularity in ("tensor", "row") and columns == 0 else -columns % width
    padded = torch.nn.functional.pad(values, (0, beyond, 0, missing))
    groups = padded.view(padded.shape[0] // height, height, padded.shape[1] // width, width)
    amax = groups.abs().amax((1, 3), keepdim=True).clamp(smallest)
    largest = LARGEST[dtype]
    multiplier, scales = amax.reciprocal() * largest, amax * (1.0 / largest)
    if power_of_two:
        cleared = (multiplier.view(torch.int32) & 0x7F800000).view(torch.float32)
        multiplier = torch.where(multiplier.isnan(), multiplier, cleared)
        scales = multiplier.reciprocal()
    scaled = (groups * multiplier).view(padded.shape)[:rows, :columns]
    # cvt.satfinite saturates every value beyond the largest finite number, infinities too.
    output = scaled.clamp(-largest, largest).to(dtype)
    return output.view(input.shape), scales.reshape(shape)


# ---- both orders, for training
class BothOrders(NamedTuple):
    """A matrix of T rows and K columns quantised twice: along its rows, and along its columns. ``sums`` is None if it was not asked for."""

    rows: Tensor
    """fp8 codes of shape (T, K)."""
    row_scales: Tensor
    """fp32 scales of ``rows``: () for "tensor", (T, 1) for "row", (T, ceil(K/128)) for "1x128", (ceil(T/128), ceil(K/128)) for "128x128"."""
    columns: Tensor
    """fp8 codes of shape (K, T rounded up to a multiple of 128): the transposed matrix, with zeros behind T."""
    column_scales: Tensor
    """fp32 scales of ``columns``, with the shapes of ``row_scales`` for T and K exchanged. Those of "1x128" are stored by columns, as
    products by 1x128 of both sides take them."""
    sums: Optional[Tensor]
    """fp32 sums of the columns, of shape (K,)."""


def padded_tokens(rows: int) -> int:
    """Returns the number of tokens in the columns' order of a matrix of ``rows`` rows."""
    return -(-rows // TOKENS) * TOKENS


class Source(NamedTuple):
    """The source of a matrix: an input alone (``gated`` False), gate and up, or these and a gradient (``quantize_both``)."""

    gated: bool = False
    gradient: Optional[Tensor] = None

    def shape(self, input: Tensor) -> Tuple[int, int]:
        tokens, width = input.shape
        return tokens, width // 2 if self.gated and self.gradient is None else width

    def matrix(self, input: Tensor) -> Tensor:
        """Returns the matrix, computed by torch."""
        if not self.gated:
            return input
        gate, up = input.float().chunk(2, -1)
        share = gate.sigmoid()
        if self.gradient is None:
            return (gate * share * up).to(input.dtype)
        gradient = self.gradient.float()
        return torch.cat([gradient * (up * (share * (1 + gate * (1 - share)))), gradient * (gate * share)], -1).to(input.dtype)


THE_INPUT = Source()


def new_both(input: Tensor, granularity: str, dtype: torch.dtype, rows: bool, columns: bool, sums: bool, source: Source = THE_INPUT) -> tuple:
    """Returns new tensors in the order of ``BothOrders``; None for those that are not wanted."""
    tokens, width = source.shape(input)
    made: list = [None] * 5
    if rows:
        made[0] = input.new_empty((tokens, width), dtype=dtype)
        made[1] = input.new_empty(scales_shape((tokens, width), granularity), dtype=torch.float32)
    if columns:
        made[2] = input.new_empty((width, padded_tokens(tokens)), dtype=dtype)
        shape = scales_shape((width, tokens), granularity)
        made[3] = (input.new_empty(shape[::-1], dtype=torch.float32).t() if granularity == "1x128" else
                   input.new_empty(shape, dtype=torch.float32))
    if sums:
        made[4] = input.new_empty((width,), dtype=torch.float32)
    return tuple(made)


def _both_on_gpu(input: Tensor, granularity: str, dtype: torch.dtype, power_of_two: bool, rows: bool, columns: bool, sums: bool,
                 workspace: int, source: Source = THE_INPUT) -> tuple:
    """Quantises by the kernel. Returns the tensors of ``BothOrders``; None for those that are not wanted. The two scales of "tensor" are
    one tensor."""
    if input.numel() == 0:  # the kernel writes nothing, scales neither
        made = list(_both_reference(source.matrix(input), granularity, dtype, power_of_two, sums))
        return (*(made[:2] if rows else (None, None)), *(made[2:4] if columns else (None, None)), made[4])
    made = list(new_both(input, granularity, dtype, rows, columns, False, source))
    if granularity == "tensor":
        scales, scales_t = made[1] if rows else made[3], None
        made[1], made[3] = scales if rows else None, scales if columns else None
    else:
        scales, scales_t = made[1], made[3].t() if columns and granularity == "1x128" else made[3]
    tokens, width = source.shape(input)
    of_tiles = input.new_empty((padded_tokens(tokens) // TOKENS, width), dtype=torch.float32) if sums else None
    f.quantize_both(f.INPUT, input, f.OUTPUT, made[0], f.SCALES, scales, f.OUTPUT_T, made[2], f.SCALES_T, scales_t,
                    f.GRANULARITY, GRANULARITIES.index(granularity), f.POWERS_OF_TWO, power_of_two, f.SUM, of_tiles, f.WORKSPACE, workspace,
                    f.GATE, _SILU_GATE if source.gated else _NO_GATE, f.GRAD_OUTPUT, source.gradient)
    return (*made[:4], None if of_tiles is None else of_tiles.sum(0))


def whole(made: tuple, input: Tensor, one_scale: bool = False) -> tuple:
    """Returns tensors as an op must: with an empty one in place of None, and without the same one twice (``one_scale``)."""
    made = (*made[:3], made[3].clone(), made[4]) if one_scale else made
    return tuple(input.new_empty((0,), dtype=torch.float32) if one is None else one for one in made)


QUANTIZE_BOTH = _define(
    "quantize_both(Tensor input, str granularity, ScalarType dtype, bool power_of_two, bool sums, int workspace, bool gated, Tensor? gradient) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    lambda input, granularity, dtype, power_of_two, sums, workspace, *source:
    whole(_both_on_gpu(input, granularity, dtype, power_of_two, True, True, sums, workspace, Source(*source)), input, granularity == "tensor"),
    lambda input, granularity, dtype, power_of_two, sums, workspace, *source:
    whole(new_both(input, granularity, dtype, True, True, sums, Source(*source)), input))


def _check_both(input: Tensor, granularity: str, dtype: torch.dtype, source: Source) -> None:
    if input.dim() != 2 or input.layout is not torch.strided:
        raise InvalidSize(f"input has shape {tuple(input.shape)} and must be a matrix, which has a second order: pass "
                          "input.reshape(-1, input.shape[-1])")
    if input.dtype not in (torch.bfloat16, torch.float16, torch.float32):
        raise InvalidType(f"input is {input.dtype} and must be bfloat16, float16 or float32: convert it")
    if dtype not in LARGEST:
        raise InvalidArgument(f"dtype = {shown(dtype)} must be torch.float8_e4m3fn or torch.float8_e5m2")
    scales_shape(input.shape, granularity)
    gradient = source.gradient
    if not source.gated and gradient is not None:
        raise InvalidArgument("gradient is given and gated = False: it is that of silu(gate) * up; pass gated=True, or leave it out")
    if source.gated and input.dtype is torch.float32:
        raise InvalidType("input is torch.float32 and gated = True: gate and up must be bfloat16 or float16: convert it")
    if source.gated and input.shape[1] % 2 != 0:
        raise InvalidSize(f"input has shape {tuple(input.shape)} and gated = True: its columns are gate and up, as many each")
    wanted = (input.shape[0], input.shape[1] // 2)
    if gradient is not None and gradient.shape != wanted:
        raise InvalidSize(f"gradient has shape {tuple(gradient.shape)} and must have {wanted}, that of silu(gate) * up")
    if gradient is not None and gradient.dtype is not input.dtype:
        raise InvalidType(f"gradient is {gradient.dtype} and must be {input.dtype} as input is: convert it")


@op
def quantize_both(input: Tensor, granularity: str = "1x128", *, dtype: torch.dtype = E4M3, power_of_two: bool = False,
                  sums: bool = False, gated: bool = False, gradient: Optional[Tensor] = None,
                  workspace: Optional[Workspace] = None) -> BothOrders:
    """Quantises a matrix along its rows and along its columns, as the products of a training step need it. Returns ``BothOrders``.

    - ``input``: (T, K) in bf16, fp16 or fp32 on a GPU. Its last dimension is contiguous, its rows begin at multiples of 16 bytes, and K is
      a multiple of 16 (of 32 with ``gated`` and no ``gradient``).
    - ``granularity``: the elements that share a scale, as for ``quantize``. "row" and "1x128" follow the order: in ``columns`` a scale is
      that of a column, or of 128 of its values.
    - ``dtype``: torch.float8_e4m3fn, whose largest number is 448, or torch.float8_e5m2, whose largest is 57344.
    - ``power_of_two``: True rounds the factor that elements are multiplied by down to a power of two. The scale is its exact reciprocal.
    - ``sums``: True also returns the sums of the columns in fp32, which are a bias's gradient.
    - ``gated``: True quantises ``silu(gate) * up``, which has half the columns: gate is the first half of the input's, up the second, in
      bf16 or fp16. It is rounded to the input's type first, but not written. Its exponential is approximate, so its bits are not torch's.
    - ``gradient``: with ``gated``, the gradient of ``silu(gate) * up``, (T, K / 2), of the input's type, and stored as the input must be. The
      gradients of gate and of up are quantised then, side by side: (T, K).
    - ``workspace``: by default the library lends one.

    A scale is amax / largest, where amax is the group's largest magnitude, at least 1e-12. Results saturate. A NaN makes its group NaN. An
    infinity makes its group's scale infinite, itself NaN and its neighbours zero.

    There is no backward: an input that requires a gradient raises ``InvalidArgument``. Raises ``InvalidSize`` for an input that is not a
    matrix or a gradient of another shape, ``InvalidType`` for one of another type, and ``InvalidArgument`` for another granularity or dtype.
    """
    if torch.is_grad_enabled() and (input.requires_grad or getattr(gradient, "requires_grad", False)):
        refuse_grad("quantize_both")
    source = Source(gated, gradient)
    _check_both(input, granularity, dtype, source)
    if takes_no_dispatcher(input):
        return BothOrders(*_both_on_gpu(input, granularity, dtype, power_of_two, True, True, sums, workspace_number(workspace), source))
    made = QUANTIZE_BOTH(input, granularity, dtype, power_of_two, sums, workspace_number(workspace), gated, gradient)
    return BothOrders(*made[:4], made[4] if sums else None)


@checked
def quantize_both_reference(input: Tensor, granularity: str = "1x128", *, dtype: torch.dtype = E4M3, power_of_two: bool = False,
                            sums: bool = False, gated: bool = False, gradient: Optional[Tensor] = None) -> BothOrders:
    """Returns the result of ``quantize_both``, computed by torch's own operations on any device: the reference for tests. All bits are
    the same, but those of ``sums``, which are added in another order, and those of ``gated``, whose exponential is torch's."""
    source = Source(gated, gradient)
    _check_both(input, granularity, dtype, source)
    return _both_reference(source.matrix(input), granularity, dtype, power_of_two, sums)


def _both_reference(input: Tensor, granularity: str, dtype: torch.dtype, power_of_two: bool, sums: bool) -> BothOrders:
    rows, row_scales = _reference(input, granularity, dtype, power_of_two, SMALLEST_OF_BOTH)
    codes, column_scales = _reference(input.t(), granularity, dtype, power_of_two, SMALLEST_OF_BOTH)
    columns = input.new_zeros((input.shape[1], padded_tokens(input.shape[0])), dtype=dtype)
    columns[:, :input.shape[0]] = codes
    if granularity == "1x128":
        column_scales = column_scales.new_empty(column_scales.shape[::-1]).t().copy_(column_scales)
    return BothOrders(rows, row_scales, columns, column_scales, input.sum(0, dtype=torch.float32) if sums else None)
