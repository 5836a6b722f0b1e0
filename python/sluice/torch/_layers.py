# SPDX-License-Identifier: Apache-2.0
"""Describes the products of a layer as problems, so that a layer's constructor raises for a size or type that no kernel takes."""
from __future__ import annotations

import ctypes
import dataclasses
from typing import Any, Iterable, List, Optional, Sequence

import torch

from .._library import lib
from ..errors import Error
from ..formats import WeightFormat
from ..plans import Workspace
from ..problems import Problem

# The m of a problem that is checked on behalf of any m. It exceeds 1, because strides are checked only with several rows.
ANY_ROWS = 16
SCALES = {"tensor": "tensor", "row": "vector", "block": "block"}


class HoldsWorkspace:
    """A layer with an attribute ``workspace``. It is GPU memory, so it is None in a copy or a pickle of the layer."""

    workspace: Optional[Workspace] = None

    def __getstate__(self) -> dict:
        return {name: value for name, value in self.__dict__.items() if name != "workspace"}


def linear_problem(layer: torch.nn.Module, m: int, recipe: Optional[str], dtype: torch.dtype, *,
                   use_fast_accum: bool = False) -> Problem:
    """Returns the problem of a forward with ``m`` rows. ``dtype`` is the weight's type for a 16-bit layer, and the input's type
    for an FP8 layer."""
    sizes = {"m": m, "n": layer.out_features, "k": layer.in_features,
             "bias": None if layer.bias is None else str(layer.bias.dtype)}
    if recipe is None:
        return Problem(**sizes, a=str(dtype))
    scales = SCALES[recipe]
    return Problem(**sizes, a="e4m3", d=str(dtype), scale_a=scales, scale_b=scales,
                   accumulate="fast" if use_fast_accum else "promoted")


def backward_problems(layer: torch.nn.Module, dtype: torch.dtype) -> List[Problem]:
    """Returns the two problems of a 16-bit backward: the gradient of the input, and the gradient of the weight."""
    n, k, a = layer.out_features, layer.in_features, str(dtype)
    return [Problem(ANY_ROWS, k, n, a=a, b_major="mn"), Problem(n, k, ANY_ROWS, a=a, a_major="mn", b_major="mn")]


def let_race(outputs: int, inputs: int, filter: Sequence[int] = ()) -> None:  # noqa: A002 (of a convolution)
    """Lets first calls race that have a weight of these sizes, or are its gradients (docs/tuning.md). ``filter``: the sizes of a
    convolution's filter along its axes."""
    lib.sluice_race_layer(outputs, inputs, (ctypes.c_int32 * len(filter))(*filter), len(filter))


def let_layers_race(layers: Iterable[torch.nn.Module]) -> None:
    """Calls ``let_race`` for linears and convolutions."""
    for layer in layers:
        if isinstance(layer, torch.nn.modules.conv._ConvNd):
            let_race(layer.out_channels, layer.in_channels // layer.groups, layer.kernel_size)
        else:
            let_race(layer.out_features, layer.in_features)


def check_layer(layer: torch.nn.Module, problems: List[Problem]) -> None:
    """Raises the error of the first problem that breaks a rule, with the layer's name and its argument names in the message."""
    for problem in problems:
        try:
            problem.check()
        except Error as error:
            unit = _unit(problem)
            if unit is not None and layer.in_features % unit != 0:
                raise type(error)(f"{type(layer).__name__}: in_features = {layer.in_features} must be a multiple of {unit} for such "
                                  f"a weight: leave the layer in 16 bits, or pad the weight's columns with zeros to "
                                  f"{-(-layer.in_features // unit) * unit}") from None
            raise type(error)(f"{type(layer).__name__}(in_features={layer.in_features}, out_features={layer.out_features}): "
                              f"{error}") from None


def _unit(problem: Problem) -> Optional[int]:
    """Returns the number that in_features must be a multiple of if the tokens' rows have no gaps; None if there is no such rule."""
    return 16 if problem.a == "e4m3" else 8 if problem.packed else None


NEEDS_16_BITS = ("its weight is torch.float32, and without a recipe products are of 16 bits: call model.bfloat16() first, and keep "
                 "fp32 master weights in the optimizer (examples/train.py); torch.autocast does not reach sluice")


def why_not_packed(module: torch.nn.Linear, kind: Any, activations: Optional[str]) -> Optional[str]:
    """Returns the reason why a layer's weights cannot be packed into a layer of ``kind``; None if they can."""
    takes = (torch.bfloat16, torch.float16) if activations is None else (torch.bfloat16, torch.float16, torch.float32)
    if module.weight.dtype not in takes:
        return f"its weight is {module.weight.dtype} and must be {' or '.join(str(dtype) for dtype in takes)}: call model.bfloat16()"
    try:
        order = "half" if activations is None else "byte"
        check_layer(module, [packed_problem(module, dataclasses.replace(kind.DEFAULT, order=order))])
    except Error as error:
        return str(error)
    return None


def packed_problem(layer: Any, weights: WeightFormat) -> Problem:
    """Returns the problem of a packed layer with ``ANY_ROWS`` rows, and with tokens of the type that the format's order
    needs."""
    a, scales = ("e4m3", "vector") if weights.order == "byte" else ("bf16", "none")
    return Problem(ANY_ROWS, layer.out_features, layer.in_features, a=a, scale_a=scales, packed=weights)
