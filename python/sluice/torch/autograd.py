# SPDX-License-Identifier: Apache-2.0
"""The backward of a 16-bit linear: two products of our own, one for the input and one for the weight, whose operands
are read in whatever layout they have. Outside of the ops, because a registered backward costs more than a launch."""
from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor

from .. import _binding

_is_compiling = torch.compiler.is_compiling


def needs_grad(a: Tensor, b: Optional[Tensor], bias: Optional[Tensor], c: Optional[Tensor]) -> bool:
    """Is a backward wanted of any of them? Written out: every eager call asks."""
    return torch.is_grad_enabled() and (
        a.requires_grad or (b is not None and b.requires_grad) or (bias is not None and bias.requires_grad)
        or (c is not None and c.requires_grad))


def _product(a: Tensor, b: Tensor, dtype: torch.dtype) -> Tensor:
    if _is_compiling():
        return torch.ops.sluice.mm(a, b, None, None, 1.0, 0.0, dtype, "none", False)
    out = a.new_empty((a.shape[0], b.shape[1]), dtype=dtype)
    _binding.mm(a, b, out, None, None, 1.0, 0.0, 0, False, None)
    return out


def add_product_(total: Tensor, a: Tensor, b: Tensor) -> None:
    """``total += a @ b`` in one kernel, e.g. an fp32 main_grad."""
    if _is_compiling():
        torch.ops.sluice.mm_out(a, b, total, None, total.clone(), 1.0, 1.0, "none", False)
    else:
        _binding.mm(a, b, total, None, total, 1.0, 1.0, 0, False, None)


class LinearFunction(torch.autograd.Function):
    """``input @ weight.t() + bias``. If ``weight.main_grad`` is an fp32 tensor of the weight's shape, the weight's
    gradient is added to it and ``weight.grad`` stays as it is (``weight.grad_added_to_main_grad`` becomes True)."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
        ctx.save_for_backward(input, weight)
        ctx.main_grad = getattr(weight, "main_grad", None)
        ctx.weight_object = weight if ctx.main_grad is not None else None
        if _is_compiling():
            return torch.ops.sluice.linear(input, weight, bias, "none")
        out = input.new_empty((*input.shape[:-1], weight.shape[0]))
        _binding.linear(input, weight, bias, out, 0, None)
        return out

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple:
        input, weight = ctx.saved_tensors
        # What autograd hands in may be expanded (the gradient of a sum), which is no layout for a kernel.
        grad = grad_output.reshape(-1, grad_output.shape[-1]).contiguous()
        rows = input.reshape(-1, input.shape[-1])
        grad_input = grad_weight = grad_bias = None
        if ctx.needs_input_grad[0]:
            grad_input = _product(grad, weight, input.dtype).view(input.shape)
        if ctx.needs_input_grad[1]:
            if ctx.main_grad is not None:
                add_product_(ctx.main_grad, grad.t(), rows)
                ctx.weight_object.grad_added_to_main_grad = True
            else:
                grad_weight = _product(grad.t(), rows, weight.dtype)
        if ctx.needs_input_grad[2]:
            grad_bias = grad.sum(0)
        return grad_input, grad_weight, grad_bias
