# SPDX-License-Identifier: Apache-2.0
"""Checks products of fake tensors, which have no memory, so that torch.compile and FakeTensorMode raise the same errors as the real
call."""
from __future__ import annotations

import ctypes
from typing import Any, Dict, List, Optional, Sequence

import torch
from torch import Tensor

from .._library import (CONVOLUTION_ARRAYS, PRODUCT_ARRAYS, ArrayStruct, ConvolutionStruct, PackedWeightsStruct, ProblemStruct,
                        ProductStruct, WeightFormatStruct, lib)

_TYPES = {torch.bfloat16: 0, torch.float16: 1, torch.float32: 2, torch.float8_e4m3fn: 3, torch.float8_e5m2: 4, torch.uint8: 32}
_OTHER_TYPE, _ON_CUDA = -1, 2
# Maps the name of an argument to the array of sluice_product that it is passed as.
_PLACES = {"a": "a", "mat_a": "a", "input": "a", "x": "a", "b": "b", "mat_b": "b", "weight": "b", "packed.blob": "b", "out": "d",
           "total": "d", "scale_x": "scale_a"}


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
                  update: int = 0) -> None:
    """Raises the error that a product of ``tensors``, keyed by argument name, would raise for their sizes, types and
    layouts. Checks nothing if a size is unknown."""
    product = ProductStruct(alpha=1.0, beta=1.0 if tensors.get("c") is not None else 0.0, gated=gated, update=update)
    names = (ctypes.c_char_p * len(PRODUCT_ARRAYS))()
    as_rows = "input" in tensors or "x" in tensors
    for name, tensor in tensors.items():
        if tensor is None:
            continue
        place = _PLACES.get(name, name)
        array = _array("input" if as_rows and place in ("c", "d") else name, tensor)
        if array is None:
            return
        setattr(product, place, ctypes.pointer(array))
        names[PRODUCT_ARRAYS.index(place)] = {"weight": "weight.t()"}.get(name, name).encode()
    product.names = names
    if weights is not None:
        product.packed = ctypes.pointer(PackedWeightsStruct(WeightFormatStruct(*weights[:5]), *weights[5:]))
    lib.sluice_problem_of(ctypes.byref(product), ctypes.byref(ProblemStruct()))


# Maps the name of an argument (not the result) to the array of sluice_convolution that it is passed as.
_CONV_PLACES = {"input": "x", "weight": "w", "grad_output": "y"}
_RESULTS = {1: "y", 2: "x", 3: "w"}  # the array that is the result, by sluice_conv_op


def check_convolution(op: int, tensors: Dict[str, Optional[Tensor]], stride: Sequence[int], padding: Sequence[int],
                      padding_after: Sequence[int], dilation: Sequence[int], *, activation: int = 0, update: int = 0) -> None:
    """Raises the error that a convolution of ``tensors``, keyed by argument name, would raise for their sizes, types and
    layouts. Checks nothing if a size is unknown."""
    numbers = {name: (ctypes.c_int64 * len(values))(*values) for name, values in
               (("stride", stride), ("padding", padding), ("padding_after", padding_after), ("dilation", dilation))}
    convolution = ConvolutionStruct(op=op, spatial=len(stride), alpha=1.0, beta=1.0 if tensors.get("c") is not None else 0.0,
                                    activation=activation, update=update, **numbers)
    names = (ctypes.c_char_p * len(CONVOLUTION_ARRAYS))()
    for name, tensor in tensors.items():
        if tensor is None:
            continue
        place = _RESULTS[op] if name in ("out", "total") else _CONV_PLACES.get(name, name)
        shape, strides = _known(tensor.shape), _known(tensor.stride())
        if shape is None or strides is None:
            return
        setattr(convolution, place, ctypes.pointer(_struct(tensor, shape, strides)))
        names[CONVOLUTION_ARRAYS.index(place)] = name.encode()
    convolution.names = names
    lib.sluice_conv_problem_of(ctypes.byref(convolution), ctypes.byref(ProblemStruct()))
