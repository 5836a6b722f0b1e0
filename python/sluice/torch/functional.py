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

from ..errors import InvalidArgument
from ..plans import Workspace
from ._entry import op
from ._library import LINEAR, MM, SCALED_MM, check_out, dispatch, workspace_number
from .autograd import differentiable_linear, needs_grad, refuse_grad

_is_grad_enabled = torch.is_grad_enabled


@op
def scaled_mm(mat_a: Tensor, mat_b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Optional[Tensor] = None,
              scale_result: Optional[Tensor] = None, out_dtype: Optional[torch.dtype] = None,
              use_fast_accum: bool = False, *, c: Optional[Tensor] = None, activation: Optional[str] = None,
              gated: bool = False, scale_d: Optional[Tensor] = None, out: Optional[Tensor] = None,
              workspace: Optional[Workspace] = None) -> Tensor:
    """``torch._scaled_mm``: the product of fp8 matrices and their scales, which are dequantising multipliers in fp32.

    ``mat_a`` is m x k row-major, ``mat_b`` k x n column-major (``weight.t()``). The shapes of the scales say how they
    apply: one value; ``(m, 1)`` and ``(1, n)``, one for each row and column; or blocks, ``scale_a`` ``(m, ceil(k/128))``
    row-major and ``scale_b`` ``(ceil(n/128), ceil(k/128))`` row-major or its ``.t()``. Without ``use_fast_accum`` sums
    of 128 products are added up in fp32. ``out_dtype`` is that of ``mat_a`` if it is left out, as in torch. ``c`` (m x n,
    16 bits or fp32; it may be ``out`` itself) is added before the result is rounded: a residual. ``activation``, ``gated``: as
    for ``mm``. ``scale_d``: one fp32 value, by which the result is divided before it is rounded to an ``out_dtype`` of
    float8_e4m3fn. There is no backward: an argument that wants a gradient raises.
    """
    if scale_result is not None:
        raise InvalidArgument("scale_result is not supported: multiply scale_a or scale_b by it, or pass scale_d, which divides")
    if _is_grad_enabled() and (
            mat_a.requires_grad or mat_b.requires_grad or (bias is not None and bias.requires_grad)
            or (c is not None and c.requires_grad) or getattr(scale_a, "requires_grad", False)
            or getattr(scale_b, "requires_grad", False)):
        refuse_grad("scaled_mm")
    if out is not None:
        check_out(out, out_dtype)
    return dispatch(SCALED_MM, out, out_dtype or mat_a.dtype, mat_a, mat_b, scale_a, scale_b, use_fast_accum, bias, c, activation,
                    gated, scale_d, workspace_number(workspace))


@op
def mm(a: Tensor, b: Tensor, *, out: Optional[Tensor] = None, bias: Optional[Tensor] = None,
       c: Optional[Tensor] = None, alpha: float = 1.0, beta: Optional[float] = None,
       out_dtype: Optional[torch.dtype] = None, activation: Optional[str] = None, gated: bool = False,
       scale_d: Optional[Tensor] = None, use_fast_accum: bool = False, workspace: Optional[Workspace] = None) -> Tensor:
    """``act(alpha * a @ b + beta * c + bias)``, of matrices or of batches of them (three dimensions).

    16-bit operands may be row-major or column-major, each; fp8 ones as for ``scaled_mm``. ``c`` may be ``out`` itself,
    which adds to it (``beta`` is 1 if left out). ``activation`` is relu, gelu or silu. ``gated``: ``b`` holds the columns of a
    gate and then as many of what it multiplies, and the result, with half the columns, is ``act(gate) * up``. ``scale_d``: as
    for ``scaled_mm``. Differentiable for 16-bit matrices when neither ``out``, ``c``, ``activation``, ``gated``, ``alpha`` nor
    another ``out_dtype`` is given; the backward uses ``workspace`` too.
    """
    if beta is None:
        beta = 0.0 if c is None else 1.0
    if needs_grad(a, b, bias, c):
        if (out is not None or c is not None or activation not in (None, "none") or gated or scale_d is not None or alpha != 1.0
                or a.dim() != 2 or b.dim() != 2 or out_dtype not in (None, a.dtype)):
            raise InvalidArgument("mm is differentiable for two matrices and a bias alone: without out, c, activation, gated, "
                                  "alpha and an out_dtype that is not a's; use torch.no_grad() or detach() otherwise")
        return differentiable_linear(a, b.t(), bias, True, workspace)
    if out is not None:
        check_out(out, out_dtype)
    return dispatch(MM, out, out_dtype or a.dtype, a, b, alpha, beta, use_fast_accum, bias, c, activation, gated, scale_d,
                    workspace_number(workspace))


@op
def linear(input: Tensor, weight: Tensor, bias: Optional[Tensor] = None, *, c: Optional[Tensor] = None,
           activation: Optional[str] = None, gated: bool = False, out: Optional[Tensor] = None,
           workspace: Optional[Workspace] = None, deterministic: bool = True) -> Tensor:
    """``torch.nn.functional.linear`` with an activation and a residual ``c`` (of the output's shape; it may be ``out``) in
    the same kernel: ``act(input @ weight.t() + c + bias)``.

    ``input`` may have any number of leading dimensions. ``gated``: the weight holds the rows of a gate and then as many of
    what it multiplies, and the result is ``act(gate) * up`` (SwiGLU with activation="silu"). Differentiable without ``c``,
    ``activation``, ``gated`` and ``out``; the backward uses ``workspace`` too.

    ``deterministic=False`` lets the backward add the parts of a weight's gradient to ``weight.main_grad`` in any order,
    which may be faster and may change last bits from run to run (unless ``torch.use_deterministic_algorithms`` is on).
    """
    if needs_grad(input, weight, bias, c):
        if c is not None or activation not in (None, "none") or gated or out is not None:
            raise InvalidArgument("linear is differentiable without c, activation, gated and out; add c and apply the activation to "
                                  "its result, or use torch.no_grad()")
        return differentiable_linear(input, weight, bias, deterministic, workspace)
    if out is not None:
        check_out(out, None)
    return dispatch(LINEAR, out, input.dtype, input, weight, bias, c, activation, gated, None, workspace_number(workspace))
