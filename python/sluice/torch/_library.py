# SPDX-License-Identifier: Apache-2.0
"""Defines the ops of namespace ``sluice`` for torch.compile, and ``dispatch``, through which every function reaches its kernel.

An ``Op`` has arguments, a function that runs it, the shape of its output, and a check for tensors without memory. It
defines a functional op (``sluice::mm``), one that writes into a given output (``sluice::mm_out``), and their fakes. Eager
calls of plain tensors go straight to libsluice_c.so, because a dispatcher costs more than the launch.
"""
from __future__ import annotations

import functools
import math
from typing import Any, Callable, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .. import _binding as f
from .._arguments import shown
from .._names import ACTIVATIONS, GRANULARITIES, GROUPS, number_of
from ..errors import InvalidArgument, InvalidSize, WrongDevice
from ..plans import Workspace
from ._fakes import check_product

# This tag forbids the compiler to change strides: the layout decides whether a kernel can take an operand.
_TAGS = (getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order),)
_library = torch.library.Library("sluice", "FRAGMENT")
# Tensors of these classes are passed directly to the binding. Others (fake tensors, wrapper subclasses) have no memory of their own
# and need torch's dispatcher.
PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))


_is_compiling = torch.compiler.is_compiling
_empty, _empty_strided = torch.empty, torch.empty_strided


def activation_number(name: Optional[str]) -> int:
    return 0 if name is None or name == "none" else number_of("activation", name, ACTIVATIONS)


def workspace_number(workspace: Optional[Workspace]) -> int:
    """Returns a workspace's address as the binding and the ops take it; 0 if the library shall lend one."""
    return 0 if workspace is None else workspace.address


def any_order_of(deterministic: bool) -> bool:
    """Returns whether split-K slices may be added in any order. ``torch.use_deterministic_algorithms`` overrides
    ``deterministic=False``."""
    return not (deterministic or torch.are_deterministic_algorithms_enabled())


def check_out(out: torch.Tensor, dtype: Optional[torch.dtype]) -> None:
    """Raises ``InvalidArgument`` if the caller's ``out`` is not of type ``dtype`` (the argument ``out_dtype``) or requires a
    gradient."""
    if dtype is not None and out.dtype is not dtype:
        raise InvalidArgument(f"out is {out.dtype} and out_dtype says {shown(dtype)}: give one of them")
    if out.requires_grad and torch.is_grad_enabled():
        raise InvalidArgument("out wants a gradient, and what is written into it has no backward: call it under "
                              "torch.no_grad(), or pass out.detach()")


def as_matrix(x: torch.Tensor) -> torch.Tensor:
    """Returns x as a matrix whose rows are all leading dimensions. It computes the row count, because torch cannot infer
    ``reshape(-1, 0)``."""
    columns = x.shape[-1]
    return x.reshape(-1, columns) if columns != 0 else x.reshape(math.prod(x.shape[:-1]), 0)


def written(*tensors: torch.Tensor) -> None:
    """Tells autograd that a kernel wrote into ``tensors``, as torch's own operations do, so that a backward that saved one of
    them raises. Ops of torch.library do not do that. In a compiled graph it is not needed."""
    if torch.compiler.is_compiling():
        return
    torch.autograd.graph.increment_version(tensors)


def _define(schema: str, body: Callable[..., Any], fake: Callable[..., Any]) -> Any:
    name = schema.partition("(")[0]
    _library.define(schema, tags=_TAGS)
    _library.impl(name, body, "CompositeExplicitAutograd")
    names = [argument.split()[-1] for argument in schema.partition("(")[2].partition(") ->")[0].split(", ")]

    def of_one_kind(*arguments: Any) -> Any:
        tensors = {given: value for given, value in zip(names, arguments) if isinstance(value, Tensor)}
        on_meta = [given for given, value in tensors.items() if value.is_meta]
        if on_meta and len(on_meta) < len(tensors):
            raise WrongDevice(f"{on_meta[0]} is on the meta device, which holds no data, and other arguments are not: load it first")
        return fake(*arguments)

    torch.library.register_fake(f"sluice::{name}", of_one_kind, lib=_library)
    return getattr(torch.ops.sluice, name)


