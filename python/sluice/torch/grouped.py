# SPDX-License-Identifier: Apache-2.0
"""Products of groups: rows belong to groups, each group has its own matrix, and the sizes of the groups are on the GPU. The functions
have torch's names and arguments (docs/groups.md)."""
from __future__ import annotations

from typing import Any, Optional, Tuple, Union

import torch
from torch import Tensor

from .._arguments import shown
from .._names import GROUPS
from ..errors import InvalidArgument, InvalidSize
from ..packed_experts import PackedExperts
from ..plans import Workspace
from ._entry import op
from ._library import ALONG_K, GROUPED_MM, MM, PACKED_GROUPED_MM, SLOTS, check_out, dispatch, grouped_mm_quantize, workspace_number
from .autograd import needs_grad, refuse_grad, refuse_second_derivative

ENDS, COUNTS = GROUPS.index("ends"), GROUPS.index("counts")


def product_of_groups(mat_a: Tensor, mat_b: Tensor, table: Tensor, *, groups: int = ENDS, pitch: int = 1,
                      scale_a: Optional[Tensor] = None, scale_b: Optional[Tensor] = None, row_factors: Optional[Tensor] = None,
                      use_fast_accum: bool = False, bias: Optional[Tensor] = None, c: Optional[Tensor] = None, activation: Optional[str] = None, gated: bool = False,
                      scale_d: Optional[Tensor] = None, out: Optional[Tensor] = None, out_dtype: Optional[torch.dtype] = None,
                      workspace: int = 0) -> Tensor:
    """Returns the product of the rows of ``mat_a`` with the matrix of their group; with ALONG_K, of each group's columns of ``mat_a``
    with its rows of ``mat_b``. ``groups``: ENDS, COUNTS, ALONG_K or SLOTS."""
    if out is not None:
        check_out(out, out_dtype)
    return dispatch(GROUPED_MM, out, out_dtype or mat_a.dtype, mat_a, mat_b, table, groups, pitch, scale_a, scale_b, row_factors,
                    use_fast_accum, bias, c, activation, gated, scale_d, workspace)


def _needs_table(mat_a: Tensor, mat_b: Tensor, offs: Optional[Tensor]) -> Tensor:
    if offs is None:
        raise InvalidArgument(f"offs is missing, and mat_a has {mat_a.dim()} dimensions and mat_b {mat_b.dim()}: pass the ends of the "
                              "groups, int32 on the GPU, or two batches of matrices")
    return offs


def _rest(out: Tensor, offs: Tensor) -> Tensor:
    """Returns which rows of ``out`` lie behind the last group, as a column."""
    rows = torch.arange(out.shape[0], device=out.device, dtype=torch.int32)
    return (rows >= (offs.max() if offs.numel() else 0)).unsqueeze(-1)


def _zero_rest(out: Tensor, offs: Tensor) -> Tensor:
    """Makes the rows of ``out`` behind the last group zeros, and returns it."""
    return out.masked_fill_(_rest(out, offs), 0)


