# SPDX-License-Identifier: Apache-2.0
"""A feed-forward layer with SwiGLU that trains in FP8."""
from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor

from ..errors import InvalidArgument, InvalidSize, InvalidType
from ..plans import Rows
from ._entry import checked, op
from .fp8_linear import prepare_swiglu, swiglu_in_fp8
from .linear_layer import Linear

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def _why_not(layer: Any) -> Optional[str]:
    """Returns why a layer cannot be computed here; None if it can. The layer itself is not called."""
    kind = type(layer)
    if kind is not Linear:
        if issubclass(kind, Linear):
            return (f"is a {kind.__name__}, and a plain Linear is computed, which is not called: shard, compile or checkpoint the FeedForward, not "
                    "its layers, and call layers of your own class one after the other")
        return (f"is a {kind.__module__}.{kind.__name__} and must be a sluice.torch.nn.Linear with backward='fp8': make it by "
                "Linear.from_linear(layer, recipe, backward='fp8')")
    if layer.backward != "fp8":
        return f"has recipe = {layer.recipe!r} and backward = {layer.backward!r}, which must be 'fp8': make it with backward='fp8'"
    if layer.weight_gradient != "fp8":
        return (f"has weight_gradient = {layer.weight_gradient!r}, which multiplies in 16 bits what is never written in 16 bits: make it with "
                "weight_gradient='fp8', or call both layers one after the other")
    if any(getattr(layer, hooks) for hooks in _HOOKS):
        return "has hooks, which do not run because the layer is not called: register them on the FeedForward, or call both layers one after the other"
    return None


class FeedForward(torch.nn.Module):
    """``down(silu(gate) * up)``, where gate and up are the halves of ``gate_up(input)``, trained in FP8.

    The kernel that casts ``silu(gate) * up`` computes it, and the kernel that casts the gradients of gate and up computes them. So neither
    is written in 16 bits. Per token and inner feature that is 6 bytes of memory less. To read and write are 12 bytes less with recipe "block", and 8
    with others. Results are those of the two layers with ``torch.nn.functional.silu`` between them, but for roundings. The product and its
    gradients are rounded to 16 bits once, and the kernel's exponential is approximate.

    - ``gate_up``: a ``Linear`` with ``backward="fp8"`` and 2 * inner outputs: gate, then up. They are kept for the backward.
    - ``down``: one of inner inputs. With ``keep="input"`` it keeps nothing more, because gate and up are kept in any case, and casts
      ``silu(gate) * up`` again in the backward.

    Parameters have their names behind "gate_up." and "down.". The layers are computed without being called: their hooks would not run, and so
    layers that have some are refused, as are those that FSDP or a checkpoint wraps. Shard, compile and checkpoint the ``FeedForward``.

    Raises ``InvalidArgument`` for other layers, and for layers with ``weight_gradient="16bit"``; ``InvalidSize`` where sizes do not fit.
    """

    @checked
    def __init__(self, gate_up: Linear, down: Linear) -> None:
        super().__init__()
        self.gate_up, self.down = gate_up, down
        self._check()

    def _check(self) -> None:
        for name in ("gate_up", "down"):
            reason = _why_not(getattr(self, name))
            if reason is not None:
                raise InvalidArgument(f"{name} {reason}")
        if self.gate_up.out_features != 2 * self.down.in_features:
            raise InvalidSize(f"gate_up has {self.gate_up.out_features} outputs and must have {2 * self.down.in_features}, gate and up for each of "
                              f"down's {self.down.in_features} inputs")
        if self.down.weight.dtype not in (torch.bfloat16, torch.float16, torch.float32):
            raise InvalidType(f"down.weight is {self.down.weight.dtype} and must be bfloat16, float16 or float32: convert it")

    @op
    def forward(self, input: Tensor) -> Tensor:
        """Returns the output, of the input's type, or of autocast's. Raises ``InvalidType`` for an fp32 input without autocast, and the errors
        of the constructor for layers that were changed since."""
        self._check()
        return swiglu_in_fp8(input, self.gate_up, self.down)

    @checked
    def prepare(self, rows: Rows, dtype: Optional[torch.dtype] = None) -> None:
        """Compiles and loads the kernels that ``forward`` needs for every row count of a range, as ``Linear.prepare`` does for both layers, and
        those that cast ``silu(gate) * up`` and its gradients. The products of the backward are not prepared."""
        self.gate_up.prepare(rows, dtype)
        self.down.prepare(rows, dtype)
        self.prepare_casts(dtype)

    @checked
    def prepare_casts(self, dtype: Optional[torch.dtype] = None) -> None:
        """Compiles and loads the kernels that cast ``silu(gate) * up`` and its gradients; ``dtype`` is as for ``prepare``."""
        prepare_swiglu(self.gate_up.recipe, self.down.recipe, self.gate_up._input_type(dtype), self.gate_up.weight.device)
