# SPDX-License-Identifier: Apache-2.0
"""A feed-forward layer with SwiGLU that trains in FP8."""
from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import InvalidArgument, InvalidSize
from ._entry import checked, op
from .fp8_linear import swiglu_in_fp8
from .linear_layer import Linear


def _check_layer(name: str, layer: Any) -> None:
    if not isinstance(layer, Linear) or layer.backward != "fp8":
        raise InvalidArgument(f"{name} is a {type(layer).__name__} and must be a sluice.torch.nn.Linear with backward='fp8': make it by "
                              "Linear.from_linear(layer, recipe, backward='fp8')")
    if layer.weight_gradient != "fp8":
        raise InvalidArgument(f"{name} has weight_gradient = {layer.weight_gradient!r}, which multiplies in 16 bits what this layer never "
                              "writes in 16 bits: make it with weight_gradient='fp8', or call both layers one after the other")


class FeedForward(torch.nn.Module):
    """``down(silu(gate) * up)``, where gate and up are the halves of ``gate_up(input)``, trained in FP8.

    The kernel that casts ``silu(gate) * up`` computes it, and the kernel that casts the gradients of gate and up computes them. So neither
    is written in 16 bits, which saves 12 bytes per token and inner feature. Results are those of the two layers with
    ``torch.nn.functional.silu`` between them, but for roundings: the product and its gradients are rounded to 16 bits once.

    - ``gate_up``: a ``Linear`` with ``backward="fp8"`` and 2 * inner outputs, gate first. They are kept for the backward.
    - ``down``: one of inner inputs. With ``keep="input"`` it saves nothing, because gate and up are kept in any case, and casts
      ``silu(gate) * up`` again in the backward.

    The layers stay what they are: parameters have their names behind "gate_up." and "down.". Raises ``InvalidArgument`` for other layers and
    ``InvalidSize`` where sizes do not fit.
    """

    @checked
    def __init__(self, gate_up: Linear, down: Linear) -> None:
        super().__init__()
        _check_layer("gate_up", gate_up)
        _check_layer("down", down)
        if gate_up.out_features != 2 * down.in_features:
            raise InvalidSize(f"gate_up has {gate_up.out_features} outputs and must have {2 * down.in_features}, gate and up for each of down's "
                              f"{down.in_features} inputs")
        self.gate_up, self.down = gate_up, down

    @op
    def forward(self, input: Tensor) -> Tensor:
        """Returns the output, of the input's type, or of autocast's. Raises ``InvalidType`` for an fp32 input without autocast."""
        return swiglu_in_fp8(input, self.gate_up, self.down)