@op
def grouped_mm(mat_a: Tensor, mat_b: Tensor, *, offs: Optional[Tensor] = None, bias: Optional[Tensor] = None,
               out_dtype: Optional[torch.dtype] = None, c: Optional[Tensor] = None, activation: Optional[str] = None,
               gated: bool = False, zero_rest: bool = False, out: Optional[Tensor] = None,
               workspace: Optional[Workspace] = None) -> Tensor:
    """Returns the products of groups of rows, as ``torch.nn.functional.grouped_mm`` does. Types: bf16 and fp16.

    - ``mat_a`` rows x k and ``mat_b`` groups x k x n: rows ``offs[g - 1]`` to ``offs[g]`` are multiplied by matrix g. The result is
      rows x n.
    - ``mat_a`` groups x m x k and ``mat_b`` k x columns: columns ``offs[g - 1]`` to ``offs[g]`` are multiplied by matrix g. The result
      is m x columns, stored by columns.
    - ``mat_a`` m x rows and ``mat_b`` rows x n: columns ``offs[g - 1]`` to ``offs[g]`` of ``mat_a`` are multiplied by these rows of
      ``mat_b``. Both have a row in memory for each of them (``x.t()`` and ``y``). The result is groups x m x n, and zeros for a group
      without rows.
    - Two batches of matrices, without ``offs``: as ``mm``.
    - ``offs``: int32, one past the last row (column) of each group, on the GPU. It is read by the kernel, so nothing waits for it, and
      a CUDA graph may be replayed with other numbers. Any numbers are safe (docs/groups.md).
    - ``bias``: groups x n.
    - ``c``, ``activation``, ``gated``: as for ``mm``; with ``gated``, each matrix of ``mat_b`` has gate and up side by side.
    - ``zero_rest``: True makes rows behind the last group zeros. By default they keep what the memory had, as in torch.

    It is differentiable for rows x k and groups x k x n without ``c``, ``activation``, ``gated``, ``out`` and an ``out_dtype`` other
    than the inputs' type. With another argument that requires a gradient it raises ``InvalidArgument``. Gradients of rows behind the
    last group are zeros.
    """
    if needs_grad(mat_a, mat_b, bias, c):
        return _differentiable(mat_a, mat_b, offs, bias, zero_rest, workspace,
                               simple=c is None and activation in (None, "none") and not gated and out is None
                               and out_dtype in (None, mat_a.dtype))
    dimensions = (mat_a.dim(), mat_b.dim())
    if dimensions == (3, 3):
        if offs is not None:
            raise InvalidArgument("offs is given, and mat_a and mat_b are batches of matrices, which have no groups: leave it out")
        return dispatch(MM, out, out_dtype or mat_a.dtype, mat_a, mat_b, 1.0, 0.0 if c is None else 1.0, False, bias, c, activation,
                        gated, None, workspace_number(workspace))
    if dimensions == (2, 3):
        table = _needs_table(mat_a, mat_b, offs)
        made = product_of_groups(mat_a, mat_b, table, bias=bias, c=c, activation=activation, gated=gated, out=out, out_dtype=out_dtype,
                                 workspace=workspace_number(workspace))
        return _zero_rest(made, table) if zero_rest else made
    if dimensions == (3, 2):
        _refuse("groups of columns (mat_a is a batch of matrices)", bias=bias, c=c, out=out, gated=gated or None, zero_rest=zero_rest or None)
        return product_of_groups(mat_b.t(), mat_a.transpose(-2, -1), _needs_table(mat_a, mat_b, offs), activation=activation,
                                 out_dtype=out_dtype, workspace=workspace_number(workspace)).t()
    if dimensions == (2, 2):
        _refuse("sums over groups (mat_a and mat_b are matrices)", bias=bias, gated=gated or None, zero_rest=zero_rest or None)
        return product_of_groups(mat_a, mat_b, _needs_table(mat_a, mat_b, offs), groups=ALONG_K, c=c, activation=activation, out=out,
                                 out_dtype=out_dtype, workspace=workspace_number(workspace))
    raise InvalidSize(f"mat_a has {dimensions[0]} dimensions and mat_b {dimensions[1]}: each must have 2 or 3")


def _refuse(what: str, **given: object) -> None:
    """Raises ``InvalidArgument`` for the first argument that is given and that such a product does not take."""
    for name, value in given.items():
        if value is not None:
            raise InvalidArgument(f"{name} = {shown(value) if not isinstance(value, Tensor) else 'a tensor'}, and {what} take no such "
                                  "argument: leave it out")


