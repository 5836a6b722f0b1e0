# SPDX-License-Identifier: Apache-2.0
"""Layers that replace ``torch.nn.Conv1d``, ``Conv2d`` and ``Conv3d``, with the same parameters, attributes and ``state_dict``.

torch computes convolutions that no kernel takes; ``fallbacks`` lists them with the reasons.
"""
from __future__ import annotations

from typing import Any, Dict, Optional

import torch
from torch import Tensor

from ..convolutions import Convolution
from ..errors import Error, InvalidArgument
from ._conv_layout import CHANNELS, geometry_of, operand, padded, takes_patches
from ._entry import checked
from ._layers import HoldsWorkspace
from .conv import CONVOLUTIONS

__all__ = ["Conv1d", "Conv2d", "Conv3d", "fallbacks"]

PLAIN_CONVOLUTIONS = (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)
_TYPES = (torch.bfloat16, torch.float16, torch.float32)


def why_not_conv(module: torch.nn.Module) -> Optional[str]:
    """Returns the reason why torch must compute a convolution whatever its input's size: groups, few channels, its type, or a limit
    of TMA. Returns None if sluice computes it."""
    if module.groups != 1:
        return f"groups = {module.groups}: kernels take one group"
    if module.transposed:
        return "it is a transposed convolution: sluice.torch.conv_transpose2d and its kin compute them"
    weight = module.weight
    if weight.dtype not in _TYPES:
        return f"its weight is {weight.dtype} and must be bfloat16, float16, or float32 (for torch.autocast)"
    kernel, axes = module.kernel_size, len(module.kernel_size)
    padding = module.padding if module.padding_mode == "zeros" else 0
    try:
        geometry = geometry_of(axes, kernel, module.stride, padding, module.dilation)
        if takes_patches(module.in_channels, kernel, geometry):
            return None
        if module.in_channels < CHANNELS:
            return (f"{module.in_channels} input channels are fewer than {CHANNELS}: padded, they would take the time of 64; sluice.torch."
                    f"conv{axes}d pads them")
        # The checks below do not depend on the image's size, which only has to exceed the filter.
        image = tuple(max(64, step * (size - 1) + 1) for step, size in zip(module.dilation, kernel))
        for op in ("fprop", "dgrad", "wgrad") if weight.requires_grad else ("fprop", "dgrad"):  # dgrad always: the input may require a gradient
            Convolution(op, (2, padded(module.in_channels), *image), (padded(module.out_channels), *kernel), stride=geometry.stride,
                        padding=geometry.padding, padding_after=geometry.padding_after, dilation=geometry.dilation).check()
    except Error as error:
        return str(error)
    return None


def make_channels_last_(weight: torch.nn.Parameter) -> None:
    """Makes a parameter's memory layout channels_last. Its values and the parameter object stay the same."""
    with torch.no_grad():
        weight.data = operand(weight.data, weight.shape[1], weight.dtype, may_have_pitch=False, counted=False)


class SluiceConvolution(HoldsWorkspace):
    """The mixin that makes sluice compute a convolution layer; a base class listed before torch's class."""

    deterministic: bool
    fallback_reason: Optional[str]

    def __init__(self, *arguments: Any, fallback: bool = False, deterministic: bool = True, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._set(deterministic, fallback)

    def _set(self, deterministic: bool, fallback: bool) -> None:
        self.deterministic = deterministic
        self.fallback_reason = why_not_conv(self)  # type: ignore[arg-type]
        if self.fallback_reason is None:
            make_channels_last_(self.weight)  # type: ignore[attr-defined]
        elif not fallback:
            raise InvalidArgument(f"{type(self).__name__}: {self.fallback_reason}; fallback=True leaves such a layer to torch")

    @classmethod
    def from_conv(cls, module: torch.nn.Module, *, deterministic: bool = True, fallback: bool = False) -> Any:
        """Makes the layer from torch's layer with the same number of axes. It shares the parameters, buffers and hooks, and makes the
        weight channels_last. Raises ``InvalidArgument`` for a layer that no kernel takes; with ``fallback`` torch computes it
        instead."""
        base = next(kind for kind in cls.__mro__ if kind in LAYERS)
        if type(module) is not base:
            raise InvalidArgument(f"{cls.__name__}.from_conv takes a torch.nn.{base.__name__}, and not a {type(module).__name__}")
        made = cls.__new__(cls)
        made.__dict__.update((name, value.copy() if isinstance(value, dict) else value) for name, value in module.__dict__.items())
        made._set(deterministic, fallback)
        return made

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
        if self.fallback_reason is not None:
            return super()._conv_forward(input, weight, bias)  # type: ignore[misc]
        padding = self.padding  # type: ignore[attr-defined]
        if self.padding_mode != "zeros":  # type: ignore[attr-defined]
            input = torch.nn.functional.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)  # type: ignore[attr-defined]
            padding = 0
        convolution = CONVOLUTIONS[len(self.kernel_size)]  # type: ignore[attr-defined]
        return convolution(input, weight, bias, self.stride, padding, self.dilation, deterministic=self.deterministic,  # type: ignore[attr-defined]
                           workspace=self.workspace)


class Conv1d(SluiceConvolution, torch.nn.Conv1d):
    """``torch.nn.Conv1d`` computed by sluice. All else is as for ``Conv2d``."""


class Conv2d(SluiceConvolution, torch.nn.Conv2d):
    """``torch.nn.Conv2d`` computed by sluice: the same arguments, parameters and ``state_dict``. The weight is channels_last.

    Tensors are in bf16 or fp16, or in fp32 under ``torch.autocast``. For a ``padding_mode`` other than "zeros", torch pads the input
    first.

    - ``fallback``: True lets torch compute a layer that no kernel takes (``fallbacks`` lists it). False raises ``InvalidArgument``.
    - ``deterministic``: as for ``conv2d``; an attribute, which may be changed at any time.
    - ``workspace``: an attribute too, None at first; as for ``Linear``.
    """


class Conv3d(SluiceConvolution, torch.nn.Conv3d):
    """``torch.nn.Conv3d`` computed by sluice. All else is as for ``Conv2d``."""


LAYERS = dict(zip(PLAIN_CONVOLUTIONS, (Conv1d, Conv2d, Conv3d)))


@checked
def fallbacks(model: torch.nn.Module) -> Dict[str, str]:
    """Returns the names of a model's convolutions that torch computes, each with the reason."""
    found = {}
    for name, module in model.named_modules():
        if isinstance(module, SluiceConvolution):
            reason = module.fallback_reason
        elif isinstance(module, torch.nn.modules.conv._ConvNd):
            reason = why_not_convert(module) or "it is torch's own: convert_ replaces it"
        else:
            continue
        if reason is not None:
            found[name] = reason
    return found


def why_not_convert(module: torch.nn.Module) -> Optional[str]:
    """Returns the reason why ``convert_`` does not replace a convolution; None if it does."""
    if type(module) in LAYERS or module.transposed:
        return why_not_conv(module)
    return f"it is a {type(module).__name__}, and a plain torch.nn.Conv1d, Conv2d or Conv3d is replaced: one derived from it may do more"
