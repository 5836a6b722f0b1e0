# SPDX-License-Identifier: Apache-2.0
"""Products of torch tensors. Eager calls go straight to libsluice_c.so: the current stream, and after the first call of a
problem on it no synchronisation, and no allocation but an output that was not given. Under torch.compile they are ops of
torch.library.

A layout that no kernel takes raises with the remedy in the message; nothing is copied silently. While a CUDA graph is
captured, a product that was not prepared raises ``NotPrepared``: call ``sluice.prepare`` or run it once before.
"""
from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor

from .. import _binding
from ..errors import InvalidArgument
from ..plans import Workspace
from ._entry import op
from ._library import PLAIN, activation_number, check_out, workspace_number, written
from .autograd import differentiable_linear, needs_grad, refuse_grad

_is_compiling = torch.compiler.is_compiling
_is_grad_enabled = torch.is_grad_enabled
_empty = torch.empty
_scaled_mm_into = _binding.scaled_mm
_mm_into = _binding.mm
_linear_into = _binding.linear


@op
def scaled_mm(mat_a: Tensor, mat_b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Optional[Tensor] = None,
              scale_result: Optional[Tensor] = None, out_dtype: Optional[torch.dtype] = None,
              use_fast_accum: bool = False, *, c: Optional[Tensor] = None, out: Optional[Tensor] = None,
              workspace: Optional[Workspace] = None) -> Tensor:
    """``torch._scaled_mm``: the product of fp8 matrices and their scales, which are dequantising multipliers in fp32.

    ``mat_a`` is m x k row-major, ``mat_b`` k x n column-major (``weight.t()``). The shapes of the scales say how they
    apply: one value; ``(m, 1)`` and ``(1, n)``, one for each row and column; or blocks, ``scale_a`` ``(m, ceil(k/128))``
    row-major and ``scale_b`` ``(ceil(n/128), ceil(k/128))`` row-major or its ``.t()``. Without ``use_fast_accum`` sums
    of 128 products are added up in fp32. ``out_dtype`` is that of ``mat_a`` if it is left out, as in torch. ``c`` (m x n,
    16 bits or fp32; it may be ``out`` itself) is added before the result is rounded: a residual. There is no backward: an
    argument that wants a gradient raises.
    """
    if scale_result is not None:
        raise InvalidArgument("scale_result is not supported: multiply scale_a or scale_b by it")
    if _is_grad_enabled() and (
            mat_a.requires_grad or mat_b.requires_grad or (bias is not None and bias.requires_grad)
            or (c is not None and c.requires_grad) or getattr(scale_a, "requires_grad", False)
            or getattr(scale_b, "requires_grad", False)):
        refuse_grad("scaled_mm")
    if out is not None:
        check_out(out, out_dtype)
    if _is_compiling() or mat_a.__class__ not in PLAIN:
        if out is None:
            return torch.ops.sluice.scaled_mm(mat_a, mat_b, scale_a, scale_b, bias, out_dtype or mat_a.dtype,
                                              use_fast_accum, c, workspace_number(workspace))
        torch.ops.sluice.scaled_mm_out(mat_a, mat_b, scale_a, scale_b, bias, out, use_fast_accum, c,
                                       workspace_number(workspace))
        written(out)
        return out
    result = out
    if out is None:
        result = _empty((*mat_a.shape[:-1], mat_b.shape[-1]), dtype=out_dtype or mat_a.dtype, device=mat_a.device)
    _scaled_mm_into(mat_a, mat_b, scale_a, scale_b, bias, result, use_fast_accum,
                    workspace_number(workspace), c)
    if out is not None:
        written(out)
    return result