def _differentiable(mat_a: Tensor, mat_b: Tensor, offs: Optional[Tensor], bias: Optional[Tensor], zero_rest: bool,
                    workspace: Optional[Workspace], *, simple: bool) -> Tensor:
    if not simple or (mat_a.dim(), mat_b.dim()) != (2, 3):
        raise InvalidArgument("grouped_mm is differentiable for rows x k and groups x k x n, without c, activation, gated, out and an "
                              "out_dtype that is not mat_a's; use torch.no_grad() or detach() otherwise")
    if mat_b.shape[-1] % 8 != 0 or mat_b.shape[-2] % 8 != 0:
        raise InvalidSize(f"mat_b has shape {tuple(mat_b.shape)}: for a gradient its last two dimensions must be multiples of 8; pad them")
    table = _needs_table(mat_a, mat_b, offs)
    made: Tensor = GroupedFunction.apply(mat_a, mat_b, table, bias, workspace_number(workspace),
                                         None if torch.compiler.is_compiling() else workspace)
    return made.masked_fill(_rest(made, table), 0) if zero_rest else made


class GroupedFunction(torch.autograd.Function):
    """``grouped_mm`` of rows x k and groups x k x n with a backward: two products of groups, with the same table."""

    @staticmethod
    def forward(ctx: Any, mat_a: Tensor, mat_b: Tensor, offs: Tensor, bias: Optional[Tensor], workspace: int,
                kept: Optional[Workspace]) -> Tensor:
        ctx.save_for_backward(mat_a, mat_b, offs)
        ctx.workspace, ctx.kept, ctx.bias_type = workspace, kept, None if bias is None else bias.dtype
        return product_of_groups(mat_a, mat_b, offs, bias=bias, workspace=workspace)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple:
        refuse_second_derivative()
        mat_a, mat_b, offs = ctx.saved_tensors
        grad, grad_a, grad_b, grad_bias = grad_output.contiguous(), None, None, None
        if ctx.needs_input_grad[0]:
            grad_a = _zero_rest(product_of_groups(grad, mat_b.transpose(-2, -1), offs, workspace=ctx.workspace), offs)
        if ctx.needs_input_grad[1]:
            grad_b = _weight_gradient(mat_a, mat_b, grad, offs, ctx.workspace)
        if ctx.needs_input_grad[3]:
            ones = torch.ones(grad.shape[0], 8, dtype=grad.dtype, device=grad.device)
            grad_bias = product_of_groups(ones.t(), grad, offs, groups=ALONG_K, out_dtype=ctx.bias_type, workspace=ctx.workspace)[:, 0]
        return grad_a, grad_b, None, grad_bias, None, None


def _weight_gradient(mat_a: Tensor, mat_b: Tensor, grad: Tensor, offs: Tensor, workspace: int) -> Tensor:
    """Returns the gradient of ``mat_b`` in its layout: groups x k x n, or the transpose of groups x n x k."""
    if mat_b.stride(-1) == 1:
        return product_of_groups(mat_a.t(), grad, offs, groups=ALONG_K, workspace=workspace)
    return product_of_groups(grad.t(), mat_a, offs, groups=ALONG_K, workspace=workspace).transpose(-2, -1)


@op
def packed_grouped_mm(x: Tensor, packed: PackedExperts, offs: Tensor, bias: Optional[Tensor] = None, *, activation: Optional[str] = None,
                      gated: bool = False, out: Optional[Tensor] = None, out_dtype: Optional[torch.dtype] = None) -> Tensor:
    """Returns the products of groups of rows and the packed weights of their expert: ``act(x[rows] @ W[g].t() + bias[g])``.

    - ``x``: rows x k, bf16 or fp16, with row pitches of multiples of 16 bytes. ``offs``: int32, one past the last row of each expert, on
      the GPU; any numbers are safe (docs/groups.md). Rows behind the last group keep what the memory had.
    - ``bias``: experts x n. ``activation``, ``gated``, ``out``, ``out_dtype``: as for ``packed_mm``.

    It is for few rows per expert, as in decoding: a CTA has at most 32. There is no backward: an argument that requires a gradient
    raises ``InvalidArgument``.
    """
    packed.check_gated(gated)
    if needs_grad(x, bias, None, None):
        refuse_grad("packed_grouped_mm")
    if out is not None:
        check_out(out, out_dtype)
    return dispatch(PACKED_GROUPED_MM, out, out_dtype or (x.dtype if out is None else out.dtype), x, packed.blob, packed.numbers, offs,
                    ENDS, 1, bias, activation, gated)


