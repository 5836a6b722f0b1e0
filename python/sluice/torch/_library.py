# SPDX-License-Identifier: Apache-2.0
"""The ops of namespace ``sluice`` for torch.compile: functional ones and ones that write into a given output, with
fake functions. Eager calls do not come here (functional.py): a dispatcher costs more than the launch."""
from __future__ import annotations

import math
from typing import Optional

import torch

from .. import _binding
from ..errors import InvalidArgument, InvalidSize
from ..plans import Workspace
from ..problems import ACTIVATIONS, GRANULARITIES, number_of

# Layouts decide whether a kernel can take an operand, so a compiler must leave them as they are.
_TAGS = (getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order),)
_library = torch.library.Library("sluice", "FRAGMENT")
# Tensors that calls take straight to the binding. Others (fake ones, wrapper subclasses) have no memory of their own and
# need the dispatcher.
PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))


def activation_number(name: Optional[str]) -> int:
    return 0 if name is None or name == "none" else number_of("activation", name, ACTIVATIONS)


def workspace_number(workspace: Optional[Workspace]) -> int:
    """As the binding and the ops take it; 0: one is lent."""
    return 0 if workspace is None else workspace.address


def check_out(out: torch.Tensor, dtype: Optional[torch.dtype]) -> None:
    """Of an output that the caller gave: it agrees with ``out_dtype``, if that is given too, and wants no gradient."""
    if dtype is not None and out.dtype is not dtype:
        raise InvalidArgument(f"out is {out.dtype} and out_dtype says {dtype}: give one of them")
    if out.requires_grad and torch.is_grad_enabled():
        raise InvalidArgument("out wants a gradient, and what is written into it has no backward: call it under "
                              "torch.no_grad(), or pass out.detach()")


def as_matrix(x: torch.Tensor) -> torch.Tensor:
    """Its leading dimensions as one. ``reshape(-1, n)`` is ambiguous to torch where n is 0."""
    columns = x.shape[-1]
    return x.reshape(-1, columns) if columns != 0 else x.reshape(math.prod(x.shape[:-1]), 0)


def written(*tensors: torch.Tensor) -> None:
    """Tells autograd what a kernel wrote into, as torch's own operations do: a backward that has saved it raises. Ops of
    torch.library tell nobody themselves; of a compiled graph the compiler knows."""
    if torch.compiler.is_compiling():
        return
    torch.autograd.graph.increment_version(tensors)


def _define(schema: str, body, fake) -> None:
    name = schema.partition("(")[0]
    _library.define(schema, tags=_TAGS)
    _library.impl(name, body, "CompositeExplicitAutograd")
    torch.library.register_fake(f"sluice::{name}", fake, lib=_library)


def _rows_columns(a: torch.Tensor, b: torch.Tensor) -> tuple:
    torch._check(a.dim() == b.dim() and a.dim() in (2, 3), lambda: "a and b must both be matrices or batches of them")
    torch._check(a.shape[-1] == b.shape[-2], lambda: "the columns of a must be as many as the rows of b")
    return (*a.shape[:-1], b.shape[-1])


# ---- mm ----
def _mm_out(a, b, out, bias, c, alpha, beta, activation, use_fast_accum, workspace=0) -> None:
    _binding.mm(a, b, out, bias, c, alpha, beta, activation_number(activation), use_fast_accum, workspace)


def _mm(a, b, bias, c, alpha, beta, out_dtype, activation, use_fast_accum, workspace=0) -> torch.Tensor:
    out = a.new_empty((*a.shape[:-1], b.shape[-1]), dtype=out_dtype)
    _mm_out(a, b, out, bias, c, alpha, beta, activation, use_fast_accum, workspace)
    return out


