# SPDX-License-Identifier: Apache-2.0
"""The ops of convolutions: ``sluice::conv``, ``sluice::conv_input``, ``sluice::conv_weight`` and ``sluice::add_conv_weight_``.

Their tensors lie as kernels read them (``_conv_layout.operand``). A fake raises what the call itself would raise.
"""
from __future__ import annotations

import functools

import torch
from torch import Tensor

from .. import _binding as f
from ..convolutions import output_size
from ._conv_layout import Geometry, channels_last_strides
from ._fakes import check_convolution
from ._library import PLAIN, Op, _define, activation_number, any_order_of, written

_is_compiling = torch.compiler.is_compiling
_GEOMETRY = "int[] stride, int[] padding, int[] padding_after, int[] dilation"
_fields_of = functools.lru_cache(maxsize=4096)(f.geometry_fields)


def _geometry(stride, padding, padding_after, dilation) -> tuple:
    return _fields_of(tuple(stride), tuple(padding), tuple(padding_after), tuple(dilation))


def _conv_into(out, input, weight, stride, padding, padding_after, dilation, bias, c, activation, scale_x, scale_w, scale_d,
               use_fast_accum, workspace) -> None:
    f.convolution(f.OP, f.FPROP, f.INPUT, input, f.WEIGHT, weight, f.OUT, out, f.BIAS, bias, f.C, c, f.ACTIVATION,
                  activation_number(activation), f.SCALE_X, scale_x, f.SCALE_W, scale_w, f.SCALE_D, scale_d, f.USE_FAST_ACCUM,
                  use_fast_accum, f.WORKSPACE, workspace, *_geometry(stride, padding, padding_after, dilation))


def _conv_shape(input, weight, stride, padding, padding_after, dilation, *_) -> tuple:
    return (input.shape[0], weight.shape[0], *output_size(input.shape[2:], weight.shape[2:], stride, padding, padding_after, dilation))


def _conv_check(out, input, weight, stride, padding, padding_after, dilation, bias, c, activation, scale_x, scale_w, scale_d,
                use_fast_accum, workspace) -> None:
    check_convolution(f.FPROP, {"input": input, "weight": weight, "out": out, "bias": bias, "c": c, "scale_x": scale_x,
                                "scale_w": scale_w, "scale_d": scale_d}, stride, padding, padding_after, dilation,
                      activation=activation_number(activation))


CONV = Op("conv", f"Tensor input, Tensor weight, {_GEOMETRY}, Tensor? bias, Tensor? c, str? activation, Tensor? scale_x, "
          "Tensor? scale_w, Tensor? scale_d, bool use_fast_accum, int workspace", _conv_into, _conv_shape, _conv_check,
          channels_last_strides)


def _conv_input_into(out, grad_output, weight, input_size, stride, padding, padding_after, dilation, workspace) -> None:
    f.convolution(f.OP, f.DGRAD, f.GRAD_OUTPUT, grad_output, f.WEIGHT, weight, f.OUT, out, f.WORKSPACE, workspace,
                  *_geometry(stride, padding, padding_after, dilation))


def _conv_input_check(out, grad_output, weight, input_size, stride, padding, padding_after, dilation, workspace) -> None:
    check_convolution(f.DGRAD, {"grad_output": grad_output, "weight": weight, "out": out}, stride, padding, padding_after, dilation)


CONV_INPUT = Op("conv_input", f"Tensor grad_output, Tensor weight, SymInt[] input_size, {_GEOMETRY}, int workspace", _conv_input_into,
                lambda grad_output, weight, input_size, *_: tuple(input_size), _conv_input_check, channels_last_strides)


def _conv_weight_into(out, grad_output, input, weight_size, stride, padding, padding_after, dilation, workspace) -> None:
    f.convolution(f.OP, f.WGRAD, f.GRAD_OUTPUT, grad_output, f.INPUT, input, f.OUT, out, f.WORKSPACE, workspace,
                  *_geometry(stride, padding, padding_after, dilation))


def _conv_weight_check(out, grad_output, input, weight_size, stride, padding, padding_after, dilation, workspace) -> None:
    check_convolution(f.WGRAD, {"grad_output": grad_output, "input": input, "out": out}, stride, padding, padding_after, dilation)


CONV_WEIGHT = Op("conv_weight", f"Tensor grad_output, Tensor input, SymInt[] weight_size, {_GEOMETRY}, int workspace",
                 _conv_weight_into, lambda grad_output, input, weight_size, *_: tuple(weight_size), _conv_weight_check,
                 channels_last_strides)


def _add_conv_weight(total, grad_output, input, stride, padding, padding_after, dilation, any_order, workspace) -> None:
    f.convolution(f.OP, f.WGRAD, f.GRAD_OUTPUT, grad_output, f.INPUT, input, f.TOTAL, total, f.ADD, True, f.ANY_ORDER, any_order,
                  f.WORKSPACE, workspace, *_geometry(stride, padding, padding_after, dilation))


_add_conv_weight_op = _define(
    f"add_conv_weight_(Tensor(total!) total, Tensor grad_output, Tensor input, {_GEOMETRY}, bool any_order, int workspace) -> ()",
    _add_conv_weight, lambda total, grad_output, input, stride, padding, padding_after, dilation, any_order, workspace:
    check_convolution(f.WGRAD, {"grad_output": grad_output, "input": input, "total": total}, stride, padding, padding_after, dilation,
                      update=1))


def add_conv_weight_(total: Tensor, grad_output: Tensor, input: Tensor, geometry: Geometry, deterministic: bool,
                     workspace: int = 0) -> None:
    """Adds the weight's gradient to an fp32 ``total``. ``deterministic``: as for ``any_order_of``."""
    call = _add_conv_weight_op if _is_compiling() or grad_output.__class__ not in PLAIN else _add_conv_weight
    call(total, grad_output, input, *geometry, any_order_of(deterministic), workspace)
    written(total)