def slots_of_row(mat_a: Tensor, ids: Tensor) -> int:
    """Returns how many slots of ``ids`` read each row of ``mat_a``."""
    slots, rows = ids.numel(), mat_a.shape[0]
    if rows == 0 and slots == 0:
        return 1
    if rows == 0 or slots == 0 or slots % rows != 0:
        raise InvalidSize(f"ids has shape {tuple(ids.shape)} and mat_a {tuple(mat_a.shape)}: ids must have the same number of slots for each "
                          "row of mat_a; fill up with -1")
    return slots // rows


def default_of_slots(mat_a: Tensor) -> torch.dtype:
    """Returns the result's type where the caller gives none."""
    return torch.bfloat16 if mat_a.dtype.itemsize == 1 else mat_a.dtype


def refuse_scales_of_packed(scale_a: Optional[Tensor], scale_b: Optional[Tensor]) -> None:
    if scale_a is not None or scale_b is not None:
        raise InvalidArgument("scale_a or scale_b is given and mat_b is packed: it contains its scales, and 16 bits have none; leave it out")


@op(offs="ids")
def slots_mm(mat_a: Tensor, mat_b: Union[Tensor, PackedExperts], ids: Tensor, *, scale_a: Optional[Tensor] = None,
             scale_b: Optional[Tensor] = None, bias: Optional[Tensor] = None, activation: Optional[str] = None, gated: bool = False,
             use_fast_accum: bool = False, out: Optional[Tensor] = None, out_dtype: Optional[torch.dtype] = None) -> Tensor:
    """Returns the products of slots, for few rows that are not sorted by expert: row s is ``act(mat_a[s // k] @ mat_b[ids[s]])``.

    - ``mat_a``: rows x k of bf16, fp16 or fp8, row-major. ``mat_b``: experts x k x n of the same type with k contiguous
      (``weight.transpose(-2, -1)``), or ``PackedExperts``, for 16 bits.
    - ``ids``: int32 on the GPU, ``(rows, k)`` as a router gives it, or a list; each row of ``mat_a`` has the same number of slots. A
      slot of an id outside ``[0, experts)``, such as -1, costs nothing, and its row keeps what the memory had.
    - ``scale_a``, ``scale_b``, ``bias``: as for ``scaled_grouped_mm``; fp8 has scales. ``activation``, ``gated``: as for ``mm``. With
      block scales ``gated`` needs an n that is a multiple of 256.
    - ``out_dtype``: ``mat_a``'s, and bf16 for fp8.

    The result is slots x n, n / 2 if ``gated``. Each slot reads the weights of its expert by itself, so it is for so few slots that
    experts seldom repeat (docs/groups.md). Raises ``InvalidSize`` for more than 65,535 slots, and ``InvalidArgument`` for an argument
    that requires a gradient.
    """
    if needs_grad(mat_a, None if isinstance(mat_b, PackedExperts) else mat_b, bias, None):
        refuse_grad("slots_mm")
    if out is not None:
        check_out(out, out_dtype)
    if isinstance(mat_b, PackedExperts):
        mat_b.check_gated(gated)
        refuse_scales_of_packed(scale_a, scale_b)
        return dispatch(PACKED_GROUPED_MM, out, out_dtype or (mat_a.dtype if out is None else out.dtype), mat_a, mat_b.blob, mat_b.numbers,
                        ids.reshape(-1), SLOTS, slots_of_row(mat_a, ids), bias, activation, gated)
    made = out_dtype or default_of_slots(mat_a)
    return product_of_groups(mat_a, mat_b, ids.reshape(-1), groups=SLOTS, pitch=slots_of_row(mat_a, ids), scale_a=scale_a, scale_b=scale_b,
                             use_fast_accum=use_fast_accum, bias=bias, activation=activation, gated=gated, out=out,
                             out_dtype=made if out is None else out_dtype)


