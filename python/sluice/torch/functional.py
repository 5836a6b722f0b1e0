# SPDX-License-Identifier: Apache-2.0
"""Products of torch tensors, on the current stream.

Eager calls are passed directly to libsluice_c.so; under torch.compile the products are ops of torch.library. After the first call
of a problem on a stream, calls do not synchronise, and allocate nothing but the output (if ``out`` is not given).

A layout that no kernel takes raises an error that names the remedy; nothing is copied silently. While a CUDA graph is
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
    """Returns the product of fp8 matrices and their scales, as ``torch._scaled_mm`` does. Scales are dequantising
    multipliers in fp32.

    - ``mat_a`` is m x k row-major, ``mat_b`` is k x n column-major (``weight.t()``).
    - The shapes of ``scale_a`` and ``scale_b`` select the kind of scale. One value each: per tensor. ``(m, 1)`` and ``(1, n)``: per
      row of A and column of B. ``(m, ceil(k/128))`` and ``(ceil(n/128), ceil(k/128))``: per block, row-major. ``scale_a`` may
      also be stored by columns, with strides ``(1, ld)``, as torch and DeepGEMM want it; ``scale_b`` may also be the ``.t()`` of
      such a matrix. Beside a ``scale_a`` by columns, ``scale_b`` may have a scale for each column and 128 of k: ``(ceil(k/128), n)``,
      row-major, or its ``.t()``. Weight gradients of tokens that were cast by 1 x 128 need that.
    - ``out_dtype`` is the type of ``mat_a`` by default, as in torch.
    - ``use_fast_accum``: True leaves sums in the tensor core. False adds them to fp32 registers every 128 of k.
    - ``c``: a residual, m x n in 16 bits or fp32, added before the result is rounded. It may be ``out`` itself.
    - ``activation``, ``gated``: as for ``mm``.
    - ``scale_d``: one fp32 value; the result is divided by it before it is rounded to an ``out_dtype`` of float8_e4m3fn.

    There is no backward: an argument that requires a gradient raises ``InvalidArgument``, and so does ``scale_result``.
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
    """Returns ``act(alpha * a @ b + beta * c + bias)`` for two matrices, or for batches of them (three dimensions).

    - ``a``, ``b``: m x k and k x n. Each 16-bit operand may be row-major or column-major; fp8 ones are as for ``scaled_mm``.
    - ``c``: m x n; it may be ``out`` itself, to accumulate into it. ``beta`` is 1 by default if ``c`` is given.
    - ``activation``: "relu", "gelu" or "silu"; with ``gated`` also "clamped_swiglu".
    - ``gated``: the first half of the columns of ``b`` is ``gate``, the second half is ``up``. The result is ``act(gate) * up``, with
      half the columns. With "clamped_swiglu" it is ``g * sigmoid(1.702 * g) * (u + 1)``, where g is gate, at most 7, and u is up in
      -7..7, as in gpt-oss.
    - ``scale_d``: as for ``scaled_mm``.

    It is differentiable for 16-bit matrices without ``out``, ``c``, ``activation``, ``gated``, ``alpha`` and an ``out_dtype`` other
    than the inputs' type. With one of them, an argument that requires a gradient raises ``InvalidArgument``. The backward uses
    ``workspace`` too.
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
    """Returns ``act(input @ weight.t() + c + bias)``: ``torch.nn.functional.linear`` with an activation and a residual in
    the same kernel.

    - ``input``: k columns and any number of leading dimensions. ``weight``: n x k.
    - ``c``: a residual of the output's shape; it may be ``out``.
    - ``gated``: the first half of the weight's rows is ``gate``, the second half is ``up``. The result is ``act(gate) * up`` (SwiGLU
      with activation="silu").
    - ``deterministic``: False lets the backward add split-K slices of the weight's gradient to ``weight.main_grad`` in any order.
      That may be faster, and last bits may change from run to run unless ``torch.use_deterministic_algorithms`` is on.

    It is differentiable without ``c``, ``activation``, ``gated`` and ``out``; with one of them, an argument that requires a
    gradient raises ``InvalidArgument``. The backward uses ``workspace`` too.
    """
    if needs_grad(input, weight, bias, c):
        if c is not None or activation not in (None, "none") or gated or out is not None:
            raise InvalidArgument("linear is differentiable without c, activation, gated and out; add c and apply the activation to "
                                  "its result, or use torch.no_grad()")
        return differentiable_linear(input, weight, bias, deterministic, workspace)
    if out is not None:
        check_out(out, None)
    return dispatch(LINEAR, out, input.dtype, input, weight, bias, c, activation, gated, None, workspace_number(workspace))