@op
def mm(a: Tensor, b: Tensor, *, out: Optional[Tensor] = None, bias: Optional[Tensor] = None,
       c: Optional[Tensor] = None, alpha: float = 1.0, beta: Optional[float] = None,
       out_dtype: Optional[torch.dtype] = None, activation: Optional[str] = None, use_fast_accum: bool = False,
       workspace: Optional[Workspace] = None) -> Tensor:
    """``act(alpha * a @ b + beta * c + bias)``, of matrices or of batches of them (three dimensions).

    16-bit operands may be row-major or column-major, each; fp8 ones as for ``scaled_mm``. ``c`` may be ``out`` itself,
    which adds to it (``beta`` is 1 if left out). ``activation`` is relu, gelu or silu. Differentiable for 16-bit
    matrices when neither ``out``, ``c``, ``activation``, ``alpha`` nor another ``out_dtype`` is given; the backward uses
    ``workspace`` too.
    """
    if beta is None:
        beta = 0.0 if c is None else 1.0
    if needs_grad(a, b, bias, c):
        if (out is not None or c is not None or activation not in (None, "none") or alpha != 1.0 or a.dim() != 2 or b.dim() != 2
                or out_dtype not in (None, a.dtype)):
            raise InvalidArgument("mm is differentiable for two matrices and a bias alone: without out, c, activation, "
                                  "alpha and an out_dtype that is not a's; use torch.no_grad() or detach() otherwise")
        return differentiable_linear(a, b.t(), bias, True, workspace)
    if out is not None:
        check_out(out, out_dtype)
    if _is_compiling() or a.__class__ not in PLAIN:
        if out is None:
            return torch.ops.sluice.mm(a, b, bias, c, alpha, beta, out_dtype or a.dtype, activation or "none", use_fast_accum,
                                       workspace_number(workspace))
        torch.ops.sluice.mm_out(a, b, out, bias, c, alpha, beta, activation or "none", use_fast_accum,
                                workspace_number(workspace))
        written(out)
        return out
    result = out
    if out is None:
        result = _empty((*a.shape[:-1], b.shape[-1]), dtype=out_dtype or a.dtype, device=a.device)
    _mm_into(a, b, result, bias, c, alpha, beta, activation_number(activation), use_fast_accum,
             workspace_number(workspace))
    if out is not None:
        written(out)
    return result


@op
def linear(input: Tensor, weight: Tensor, bias: Optional[Tensor] = None, *, c: Optional[Tensor] = None,
           activation: Optional[str] = None, out: Optional[Tensor] = None, workspace: Optional[Workspace] = None,
           deterministic: bool = True) -> Tensor:
    """``torch.nn.functional.linear`` with an activation and a residual ``c`` (of the output's shape; it may be ``out``) in
    the same kernel: ``act(input @ weight.t() + c + bias)``.

    ``input`` may have any number of leading dimensions. Differentiable without ``c``, ``activation`` and ``out``; the
    backward uses ``workspace`` too.

    ``deterministic=False`` lets the backward add the parts of a weight's gradient to ``weight.main_grad`` in any order,
    which may be faster and may change last bits from run to run (unless ``torch.use_deterministic_algorithms`` is on).
    """
    if needs_grad(input, weight, bias, c):
        if c is not None or activation not in (None, "none") or out is not None:
            raise InvalidArgument("linear is differentiable without c, activation and out; add c and apply the activation to "
                                  "its result, or use torch.no_grad()")
        return differentiable_linear(input, weight, bias, deterministic, workspace)
    if out is not None:
        check_out(out, None)
    if _is_compiling() or input.__class__ not in PLAIN:
        if out is None:
            return torch.ops.sluice.linear(input, weight, bias, activation or "none", c, workspace_number(workspace))
        torch.ops.sluice.linear_out(input, weight, bias, out, activation or "none", c, workspace_number(workspace))
        written(out)
        return out
    result = out
    if out is None:
        result = _empty((*input.shape[:-1], weight.shape[0]), dtype=input.dtype, device=input.device)
    _linear_into(input, weight, bias, result, activation_number(activation),
                 workspace_number(workspace), c)
    if out is not None:
        written(out)
    return result
