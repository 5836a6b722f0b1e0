# SPDX-License-Identifier: Apache-2.0
"""The backward of a 16-bit linear: two products of our own, one for the input and one for the weight.

The products read their operands in the layouts they have. The backward is not registered with the ops, because a
registered one costs more than a launch.
"""
from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor

from ..errors import InvalidArgument, InvalidSize, InvalidType
from ..plans import Workspace
from ._library import LINEAR, MM, add_mm_, any_order_of, as_matrix, dispatch, workspace_number

_is_compiling = torch.compiler.is_compiling


def needs_grad(a: Tensor, b: Optional[Tensor], bias: Optional[Tensor], c: Optional[Tensor]) -> bool:
    """Returns whether a backward is wanted for any of them. The conditions are written out, because every eager call asks."""
    return torch.is_grad_enabled() and (
        a.requires_grad or (b is not None and b.requires_grad) or (bias is not None and bias.requires_grad)
        or (c is not None and c.requires_grad))


def refuse_grad(what: str) -> None:
    """Raises ``InvalidArgument`` for an op without a backward. Callers ask ``needs_grad`` first, so that other calls cost
    nothing more."""
    raise InvalidArgument(f"{what} has no backward, and a gradient is wanted of one of its arguments: call it under "
                          "torch.no_grad(), or detach() them")


def refuse_second_derivative() -> None:
    """Raises ``InvalidArgument`` in a backward that is itself to be differentiated: products have no second derivative, and a gradient
    without one would count as a constant. The backward of a compiled graph is torch's, and answers for itself."""
    if torch.is_grad_enabled() and not _is_compiling():
        raise InvalidArgument("create_graph=True wants a second derivative, and sluice's products have none: leave create_graph out, or "
                              "use torch's linear and convolutions in this part of the model")


def _product(a: Tensor, b: Tensor, dtype: torch.dtype, workspace: int) -> Tensor:
    return dispatch(MM, None, dtype, a, b, 1.0, 0.0, False, None, None, None, False, None, workspace)


def add_product_(total: Tensor, a: Tensor, b: Tensor, deterministic: bool, workspace: int = 0) -> None:
    """Computes ``total += a @ b`` with an fp32 ``total``. The memory system adds, so no kernel reads ``total``.
    ``deterministic``: as for ``any_order_of``."""
    add_mm_(total, a, b, any_order_of(deterministic), workspace)


def main_grad_of(weight: Tensor) -> Optional[Tensor]:
    """Returns ``weight.main_grad``, to which the weight's gradient is added, or None without one. Raises ``InvalidType`` or
    ``InvalidSize`` unless it is fp32 and of the weight's shape."""
    main_grad = getattr(weight, "main_grad", None)
    if main_grad is None:
        return None
    if main_grad.dtype is not torch.float32:
        raise InvalidType(f"weight.main_grad is {main_grad.dtype} and must be torch.float32: gradients are added to it in "
                          "fp32; make it .float(), or None to have weight.grad")
    if main_grad.shape != weight.shape:
        raise InvalidSize(f"weight.main_grad has shape {tuple(main_grad.shape)} and must have the weight's, "
                          f"{tuple(weight.shape)}: pass a .view() of it")
    return main_grad


def differentiable_linear(input: Tensor, weight: Tensor, bias: Optional[Tensor], deterministic: bool,
                          workspace: Optional[Workspace]) -> Tensor:
    """Applies ``LinearFunction``. Eager autograd keeps the workspace alive for the backward."""
    return LinearFunction.apply(input, weight, bias, deterministic, workspace_number(workspace),
                                None if _is_compiling() else workspace)


class LinearFunction(torch.autograd.Function):
    """``input @ weight.t() + bias`` with a backward.

    If ``weight.main_grad`` is an fp32 tensor of the weight's shape, the weight's gradient is added to it. ``weight.grad``
    then stays as it is, and ``weight.grad_added_to_main_grad`` becomes True.
    """

    @staticmethod
    def forward(ctx: Any, input: Tensor, weight: Tensor, bias: Optional[Tensor], deterministic: bool, workspace: int,
                kept: Optional[Workspace]) -> Tensor:
        ctx.save_for_backward(input, weight)
        ctx.workspace, ctx.kept = workspace, kept
        ctx.main_grad, ctx.deterministic = main_grad_of(weight), deterministic
        ctx.weight_object = weight if ctx.main_grad is not None else None
        ctx.bias_shape_and_type = None if bias is None else (bias.shape, bias.dtype)
        return dispatch(LINEAR, None, input.dtype, input, weight, bias, None, None, False, None, workspace)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple:
        refuse_second_derivative()
        input, weight = ctx.saved_tensors
        # Autograd may hand in an expanded tensor (the gradient of a sum), which is no layout for a kernel.
        grad = as_matrix(grad_output).contiguous()
        rows = as_matrix(input)
        grad_input = grad_weight = grad_bias = None
        if ctx.needs_input_grad[0]:
            grad_input = _product(grad, weight, input.dtype, ctx.workspace).view(input.shape)
        if ctx.needs_input_grad[1]:
            if ctx.main_grad is not None:
                add_product_(ctx.main_grad, grad.t(), rows, ctx.deterministic, ctx.workspace)
                ctx.weight_object.grad_added_to_main_grad = True
            else:
                grad_weight = _product(grad.t(), rows, weight.dtype, ctx.workspace)
        if ctx.needs_input_grad[2]:
            shape, dtype = ctx.bias_shape_and_type
            grad_bias = grad.sum(0, dtype=dtype).view(shape)
        return grad_input, grad_weight, grad_bias, None, None, None