class Op:
    """A product with one output.

    ``arguments`` is the schema of the arguments, ``into(out, *arguments)`` runs the product, and ``shape(*arguments)`` is the output's
    shape. ``check(out, *arguments)`` raises for fake tensors as ``into`` would for real ones of such sizes, types and layouts.
    ``strides(shape)`` gives the output's strides; row-major by default. ``new(dtype, *arguments)`` makes the output, by default from
    ``shape`` and ``strides``.
    """

    def __init__(self, name: str, arguments: str, into: Callable[..., None], shape: Callable[..., tuple],
                 check: Callable[..., None], strides: Optional[Callable[[tuple], tuple]] = None,
                 new: Optional[Callable[..., Tensor]] = None) -> None:
        def made(dtype: torch.dtype, *arguments: Any) -> Tensor:
            size = shape(*arguments)
            if strides is None:
                return _empty(size, dtype=dtype, device=arguments[0].device)
            return _empty_strided(size, strides(size), dtype=dtype, device=arguments[0].device)

        new = new or made

        def run(dtype: torch.dtype, *arguments: Any) -> Tensor:
            out = new(dtype, *arguments)
            into(out, *arguments)
            return out

        def fake(dtype: torch.dtype, *arguments: Any) -> Tensor:
            out = made(dtype, *arguments)
            check(out, *arguments)
            return out

        self.into, self.run, self.fake = into, run, fake
        self.functional = _define(f"{name}({arguments}, ScalarType out_dtype) -> Tensor", lambda *all: run(all[-1], *all[:-1]),
                                  lambda *all: fake(all[-1], *all[:-1]))
        self.out = _define(f"{name}_out({arguments}, Tensor(out!) out) -> ()", lambda *all: into(all[-1], *all[:-1]),
                           lambda *all: check(all[-1], *all[:-1]))


def takes_no_dispatcher(tensor: Tensor) -> bool:
    """Returns whether a call with this tensor is passed directly to the library: it is not traced and has memory of its own."""
    return tensor.__class__ in PLAIN and not _is_compiling()


def is_empty_batch(tensor: Tensor) -> bool:
    """Returns whether a call has no images. No kernel is then launched, so ``check_empty_batch`` checks the arguments."""
    return tensor.shape[0] == 0 and takes_no_dispatcher(tensor)


class _WithoutMemory(Tensor):
    """A tensor on the device "meta"; its class routes calls through the dispatcher, whose fakes check them."""


