# SPDX-License-Identifier: Apache-2.0
"""The ops of convolutions: ``sluice::conv``, ``sluice::conv_fused`` with an epilogue, ``sluice::conv_input``, ``sluice::conv_weight``,
``sluice::conv_gradients`` for both of these, and ``sluice::add_conv_weight_``.

The ops take tensors in the layout that kernels read (``_conv_layout.operand`` makes it). The fakes raise the errors of the real call.
"""
from __future__ import annotations

import functools
from typing import Sequence, Tuple

import torch
from torch import Tensor

from .. import _binding as f
from ..convolutions import output_size
from ._conv_layout import Geometry, channels_last_strides, lists_of
from ._fakes import check_convolution
from ._library import Op, _define, activation_number, any_order_of, takes_no_dispatcher, written

_empty_strided = torch.empty_strided

# The ops take stride, padding, padding_after and dilation as one concatenated list (``Geometry.numbers``), because the dispatcher's
# time grows with each argument. Results that depend only on these numbers are cached, since a model's layers recur at each step.
_keep = functools.lru_cache(maxsize=4096)


@_keep
def _fields_of(geometry: Tuple[int, ...]) -> Tuple[int, ...]:
    return f.geometry_fields(*lists_of(geometry))


def _output_shape(sizes: Sequence[int], weight_size: Sequence[int], geometry: Sequence[int]) -> Tuple[int, ...]:
    return (sizes[0], weight_size[0], *output_size(sizes[2:], weight_size[2:], *lists_of(geometry)))


_kept_output_shape = _keep(_output_shape)


def _new_output(dtype, input, weight, geometry, *_) -> Tensor:
    shape = _kept_output_shape(input.shape, weight.shape, tuple(geometry))
    return _empty_strided(shape, channels_last_strides(shape), dtype=dtype, device=input.device)


def _conv_shape(input, weight, geometry, *_) -> tuple:
    return _output_shape(input.shape, weight.shape, geometry)


def _conv_into(out, input, weight, geometry, bias, workspace) -> None:
    f.convolution(f.OP, f.FPROP, f.INPUT, input, f.WEIGHT, weight, f.OUT, out, f.BIAS, bias, f.WORKSPACE, workspace,
                  *_fields_of(tuple(geometry)))


def _conv_check(out, input, weight, geometry, bias, workspace) -> None:
    check_convolution(f.FPROP, {"input": input, "weight": weight, "out": out, "bias": bias}, *lists_of(geometry))


CONV = Op("conv", "Tensor input, Tensor weight, int[] geometry, Tensor? bias, int workspace", _conv_into, _conv_shape, _conv_check,
          channels_last_strides, _new_output)


def _fused_into(out, input, weight, geometry, bias, workspace, c, activation, scale_x, scale_w, scale_d, use_fast_accum) -> None:
    f.convolution(f.OP, f.FPROP, f.INPUT, input, f.WEIGHT, weight, f.OUT, out, f.BIAS, bias, f.WORKSPACE, workspace, f.C, c, f.ACTIVATION,
                  activation_number(activation), f.SCALE_X, scale_x, f.SCALE_W, scale_w, f.SCALE_D, scale_d, f.USE_FAST_ACCUM,
                  use_fast_accum, *_fields_of(tuple(geometry)))


def _fused_check(out, input, weight, geometry, bias, workspace, c, activation, scale_x, scale_w, scale_d, use_fast_accum) -> None:
    check_convolution(f.FPROP, {"input": input, "weight": weight, "out": out, "bias": bias, "c": c, "scale_x": scale_x,
                                "scale_w": scale_w, "scale_d": scale_d}, *lists_of(geometry), activation=activation_number(activation))


# A convolution without an epilogue has its own op, because each argument adds to the dispatcher's time.
CONV_FUSED = Op("conv_fused", "Tensor input, Tensor weight, int[] geometry, Tensor? bias, int workspace, Tensor? c, str? activation, "
                "Tensor? scale_x, Tensor? scale_w, Tensor? scale_d, bool use_fast_accum", _fused_into, _conv_shape, _fused_check,
                channels_last_strides, _new_output)


def _gradient(name: str, op: int, first: str, second: str, size: str) -> Op:
    """Returns the op of a gradient of shape ``size`` from the tensors ``first`` and ``second``."""
    one, other = f.FIELDS[first], f.FIELDS[second]

    def into(out, a, b, shape, geometry, workspace) -> None:
        f.convolution(f.OP, op, one, a, other, b, f.OUT, out, f.WORKSPACE, workspace, *_fields_of(tuple(geometry)))

    def check(out, a, b, shape, geometry, workspace) -> None:
        check_convolution(op, {first: a, second: b, "out": out}, *lists_of(geometry))

    return Op(name, f"Tensor {first}, Tensor {second}, SymInt[] {size}, int[] geometry, int workspace", into,
              lambda a, b, shape, *_: tuple(shape), check, channels_last_strides)


CONV_INPUT = _gradient("conv_input", f.DGRAD, "grad_output", "weight", "input_size")
CONV_WEIGHT = _gradient("conv_weight", f.WGRAD, "grad_output", "input", "weight_size")


_Both = Tuple[Tensor, Tensor]


def _gradients(grad_output, input, weight, input_size, weight_size, geometry, workspace, input_type, weight_type) -> _Both:
    return (CONV_INPUT.run(input_type, grad_output, weight, input_size, geometry, workspace),
            CONV_WEIGHT.run(weight_type, grad_output, input, weight_size, geometry, workspace))


def _fake_gradients(grad_output, input, weight, input_size, weight_size, geometry, workspace, input_type, weight_type) -> _Both:
    return (CONV_INPUT.fake(input_type, grad_output, weight, input_size, geometry, workspace),
            CONV_WEIGHT.fake(weight_type, grad_output, input, weight_size, geometry, workspace))


# One op computes both gradients. With two ops, a compiler that fuses the output's gradient into each op's input would write it twice.
CONV_GRADIENTS = _define("conv_gradients(Tensor grad_output, Tensor input, Tensor weight, SymInt[] input_size, SymInt[] weight_size, "
                         "int[] geometry, int workspace, ScalarType input_type, ScalarType weight_type) -> (Tensor, Tensor)", _gradients,
                         _fake_gradients)


def _add_conv_weight(total, grad_output, input, geometry, any_order, workspace) -> None:
    f.convolution(f.OP, f.WGRAD, f.GRAD_OUTPUT, grad_output, f.INPUT, input, f.TOTAL, total, f.ADD, True, f.ANY_ORDER, any_order,
                  f.WORKSPACE, workspace, *_fields_of(tuple(geometry)))


_add_conv_weight_op = _define(
    "add_conv_weight_(Tensor(total!) total, Tensor grad_output, Tensor input, int[] geometry, bool any_order, int workspace) -> ()",
    _add_conv_weight, lambda total, grad_output, input, geometry, any_order, workspace:
    check_convolution(f.WGRAD, {"grad_output": grad_output, "input": input, "total": total}, *lists_of(geometry), update=1))


def add_conv_weight_(total: Tensor, grad_output: Tensor, input: Tensor, geometry: Geometry, deterministic: bool,
                     workspace: int = 0) -> None:
    """Adds the weight's gradient to an fp32 ``total``. ``deterministic`` is passed to ``any_order_of``."""
    call = _add_conv_weight if takes_no_dispatcher(grad_output) else _add_conv_weight_op
    call(total, grad_output, input, geometry.numbers, any_order_of(deterministic), workspace)
    written(total)
