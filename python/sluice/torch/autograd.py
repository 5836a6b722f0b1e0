# SPDX-License-Identifier: Apache-2.0
"""The backward of a 16-bit linear: two sluice products, one for the input's gradient and one for the weight's.

Neither product transposes or copies an operand first. The backward is not registered with the torch ops, because the overhead of
a registered backward exceeds the launch overhead.
"""
from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor

from ..errors import InvalidArgument
from ..plans import Workspace
from ._library import LINEAR, MM, add_mm_, any_order_of, as_matrix, dispatch, workspace_number
from ._walks import holder_of_main_grad, result_of, saved_of, splittable, walk_of, weight_gradient, with_owner

_is_compiling = torch.compiler.is_compiling


def needs_grad(a: Tensor, b: Optional[Tensor], bias: Optional[Tensor], c: Optional[Tensor]) -> bool:
    """Returns whether any of the tensors requires a gradient. There is no loop over them, because every eager call runs this."""
    return torch.is_grad_enabled() and (
        a.requires_grad or (b is not None and b.requires_grad) or (bias is not None and bias.requires_grad)
        or (c is not None and c.requires_grad))


def refuse_grad(what: str) -> None:
    """Raises ``InvalidArgument`` for an op without a backward. Call it only if ``needs_grad`` is true."""
    raise InvalidArgument(f"{what} has no backward, and a gradient is wanted of one of its arguments: call it under "
                          "torch.no_grad(), or detach() them")


def refuse_second_derivative() -> None:
    """Raises ``InvalidArgument`` in a backward that is itself differentiated (``create_graph=True``): products have no second
    derivative, and torch would treat their gradients as constants. In a compiled graph torch makes the check."""
    if torch.is_grad_enabled() and not _is_compiling():
        raise InvalidArgument("create_graph=True wants a second derivative, and sluice's products have none: leave create_graph out, or "
                              "use torch's linear and convolutions in this part of the model")


def _product(a: Tensor, b: Tensor, dtype: torch.dtype, workspace: int) -> Tensor:
    return dispatch(MM, None, dtype, a, b, 1.0, 0.0, False, None, None, None, False, None, workspace)


def add_product_(total: Tensor, a: Tensor, b: Tensor, deterministic: bool, workspace: int = 0) -> None:
    """Computes ``total += a @ b`` with an fp32 ``total``, by reductions in global memory: no kernel reads ``total``.
    ``deterministic`` is passed to ``any_order_of``."""
    add_mm_(total, a, b, any_order_of(deterministic), workspace)


def differentiable_linear(input: Tensor, weight: Tensor, bias: Optional[Tensor], deterministic: bool,
                          workspace: Optional[Workspace]) -> Tensor:
    """Applies ``LinearFunction``. Eager autograd keeps the workspace alive for the backward."""
    return result_of(LinearFunction.apply(input, weight, bias, deterministic, workspace_number(workspace),
                                          None if _is_compiling() else workspace))


@splittable
class LinearFunction(torch.autograd.Function):
    """``input @ weight.t() + bias`` with a backward.

    If ``weight.main_grad`` is an fp32 tensor of the weight's shape when the backward runs, the weight's gradient is added to it.
    ``weight.grad`` then stays as it is, and ``weight.grad_added_to_main_grad`` becomes True.
    """

    @staticmethod
    def forward(ctx: Any, input: Tensor, weight: Tensor, bias: Optional[Tensor], deterministic: bool, workspace: int,
                kept: Optional[Workspace]) -> Any:
        ctx.workspace, ctx.kept, ctx.deterministic = workspace, kept, deterministic
        ctx.holder = holder_of_main_grad(weight)
        ctx.bias_shape_and_type = None if bias is None else (bias.shape, bias.dtype)
        return with_owner(ctx, dispatch(LINEAR, None, input.dtype, input, weight, bias, None, None, False, None, workspace), input, weight)

    @staticmethod
    def backward(ctx: Any, grad_output: Optional[Tensor], owner: Optional[Tensor] = None) -> tuple:
        refuse_second_derivative()
        input, weight = saved_of(ctx, 2)
        grad_input = grad_weight = grad_bias = None
        if grad_output is None:
            return None, None, None, None, None, None
        # Autograd may pass an expanded tensor (the gradient of a sum), whose zero strides no kernel takes.
        grad, rows, walk = as_matrix(grad_output).contiguous(), as_matrix(input), walk_of(ctx)
        if walk.input:
            grad_input = _product(grad, weight, input.dtype, ctx.workspace).view(input.shape)
        if walk.weight:
            grad_weight = weight_gradient(
                ctx.holder, weight.dtype, walk, lambda dtype: _product(grad.t(), rows, dtype, ctx.workspace),
                lambda total: add_product_(total, grad.t(), rows, ctx.deterministic, ctx.workspace))
        if walk.bias:
            shape, dtype = ctx.bias_shape_and_type
            grad_bias = grad.sum(0, dtype=dtype).view(shape)
        return grad_input, grad_weight, grad_bias, None, None, None