def check_empty_batch(function: Callable[..., Any], *arguments: Any, images: Sequence[int], cast: Sequence[int] = (),
                      dtype: Optional[torch.dtype] = None) -> None:
    """Raises the errors that ``function`` would raise for one image instead of none. No kernel runs. ``images``: the positions of
    arguments with a batch of images. ``cast``: the positions of arguments that torch.autocast casts to ``dtype``."""

    def without_memory(at: int, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        shape = (1, *value.shape[1:]) if at in images and value.dim() else value.shape
        kind = dtype if at in cast else value.dtype
        return _empty_strided(shape, value.stride(), dtype=kind, device="meta").as_subclass(_WithoutMemory)

    function(*(without_memory(at, value) for at, value in enumerate(arguments)))


def dispatch(op: Op, out: Optional[Tensor], dtype: torch.dtype, *arguments: Any) -> Tensor:
    """Runs an op into ``out``, or into a new tensor of ``dtype``, and returns the result. A traced call is passed to the
    dispatcher, any other directly to the library."""
    if not takes_no_dispatcher(arguments[0]):
        if out is None:
            return op.functional(*arguments, dtype)
        op.out(*arguments, out)
        written(out)
        return out
    if out is None:
        return op.run(dtype, *arguments)
    op.into(out, *arguments)
    written(out)
    return out


# ---- products
ALONG_K, SLOTS = GROUPS.index("along_k"), GROUPS.index("slots")
_EXTRAS = "Tensor? bias, Tensor? c, str? activation, bool gated, Tensor? scale_d, int workspace"


def _extras(bias, c, activation, gated, scale_d, workspace) -> tuple:
    """Returns the epilogue's arguments as (field, value) pairs; empty if all have their defaults, as in most calls."""
    if bias is None and c is None and activation is None and not gated and scale_d is None and workspace == 0:
        return ()
    return (f.BIAS, bias, f.C, c, f.ACTIVATION, activation_number(activation), f.GATED, gated, f.SCALE_D, scale_d, f.WORKSPACE,
            workspace)


def _columns(n: int, gated: bool) -> int:
    return n // 2 if gated else n


def _mm_into(out, a, b, alpha, beta, use_fast_accum, *extras) -> None:
    f.product(f.A, a, f.B, b, f.OUT, out, f.ALPHA, alpha, f.BETA, beta, f.USE_FAST_ACCUM, use_fast_accum, *_extras(*extras))


def _mm_check(out, a, b, alpha, beta, use_fast_accum, bias, c, activation, gated, scale_d, workspace) -> None:
    check_product({"a": a, "b": b, "out": out, "c": c, "bias": bias, "scale_d": scale_d}, gated=gated)


MM = Op("mm", f"Tensor a, Tensor b, float alpha, float beta, bool use_fast_accum, {_EXTRAS}", _mm_into,
        lambda a, b, alpha, beta, fast, bias, c, activation, gated, *_: (*a.shape[:-1], _columns(b.shape[-1], gated)), _mm_check)


def _linear_into(out, input, weight, *extras) -> None:
    f.product(f.INPUT, input, f.WEIGHT, weight, f.OUT, out, *_extras(*extras))


def _linear_check(out, input, weight, bias, c, activation, gated, scale_d, workspace) -> None:
    check_product({"input": input, "weight": weight, "out": out, "c": c, "bias": bias, "scale_d": scale_d}, gated=gated)


LINEAR = Op("linear", f"Tensor input, Tensor weight, {_EXTRAS}", _linear_into,
            lambda input, weight, bias, c, activation, gated, *_: (*input.shape[:-1], _columns(weight.shape[0], gated)),
            _linear_check)


def _scaled_mm_into(out, mat_a, mat_b, scale_a, scale_b, use_fast_accum, *extras) -> None:
    f.product(f.MAT_A, mat_a, f.MAT_B, mat_b, f.OUT, out, f.SCALE_A, scale_a, f.SCALE_B, scale_b, f.USE_FAST_ACCUM, use_fast_accum,
              *_extras(*extras))


def _scaled_mm_check(out, mat_a, mat_b, scale_a, scale_b, use_fast_accum, bias, c, activation, gated, scale_d, workspace) -> None:
    check_product({"mat_a": mat_a, "mat_b": mat_b, "out": out, "c": c, "bias": bias, "scale_a": scale_a, "scale_b": scale_b,
                   "scale_d": scale_d}, gated=gated)


SCALED_MM = Op("scaled_mm", f"Tensor mat_a, Tensor mat_b, Tensor scale_a, Tensor scale_b, bool use_fast_accum, {_EXTRAS}",
               _scaled_mm_into,
               lambda a, b, scale_a, scale_b, fast, bias, c, activation, gated, *_: (*a.shape[:-1], _columns(b.shape[-1], gated)),
               _scaled_mm_check)


def _grouped_mm_into(out, mat_a, mat_b, offs, groups, pitch, scale_a, scale_b, row_factors, use_fast_accum, *extras) -> None:
    f.product(f.MAT_A, mat_a, f.MAT_B, mat_b, f.OUT, out, f.OFFS, offs, f.GROUPS, groups, f.GROUP_PITCH, pitch, f.SCALE_A, scale_a,
              f.SCALE_B, scale_b, f.ROW_FACTORS, row_factors, f.USE_FAST_ACCUM, use_fast_accum, *_extras(*extras))


def _grouped_mm_check(out, mat_a, mat_b, offs, groups, pitch, scale_a, scale_b, row_factors, use_fast_accum, bias, c, activation, gated,
                      scale_d, workspace) -> None:
    check_product({"mat_a": mat_a, "mat_b": mat_b, "out": out, "offs": offs, "c": c, "bias": bias, "scale_a": scale_a,
                   "scale_b": scale_b, "scale_d": scale_d, "row_factors": row_factors}, gated=gated, groups=groups, pitch=pitch)


# ``groups`` and ``pitch``: how ``offs`` is read, as in a ProblemStruct.
GROUPED_MM = Op("grouped_mm", "Tensor mat_a, Tensor mat_b, Tensor offs, int groups, int pitch, Tensor? scale_a, Tensor? scale_b, "
                f"Tensor? row_factors, bool use_fast_accum, {_EXTRAS}", _grouped_mm_into,
                lambda a, b, offs, groups, pitch, scale_a, scale_b, factors, fast, bias, c, activation, gated, *_:
                (*offs.shape[:groups == ALONG_K], (offs if groups == SLOTS else a).shape[0], _columns(b.shape[-1], gated)),
                _grouped_mm_check)


def _new_with_scales(a, b, gated) -> Tuple[Tensor, Tensor]:
    columns = _columns(b.shape[-1], gated)
    return (a.new_empty((a.shape[0], columns), dtype=torch.float8_e4m3fn),
            a.new_empty((a.shape[0], (columns + 127) // 128), dtype=torch.float32))


def _grouped_mm_quantize(mat_a, mat_b, offs, groups, pitch, scale_a, scale_b, bias, activation, gated, workspace) -> Tuple[Tensor, Tensor]:
    out, scales = _new_with_scales(mat_a, mat_b, gated)
    f.product(f.MAT_A, mat_a, f.MAT_B, mat_b, f.OUT, out, f.SCALE_OUT, scales, f.OFFS, offs, f.GROUPS, groups, f.GROUP_PITCH, pitch,
              f.SCALE_A, scale_a, f.SCALE_B, scale_b, f.BIAS, bias, f.ACTIVATION, activation_number(activation), f.GATED, gated,
              f.WORKSPACE, workspace)
    return out, scales


def _fake_grouped_mm_quantize(mat_a, mat_b, offs, groups, pitch, scale_a, scale_b, bias, activation, gated,
                              workspace) -> Tuple[Tensor, Tensor]:
    out, scales = _new_with_scales(mat_a, mat_b, gated)
    check_product({"mat_a": mat_a, "mat_b": mat_b, "out": out, "offs": offs, "scale_a": scale_a, "scale_b": scale_b, "bias": bias,
                   "scale_out": scales}, gated=gated, groups=groups, pitch=pitch)
    return out, scales


_GROUPED_MM_QUANTIZE = _define(
    "grouped_mm_quantize(Tensor mat_a, Tensor mat_b, Tensor offs, int groups, int pitch, Tensor scale_a, Tensor scale_b, Tensor? bias, "
    "str? activation, bool gated, int workspace) -> (Tensor, Tensor)", _grouped_mm_quantize, _fake_grouped_mm_quantize)


def grouped_mm_quantize(mat_a: Tensor, *arguments: Any) -> Tuple[Tensor, Tensor]:
    """Returns a product of groups in float8_e4m3fn, and its scales by 1x128."""
    return (_grouped_mm_quantize if takes_no_dispatcher(mat_a) else _GROUPED_MM_QUANTIZE)(mat_a, *arguments)  # type: ignore[no-any-return]


_weights_fields = functools.lru_cache(maxsize=4096)(f.weights_fields)


def _packed_mm_into(out, x, blob, weights, scale_x, gamma, epsilon, *extras) -> None:
    f.product(f.X, x, f.PACKED_BLOB, blob, f.OUT, out, f.SCALE_X, scale_x, f.GAMMA, gamma, f.EPSILON, epsilon,
              *_weights_fields(tuple(weights)), *_extras(*extras))


def _packed_mm_check(out, x, blob, weights, scale_x, gamma, epsilon, bias, c, activation, gated, scale_d, workspace) -> None:
    check_product({"x": x, "packed.blob": blob, "out": out, "c": c, "bias": bias, "scale_x": scale_x, "scale_d": scale_d,
                   "gamma": gamma}, weights=weights, gated=gated)


# ``weights`` holds seven numbers: type, group, scale, zeros and order of the format, then n and k.
PACKED_MM = Op("packed_mm", f"Tensor x, Tensor blob, int[] weights, Tensor? scale_x, Tensor? gamma, float epsilon, {_EXTRAS}",
               _packed_mm_into,
               lambda x, blob, weights, scale_x, gamma, epsilon, bias, c, activation, gated, *_:
               (*x.shape[:-1], _columns(weights[5], gated)), _packed_mm_check)


def _packed_groups_into(out, x, blob, weights, offs, groups, pitch, bias, activation, gated) -> None:
    f.product(f.X, x, f.PACKED_BLOB, blob, f.OUT, out, f.OFFS, offs, f.GROUPS, groups, f.GROUP_PITCH, pitch,
              *_weights_fields(tuple(weights)), *_extras(bias, None, activation, gated, None, 0))


def _packed_groups_check(out, x, blob, weights, offs, groups, pitch, bias, activation, gated) -> None:
    check_product({"x": x, "packed.blob": blob, "out": out, "offs": offs, "bias": bias}, weights=weights, gated=gated, groups=groups,
                  pitch=pitch)


PACKED_GROUPED_MM = Op("packed_grouped_mm", "Tensor x, Tensor blob, int[] weights, Tensor offs, int groups, int pitch, Tensor? bias, "
                       "str? activation, bool gated", _packed_groups_into,
                       lambda x, blob, weights, offs, groups, pitch, bias, activation, gated:
                       ((offs if groups == SLOTS else x).shape[0], _columns(weights[5], gated)),
                       _packed_groups_check)


def _add_mm_(total, a, b, any_order, workspace) -> None:
    f.product(f.A, a, f.B, b, f.TOTAL, total, f.ADD, True, f.ANY_ORDER, any_order, f.WORKSPACE, workspace)


_add_mm_op = _define("add_mm_(Tensor(total!) total, Tensor a, Tensor b, bool any_order, int workspace) -> ()", _add_mm_,
                     lambda total, a, b, any_order, workspace:
                     check_product({"a": a, "b": b, "total": total}, update=1))


def add_mm_(total: Tensor, a: Tensor, b: Tensor, any_order: bool, workspace: int) -> None:
    """Computes ``total += a @ b`` with an fp32 ``total``."""
    (_add_mm_ if takes_no_dispatcher(a) else _add_mm_op)(total, a, b, any_order, workspace)
    written(total)


# ---- quantisers and norms
def scales_shape(shape, granularity: str) -> tuple:
    """Returns the shape of the scales of a matrix, or of a batch of rows. Raises ``InvalidArgument`` for an unknown
    granularity, and ``InvalidSize`` for "128x128" of anything but a matrix."""
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


def check_norm_scale(granularity: str, scale: Optional[Tensor]) -> None:
    """Raises ``InvalidArgument`` unless a scale is given for "tensor", and for no other granularity."""
    if (granularity == "tensor") != (scale is not None):
        raise InvalidArgument("a scale is given for granularity = 'tensor', and for no other: a norm has no scale for the whole "
                              "matrix before its last row is done")


def half_of_columns(shape) -> tuple:
    if shape[-1] % 2 != 0:
        raise InvalidSize(f"input has {shape[-1]} columns and must have an even number: gate and up side by side")
    return (*shape[:-1], shape[-1] // 2)


def _new_quantized(input, shape, granularity) -> Tuple[Tensor, Tensor]:
    return (input.new_empty(shape, dtype=torch.float8_e4m3fn),
            input.new_empty(scales_shape(shape, granularity), dtype=torch.float32))


def _quantizer(name: str, gate: int, shape_of: Callable[[Any], tuple]) -> Any:
    def run(input, granularity, workspace):
        output, scales = _new_quantized(input, shape_of(input.shape), granularity)
        f.quantize(f.INPUT, input, f.OUTPUT, output, f.SCALES, scales, f.GRANULARITY, GRANULARITIES.index(granularity), f.GATE, gate,
                   f.WORKSPACE, workspace)
        return output, scales

    return _define(f"{name}(Tensor input, str granularity, int workspace) -> (Tensor, Tensor)", run,
                   lambda input, granularity, workspace: _new_quantized(input, shape_of(input.shape), granularity))


QUANTIZE = _quantizer("quantize", 0, tuple)
SILU_MUL_QUANTIZE = _quantizer("silu_mul_quantize", 1, half_of_columns)


def _quantize_static(input, scale) -> Tensor:
    output = input.new_empty(input.shape, dtype=torch.float8_e4m3fn)
    f.quantize(f.INPUT, input, f.OUTPUT, output, f.SCALES, scale, f.SCALE_GIVEN, True)
    return output


QUANTIZE_STATIC = _define("quantize_static(Tensor input, Tensor scale) -> Tensor", _quantize_static,
                          lambda input, scale: input.new_empty(input.shape, dtype=torch.float8_e4m3fn))


def _silu_mul(input) -> Tensor:
    output = input.new_empty(half_of_columns(input.shape))
    f.quantize(f.INPUT, input, f.OUTPUT, output, f.GATE, 1)
    return output


SILU_MUL = _define("silu_mul(Tensor input) -> Tensor", _silu_mul, lambda input: input.new_empty(half_of_columns(input.shape)))


def _normed(input, residual) -> Tuple[Tensor, Tensor]:
    """Returns new tensors for the output and for ``input + residual``; the second is empty without a residual."""
    return input.new_empty(input.shape), input.new_empty(input.shape if residual is not None else (0,))


def _rms_norm(input, gamma, residual, epsilon) -> Tuple[Tensor, Tensor]:
    output, total = _normed(input, residual)
    f.norm(f.INPUT, input, f.GAMMA, gamma, f.RESIDUAL, residual, f.SUM, None if residual is None else total, f.OUTPUT, output,
           f.EPSILON, epsilon)
    return output, total


RMS_NORM = _define("rms_norm(Tensor input, Tensor gamma, Tensor? residual, float epsilon) -> (Tensor, Tensor)", _rms_norm,
                   lambda input, gamma, residual, epsilon: _normed(input, residual))


def _new_normed_and_quantized(input, residual, granularity) -> Tuple[Tensor, Tensor, Tensor]:
    return (*_new_quantized(input, input.shape, granularity), _normed(input, residual)[1])


def _rms_norm_quantize(input, gamma, granularity, scale, residual, epsilon) -> Tuple[Tensor, Tensor, Tensor]:
    output, scales, total = _new_normed_and_quantized(input, residual, granularity)
    f.norm(f.INPUT, input, f.GAMMA, gamma, f.RESIDUAL, residual, f.SUM, None if residual is None else total, f.OUTPUT, output,
           f.SCALES, scales if scale is None else scale, f.GRANULARITY, GRANULARITIES.index(granularity), f.EPSILON, epsilon)
    return output, scales, total


RMS_NORM_QUANTIZE = _define(
    "rms_norm_quantize(Tensor input, Tensor gamma, str granularity, Tensor? scale, Tensor? residual, float epsilon) "
    "-> (Tensor, Tensor, Tensor)", _rms_norm_quantize,
    lambda input, gamma, granularity, scale, residual, epsilon: _new_normed_and_quantized(input, residual, granularity))