_define("mm(Tensor a, Tensor b, Tensor? bias, Tensor? c, float alpha, float beta, ScalarType out_dtype, str activation, "
        "bool use_fast_accum, int workspace=0) -> Tensor", _mm,
        lambda a, b, bias, c, alpha, beta, out_dtype, activation, use_fast_accum, workspace=0:
        a.new_empty(_rows_columns(a, b), dtype=out_dtype))
_define("mm_out(Tensor a, Tensor b, Tensor(out!) out, Tensor? bias, Tensor? c, float alpha, float beta, str activation, "
        "bool use_fast_accum, int workspace=0) -> ()", _mm_out, lambda a, b, out, *rest: None)


def _add_mm_(total, a, b, any_order, workspace=0) -> None:
    _binding.add_mm(a, b, total, any_order, workspace)


_define("add_mm_(Tensor(total!) total, Tensor a, Tensor b, bool any_order, int workspace=0) -> ()", _add_mm_,
        lambda total, a, b, any_order, workspace=0: None)


# ---- linear ----
def _linear_out(input, weight, bias, out, activation, c=None, workspace=0) -> None:
    _binding.linear(input, weight, bias, out, activation_number(activation), workspace, c)


def _linear(input, weight, bias, activation, c=None, workspace=0) -> torch.Tensor:
    out = input.new_empty((*input.shape[:-1], weight.shape[0]))
    _linear_out(input, weight, bias, out, activation, c, workspace)
    return out


def _linear_fake(input, weight, bias, activation, c=None, workspace=0) -> torch.Tensor:
    torch._check(input.shape[-1] == weight.shape[-1], lambda: "input and weight must agree in their last dimension")
    return input.new_empty((*input.shape[:-1], weight.shape[0]))


_define("linear(Tensor input, Tensor weight, Tensor? bias, str activation, Tensor? c=None, int workspace=0) -> Tensor",
        _linear, _linear_fake)
_define("linear_out(Tensor input, Tensor weight, Tensor? bias, Tensor(out!) out, str activation, Tensor? c=None, "
        "int workspace=0) -> ()", _linear_out, lambda input, weight, bias, out, activation, c=None, workspace=0: None)


# ---- scaled_mm ----
def _scaled_mm_out(mat_a, mat_b, scale_a, scale_b, bias, out, use_fast_accum, c=None, workspace=0) -> None:
    _binding.scaled_mm(mat_a, mat_b, scale_a, scale_b, bias, out, use_fast_accum, workspace, c)


def _scaled_mm(mat_a, mat_b, scale_a, scale_b, bias, out_dtype, use_fast_accum, c=None, workspace=0) -> torch.Tensor:
    out = mat_a.new_empty((*mat_a.shape[:-1], mat_b.shape[-1]), dtype=out_dtype)
    _scaled_mm_out(mat_a, mat_b, scale_a, scale_b, bias, out, use_fast_accum, c, workspace)
    return out


_define("scaled_mm(Tensor mat_a, Tensor mat_b, Tensor scale_a, Tensor scale_b, Tensor? bias, ScalarType out_dtype, "
        "bool use_fast_accum, Tensor? c=None, int workspace=0) -> Tensor", _scaled_mm,
        lambda mat_a, mat_b, scale_a, scale_b, bias, out_dtype, use_fast_accum, c=None, workspace=0:
        mat_a.new_empty(_rows_columns(mat_a, mat_b), dtype=out_dtype))
_define("scaled_mm_out(Tensor mat_a, Tensor mat_b, Tensor scale_a, Tensor scale_b, Tensor? bias, Tensor(out!) out, "
        "bool use_fast_accum, Tensor? c=None, int workspace=0) -> ()", _scaled_mm_out,
        lambda mat_a, mat_b, scale_a, scale_b, bias, out, use_fast_accum, c=None, workspace=0: None)


# ---- packed_mm ----
def _packed_mm_out(x, blob, out, bias, scale_x, format, n, k, activation) -> None:  # noqa: A002 (the schema's name)
    _binding.packed_mm(x, blob, bias, scale_x, out, format, n, k, activation_number(activation))


