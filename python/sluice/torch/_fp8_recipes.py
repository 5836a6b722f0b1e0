# SPDX-License-Identifier: Apache-2.0
"""Recipes of FP8 training: how each operand of a linear's three products is cast, and which layers gain by it.

Each operand is needed in up to two orders. Rows serve the products that sum over its columns, columns those that sum over its rows.
"""
from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Union

import torch

from .._arguments import did_you_mean, shown
from ..errors import InvalidArgument, Misaligned
from ..problems import Problem
from ._entry import checked
from ._layers import ANY_ROWS, SCALES, backward_problems, linear_problem
from .quantize import E4M3, E5M2, TOKENS

BACKWARDS, KEEPS, WEIGHT_GRADIENTS = ("fp8",), ("columns", "input"), ("fp8", "16bit")


class Cast(NamedTuple):
    """How an operand is cast: the type of its codes, and the granularity of the scales of each order."""

    dtype: torch.dtype
    rows: str
    columns: str


class TrainingRecipe(NamedTuple):
    """The casts of a linear's operands."""

    input: Cast
    weight: Cast
    gradient: Cast
    power_of_two: bool


_TENSOR, _ROW, _TOKENS = (Cast(E4M3, kind, kind) for kind in ("tensor", "row", "1x128"))
_RECIPES = {
    ("tensor", "fp8"): TrainingRecipe(_TENSOR, _TENSOR, Cast(E5M2, "tensor", "tensor"), False),
    ("row", "fp8"): TrainingRecipe(_ROW, _ROW, _ROW, True),
    ("block", "fp8"): TrainingRecipe(_TOKENS, Cast(E4M3, "128x128", "128x128"), _TOKENS, False),
    # The weight's columns have one scale, as in torchao's recipe with a weight gradient of high precision.
    ("row", "16bit"): TrainingRecipe(_ROW, Cast(E4M3, "row", "tensor"), _ROW, True),
}


def training_recipe(recipe: str, weight_gradient: str) -> TrainingRecipe:
    return _RECIPES.get((recipe, weight_gradient)) or _RECIPES[recipe, "fp8"]


def check_training(recipe: Optional[str], backward: Optional[str], keep: str, weight_gradient: str, fuse_quantizer: bool) -> None:
    """Raises ``InvalidArgument`` for options of training that no layer has."""
    if backward is not None and backward not in BACKWARDS:
        raise InvalidArgument(f"backward = {shown(backward)} must be 'fp8' (the layer trains in FP8) or None: a layer with recipe=None "
                              "trains in 16 bits, one with another recipe is forward only")
    for name, value, known in (("keep", keep, KEEPS), ("weight_gradient", weight_gradient, WEIGHT_GRADIENTS)):
        if value not in known:
            raise InvalidArgument(f"{name} = {shown(value)} must be one of {', '.join(known)}{did_you_mean(value, known)}")
        if backward is None and value != known[0]:
            raise InvalidArgument(f"{name} = {shown(value)} is for backward = 'fp8': pass that too, or leave it out")
    if backward is not None and fuse_quantizer:
        raise InvalidArgument("fuse_quantizer = True is for layers that are forward only, and backward = 'fp8' casts in its own ops: leave one "
                              "of them out")
    if backward is not None and recipe not in SCALES:
        raise InvalidArgument(f"recipe = {shown(recipe)} has no backward in FP8, {', '.join(SCALES)} have: pass one of them, or leave out "
                              "backward")


def training_problems(layer: Any, recipe: str, weight_gradient: str, dtype: torch.dtype) -> List[Problem]:
    """Returns the problems of a layer's three products; ``dtype`` is its weight's type."""
    casts, n, k, scales = training_recipe(recipe, weight_gradient), layer.out_features, layer.in_features, SCALES[recipe]
    if n % 16 != 0:
        raise Misaligned(f"{type(layer).__name__}: out_features = {n} must be a multiple of 16 for a backward in FP8: leave the layer in 16 "
                         f"bits, or pad its outputs to {-(-n // 16) * 16}")
    of = {"b": "e4m3", "d": str(dtype), "scale_a": scales}
    gradient = "e5m2" if casts.gradient.dtype is E5M2 else "e4m3"
    of_input = Problem(ANY_ROWS, k, n, a=gradient, scale_b="tensor" if casts.weight.columns == "tensor" else scales, **of)
    if weight_gradient == "fp8":
        by_columns = {"scale_b": "vector128", "scale_a_ld": n} if recipe == "block" else {"scale_b": scales}
        of_weight = Problem(n, k, TOKENS, a=gradient, **by_columns, **of)
    else:
        of_weight = backward_problems(layer, torch.bfloat16 if dtype is torch.float32 else dtype)[1]
    return [linear_problem(layer, ANY_ROWS, recipe, dtype), of_input, of_weight]


# ---- which layers gain
# A layer gains if 2 K N / (K + N) exceeds this number divided by the rate of HBM in TB/s. Casts move 6 bytes an element at a device copy's
# rate, 0.9 of the datasheet's; products take 1 / 845 - 1 / 1497 s per TFLOP less than bf16's.
_WIDTH_TIMES_RATE = 3900.0
_COPY_SHARE = 0.9
_LEAST_RATE = 3350  # the H100's, taken for a device that is not listed: it asks for the most


def _rate_of(device: Union[str, int, torch.device, None]) -> int:
    from .decode.machine import datasheet_gb_s  # here, because decode imports this package

    if not torch.cuda.is_available():
        return _LEAST_RATE
    if device is not None and not isinstance(device, int) and torch.device(device).type != "cuda":
        device = None
    return datasheet_gb_s(torch.cuda.get_device_name(device)) or _LEAST_RATE


@checked
def fp8_training_pays(in_features: int, out_features: int, device: Union[str, int, torch.device, None] = None) -> bool:
    """Returns whether a linear of these sizes is expected to train faster in FP8 than in 16 bits, with many tokens.

    FP8 halves the time of three products, which grows with K * N, and adds casts, which grow with K + N. So it pays if the width
    2 K N / (K + N) exceeds a limit that the rate of HBM decides: about 900 on an H200, 1300 on an H100. The limit is computed, and not
    measured yet.

    - ``device``: the GPU; by default the current one. Without a GPU the answer is an H100's.
    """
    least = least_width(device)
    return in_features + out_features > 0 and 2 * in_features * out_features / (in_features + out_features) > least


def least_width(device: Union[str, int, torch.device, None]) -> float:
    """Returns the width 2 K N / (K + N) above which a linear gains."""
    return _WIDTH_TIMES_RATE / (_COPY_SHARE * _rate_of(device) / 1000)


def why_it_loses(in_features: int, out_features: int, device: Union[str, int, torch.device, None]) -> Optional[str]:
    """Returns the reason why ``convert_`` leaves a layer in 16 bits; None for a layer that gains."""
    if fp8_training_pays(in_features, out_features, device):
        return None
    width = 2 * in_features * out_features / max(in_features + out_features, 1)
    return (f"training it in FP8 is expected to be slower than in 16 bits: 2 K N / (K + N) = {width:.0f} for in_features = {in_features} and "
            f"out_features = {out_features}, and it must exceed {least_width(device):.0f}: narrow=True takes it too")
