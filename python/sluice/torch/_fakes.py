# SPDX-License-Identifier: Apache-2.0
"""Checks products of fake tensors, which have no memory, so that torch.compile and FakeTensorMode raise the same errors as the real
call."""
from __future__ import annotations

import ctypes
from typing import Any, Dict, List, Optional, Sequence

import torch
from torch import Tensor

from .._library import OPERANDS, ArrayStruct, CallStruct, WeightFormatStruct, lib, new_call

_TYPES = {torch.bfloat16: 0, torch.float16: 1, torch.float32: 2, torch.float8_e4m3fn: 3, torch.float8_e5m2: 4, torch.uint8: 32,
          torch.int32: 33}
_OTHER_TYPE, _ON_CUDA = -1, 2
# Maps the name of an argument to the operand of a product that it is.
_PLACES = {"a": "a", "mat_a": "a", "input": "a", "x": "a", "b": "b", "mat_b": "b", "weight": "b", "packed.blob": "b", "out": "d",
           "total": "d", "scale_x": "scale_a", "offs": "groups"}


def _known(extents: Sequence[Any]) -> Optional[List[int]]:
    """Returns extents (sizes or strides) as numbers; for a symbolic extent, the value it was traced with. Returns None if one
    has no such value."""
    hints = [extent if isinstance(extent, int) else getattr(extent.node, "hint", None) for extent in extents]
    return None if None in hints else hints


def _array(name: str, tensor: Tensor) -> Optional[ArrayStruct]:
    shape, strides = _known(tensor.shape), _known(tensor.stride())
    if shape is None or strides is None:
        return None
    if name in ("input", "x") and len(shape) > 2:
        return _struct(tensor, _rows_of(shape), strides[-2:])
    return _struct(tensor, shape[::-1] if name == "weight" else shape, strides[::-1] if name == "weight" else strides)


def _rows_of(shape: List[int]) -> List[int]:
    rows = 1
    for extent in shape[:-1]:
        rows *= extent
    return [rows, shape[-1]]


def _struct(tensor: Tensor, shape: List[int], strides: List[int]) -> ArrayStruct:
    return ArrayStruct(dtype=_TYPES.get(tensor.dtype, _OTHER_TYPE), ndim=len(shape), device_type=_ON_CUDA,
                       shape=(ctypes.c_int64 * len(shape))(*shape), strides=(ctypes.c_int64 * len(shape))(*strides))


def check_product(tensors: Dict[str, Optional[Tensor]], *, weights: Optional[Sequence[int]] = None, gated: bool = False,
                  update: int = 0, groups: int = 0, pitch: int = 1) -> None:
    """Raises the error that a product of ``tensors``, keyed by argument name, would raise for their sizes, types and
    layouts. Checks nothing if a size is unknown."""
    call = new_call()
    call.problem.groups, call.problem.group_pitch = groups, pitch
    call.problem.gated, call.problem.update = gated, update
    if weights is not None:
        call.problem.packed = WeightFormatStruct(weights[0] + 1, *weights[1:5])
        call.problem.n, call.problem.k = weights[5:]
    as_rows = "input" in tensors or "x" in tensors
    for name, tensor in tensors.items():
        place = _PLACES.get(name, name)
        seen = "input" if as_rows and place in ("c", "d") else name
        if tensor is not None and not _add(call, place, {"weight": "weight.t()"}.get(name, name), _array(seen, tensor)):
            return
    lib.sluice_describe(ctypes.byref(call))


def _add(call: CallStruct, place: str, name: str, array: Optional[ArrayStruct]) -> bool:
    """Makes ``array`` an operand of the call. Returns False if its sizes are unknown."""
    if array is None:
        return False
    call.operands[OPERANDS.index(place)] = ctypes.pointer(array)
    call.names[OPERANDS.index(place)] = name.encode()
    return True


# The operands that the tensors of a convolution are, by sluice_conv_op; the result is D.
_CONV_PLACES = {1: {"input": "a", "weight": "b"}, 2: {"grad_output": "a", "weight": "b"}, 3: {"grad_output": "a", "input": "b"}}
_CONV_NAMES = {"out": "d", "total": "d", "scale_x": "scale_a", "scale_w": "scale_b"}


def check_convolution(op: int, tensors: Dict[str, Optional[Tensor]], stride: Sequence[int], padding: Sequence[int],
                      padding_after: Sequence[int], dilation: Sequence[int], *, activation: int = 0, update: int = 0) -> None:
    """Raises the error that a convolution of ``tensors``, keyed by argument name, would raise for their sizes, types and
    layouts. Checks nothing if a size is unknown."""
    call = new_call()
    call.problem.activation, call.problem.update = activation, update
    conv = call.problem.conv
    conv.op, conv.spatial, conv.uneven_padding = op, len(stride), 1
    for name, values in (("stride", stride), ("padding", padding), ("padding_after", padding_after), ("dilation", dilation)):
        getattr(conv, name)[:len(values)] = values
    for name, tensor in tensors.items():
        if tensor is None:
            continue
        shape, strides = _known(tensor.shape), _known(tensor.stride())
        place = {**_CONV_PLACES[op], **_CONV_NAMES}.get(name, name)
        if not _add(call, place, name, None if shape is None or strides is None else _struct(tensor, shape, strides)):
            return
    lib.sluice_describe(ctypes.byref(call))