@op
def scaled_grouped_mm(mat_a: Tensor, mat_b: Tensor, scale_a: Tensor, scale_b: Tensor, offs: Optional[Tensor] = None,
                      bias: Optional[Tensor] = None, scale_result: Optional[Tensor] = None, out_dtype: Optional[torch.dtype] = None,
                      use_fast_accum: bool = False, *, c: Optional[Tensor] = None, activation: Optional[str] = None,
                      gated: bool = False, scale_d: Optional[Tensor] = None, row_factors: Optional[Tensor] = None,
                      zero_rest: bool = False, out: Optional[Tensor] = None, workspace: Optional[Workspace] = None) -> Tensor:
    """Returns the products of groups of fp8 rows and their scales, as ``torch._scaled_grouped_mm`` does. Scales are dequantising
    multipliers in fp32.

    - ``mat_a`` is rows x k, row-major. ``mat_b`` is groups x k x n with k contiguous (``weight.transpose(-2, -1)``).
    - The shapes of ``scale_a`` and ``scale_b`` select the kind of scale. One value each. ``(rows,)`` or ``(rows, 1)`` and
      ``(groups, n)``: per row, and per column of each group. ``(rows, ceil(k/128))`` and ``(groups, ceil(n/128), ceil(k/128))``: per
      block, row-major. ``scale_a`` may also be stored by columns, with strides ``(1, ld)``, as DeepGEMM wants it; ``scale_b`` may
      also be the ``.transpose(-2, -1)`` of such a tensor.
    - ``offs``, ``bias``, ``zero_rest``: as for ``grouped_mm``. ``out_dtype``: bf16 by default, as in torch.
    - ``use_fast_accum``, ``c``, ``activation``, ``gated``, ``scale_d``: as for ``scaled_mm``. With block scales ``gated`` needs an n that
      is a multiple of 256.
    - ``row_factors``: ``(rows,)`` of fp32, by which rows of the result are multiplied: weights of a router.

    There is no backward: an argument that requires a gradient raises ``InvalidArgument``, and so does ``scale_result``.
    """
    if scale_result is not None:
        raise InvalidArgument("scale_result is not supported: multiply scale_a or scale_b by it, or pass scale_d, which divides")
    if torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in (mat_a, mat_b, scale_a, scale_b, bias, c, row_factors)):
        refuse_grad("scaled_grouped_mm")
    if (mat_a.dim(), mat_b.dim()) != (2, 3):
        raise InvalidSize(f"mat_a has {mat_a.dim()} dimensions and mat_b {mat_b.dim()}: they must have 2 and 3, rows x k and groups x k x n")
    dtype = out_dtype or (torch.bfloat16 if out is None else out.dtype)
    table = _needs_table(mat_a, mat_b, offs)
    made = product_of_groups(mat_a, mat_b, table, scale_a=scale_a, scale_b=scale_b,
                             row_factors=row_factors, use_fast_accum=use_fast_accum, bias=bias, c=c, activation=activation, gated=gated,
                             scale_d=scale_d, out=out, out_dtype=dtype, workspace=workspace_number(workspace))
    return _zero_rest(made, table) if zero_rest else made


@op
def scaled_grouped_mm_quantize(mat_a: Tensor, mat_b: Tensor, scale_a: Tensor, scale_b: Tensor, offs: Tensor, *,
                               bias: Optional[Tensor] = None, activation: Optional[str] = None, gated: bool = False,
                               workspace: Optional[Workspace] = None) -> Tuple[Tensor, Tensor]:
    """Returns the products of groups in float8_e4m3fn, quantised by 1x128 in the same kernel: ``(codes, scales)``. The scales are fp32,
    ``(rows, ceil(columns / 128))``, as the next product of groups takes them. The arguments are those of
    ``scaled_grouped_mm``. Rows of no group have neither codes nor scales. There is no backward."""
    if torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in (mat_a, mat_b, scale_a, scale_b, bias)):
        refuse_grad("scaled_grouped_mm_quantize")
    return grouped_mm_quantize(mat_a, mat_b, offs, ENDS, 1, scale_a, scale_b, bias, activation, gated, workspace_number(workspace))