def _packed_mm(x, blob, bias, scale_x, format, n, k, activation, out_dtype) -> torch.Tensor:  # noqa: A002
    out = x.new_empty((*x.shape[:-1], n), dtype=out_dtype)
    _packed_mm_out(x, blob, out, bias, scale_x, format, n, k, activation)
    return out


def _packed_mm_fake(x, blob, bias, scale_x, format, n, k, activation, out_dtype) -> torch.Tensor:  # noqa: A002
    torch._check(x.shape[-1] == k, lambda: f"x must have {k} columns, one for each k of the weights")
    torch._check(scale_x is None or x.dtype is torch.float8_e4m3fn,
                 lambda: f"scale_x is given and x is {x.dtype}: only e4m3 tokens have scales; leave it out")
    return x.new_empty((*x.shape[:-1], n), dtype=out_dtype)


_define("packed_mm(Tensor x, Tensor blob, Tensor? bias, Tensor? scale_x, int format, int n, int k, str activation, "
        "ScalarType out_dtype) -> Tensor", _packed_mm, _packed_mm_fake)
_define("packed_mm_out(Tensor x, Tensor blob, Tensor(out!) out, Tensor? bias, Tensor? scale_x, int format, int n, int k, "
        "str activation) -> ()", _packed_mm_out,
        lambda x, blob, out, bias, scale_x, format, n, k, activation: None)


# ---- quantize ----
def scales_shape(shape, granularity: str) -> tuple:
    """Of the scales of a matrix, or of a batch of rows, by granularity."""
    number_of("granularity", granularity, GRANULARITIES)
    blocks = (shape[-1] + 127) // 128
    if granularity == "tensor":
        return ()
    if granularity == "row":
        return (*shape[:-1], 1)
    if granularity == "1x128":
        return (*shape[:-1], blocks)
    if len(shape) != 2:
        raise InvalidSize(f"input has shape {tuple(shape)} and must be a matrix to be quantised by 128x128")
    return ((shape[0] + 127) // 128, blocks)


def _new_quantized(input, shape, granularity) -> tuple:
    return (input.new_empty(shape, dtype=torch.float8_e4m3fn),
            input.new_empty(scales_shape(shape, granularity), dtype=torch.float32))


def _quantize(input, granularity, workspace=0) -> tuple:
    output, scales = _new_quantized(input, input.shape, granularity)
    _binding.quantize(input, output, scales, GRANULARITIES.index(granularity), False, 0, workspace)
    return output, scales


_define("quantize(Tensor input, str granularity, int workspace=0) -> (Tensor, Tensor)", _quantize,
        lambda input, granularity, workspace=0: _new_quantized(input, input.shape, granularity))


def half_of_columns(shape) -> tuple:
    if shape[-1] % 2 != 0:
        raise InvalidSize(f"input has {shape[-1]} columns and must have an even number: gate and up side by side")
    return (*shape[:-1], shape[-1] // 2)


def _silu_mul_quantize(input, granularity, workspace=0) -> tuple:
    output, scales = _new_quantized(input, half_of_columns(input.shape), granularity)
    _binding.quantize(input, output, scales, GRANULARITIES.index(granularity), False, 1, workspace)
    return output, scales


_define("silu_mul_quantize(Tensor input, str granularity, int workspace=0) -> (Tensor, Tensor)", _silu_mul_quantize,
        lambda input, granularity, workspace=0: _new_quantized(input, half_of_columns(input.shape), granularity))


def _quantize_static(input, scale) -> torch.Tensor:
    output = input.new_empty(input.shape, dtype=torch.float8_e4m3fn)
    _binding.quantize(input, output, scale, 0, True, 0, 0)
    return output


_define("quantize_static(Tensor input, Tensor scale) -> Tensor", _quantize_static,
        lambda input, scale: input.new_empty(input.shape, dtype=torch.float8_e4m3fn))
