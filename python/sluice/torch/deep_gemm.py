# SPDX-License-Identifier: Apache-2.0
"""DeepGEMM's signatures, computed by sluice: ``import sluice.torch.deep_gemm as deep_gemm``.

Only block-scaled FP8 is supported: fp32 scales per 1x128 of A and per 128x128 of B. Scales of A are row-major, as the cast
functions of this module write them, or stored by columns, as DeepGEMM's TMA loads want them (strides ``(1, ld)``); their strides tell.
"""
from __future__ import annotations

from typing import Optional, Sequence, Tuple

import torch
from torch import Tensor, is_grad_enabled

from .._arguments import shown
from ..errors import InvalidArgument, InvalidSize, InvalidStride, InvalidType
from ._entry import op
from .autograd import refuse_grad
from .functional import scaled_mm
from ._library import ALONG_K
from .grouped import COUNTS, product_of_groups
from .quantize import quantize


ALIGNMENT = 128
"""Rows to which groups are aligned in DeepGEMM's contiguous layout."""


def get_mk_alignment_for_contiguous_layout() -> int:
    """Returns ``ALIGNMENT``."""
    return ALIGNMENT


def _check(what: str, a: object, b: object, c: Optional[Tensor], recipe: Optional[Sequence[int]]) -> None:
    if recipe is not None and not (isinstance(recipe, (tuple, list)) and tuple(recipe) == (1, 128, 128)):
        raise InvalidArgument(f"recipe = {shown(recipe)} must be (1, 128, 128) or None")
    for name, pair in (("a", a), ("b", b)):
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2):
            raise InvalidArgument(f"{name} = {shown(pair)} must be two tensors: the matrix and its scales")
    if is_grad_enabled() and any(x is not None and x.requires_grad for x in (*a, *b, c)):  # type: ignore[misc]
        refuse_grad(what)


@op(mat_a="a[0]", mat_b="b[0]", scale_a="a[1]", scale_b="b[1]", out="d")
def fp8_gemm_nt(a: Tuple[Tensor, Tensor], b: Tuple[Tensor, Tensor], d: Tensor, c: Optional[Tensor] = None,
                recipe: Optional[Sequence[int]] = None, compiled_dims: str = "nk",
                disable_ue8m0_cast: bool = False) -> None:
    """Writes ``a @ b.t() (+ c)`` into ``d``. ``a`` is (m x k, its scales), ``b`` is (n x k, its scales), ``d`` is bf16 or fp32.

    ``compiled_dims`` and ``disable_ue8m0_cast`` are DeepGEMM's and have no effect: kernels here take all sizes at run time,
    and scales stay fp32. Raises ``InvalidArgument`` for a ``recipe`` other than (1, 128, 128), and for an argument that
    requires a gradient.
    """
    _check("fp8_gemm_nt", a, b, c, recipe)
    scaled_mm(a[0], b[0].t(), a[1], b[1], use_fast_accum=True, c=c, out=d)


def _check_table(name: str, table: Tensor) -> None:
    if table.dtype is not torch.int32:
        raise InvalidType(f"{name} is {table.dtype} and must be int32: pass {name}.int()")
    if table.dim() != 1:
        raise InvalidSize(f"{name} has shape {tuple(table.shape)} and must have one dimension")


def ends_of_indices(m_indices: Tensor, groups: int) -> Tensor:
    """Returns one past the last row of each group, int32, from the group of each row (-1: none). A few small kernels of torch: compute
    it once per table, or ask for the layout of ends (``use_psum_layout``). A group without rows ends where the one before it does.

    Groups must be in ascending order, each from the first multiple of 128 behind the one before; DeepGEMM itself takes any order.
    """
    _check_table("grouped_layout", m_indices)
    rows = torch.arange(1, m_indices.shape[0] + 1, dtype=torch.int32, device=m_indices.device)
    ends = torch.zeros(groups + 1, dtype=torch.int32, device=m_indices.device)
    ends.scatter_reduce_(0, torch.where((m_indices >= 0) & (m_indices < groups), m_indices + 1, 0).long(), rows, "amax")
    return ends[1:].cummax(0).values


@op(mat_a="a[0]", mat_b="b[0]", scale_a="a[1]", scale_b="b[1]", out="d", offs="grouped_layout")
def m_grouped_fp8_gemm_nt_contiguous(a: Tuple[Tensor, Tensor], b: Tuple[Tensor, Tensor], d: Tensor, grouped_layout: Tensor,
                                     recipe: Optional[Sequence[int]] = None, compiled_dims: str = "nk",
                                     disable_ue8m0_cast: bool = False, use_psum_layout: bool = False,
                                     expected_m_for_psum_layout: Optional[int] = None) -> None:
    """Writes ``a @ b[g].t()`` into the rows of group g of ``d``. ``a`` is (rows x k, its scales), ``b`` is (groups x n x k, its
    scales). Each group begins at a multiple of 128 rows.

    ``grouped_layout``: int32, the group of each row, ascending, or -1; with ``use_psum_layout`` one past the last row of each group, which costs
    no kernel beside the product. ``compiled_dims``, ``disable_ue8m0_cast`` and ``expected_m_for_psum_layout`` have no effect.
    """
    _check("m_grouped_fp8_gemm_nt_contiguous", a, b, None, recipe)
    _contiguous(a[0], b[0], d, grouped_layout, use_psum_layout, a[1], b[1])


@op(mat_a="a", mat_b="b", out="d", offs="grouped_layout")
def m_grouped_bf16_gemm_nt_contiguous(a: Tensor, b: Tensor, d: Tensor, grouped_layout: Tensor, compiled_dims: str = "nk",
                                      use_psum_layout: bool = False, expected_m_for_psum_layout: Optional[int] = None) -> None:
    """As ``m_grouped_fp8_gemm_nt_contiguous``, for bf16 matrices without scales."""
    _contiguous(a, b, d, grouped_layout, use_psum_layout)


def _contiguous(a: Tensor, b: Tensor, d: Tensor, layout: Tensor, has_ends: bool, *scales: Tensor) -> None:
    table = layout if has_ends else ends_of_indices(layout, b.shape[0])
    _grouped(a, b, d, table, scales, pitch=ALIGNMENT)


def _grouped(a: Tensor, b: Tensor, d: Tensor, table: Tensor, scales: Sequence[Tensor], **how: int) -> None:
    if is_grad_enabled() and (a.requires_grad or b.requires_grad):
        refuse_grad("DeepGEMM's product of groups")
    scale_a, scale_b = scales or (None, None)
    product_of_groups(a, b.transpose(-2, -1), table, scale_a=scale_a, scale_b=scale_b, use_fast_accum=True, out=d, **how)


@op(mat_a="a[0]", mat_b="b[0]", scale_a="a[1]", scale_b="b[1]", out="d", offs="masked_m")
def m_grouped_fp8_gemm_nt_masked(a: Tuple[Tensor, Tensor], b: Tuple[Tensor, Tensor], d: Tensor, masked_m: Tensor, expected_m: int = 0,
                                 recipe: Optional[Sequence[int]] = None, compiled_dims: str = "nk",
                                 disable_ue8m0_cast: bool = False) -> None:
    """Writes ``a[g] @ b[g].t()`` into the first ``masked_m[g]`` rows of ``d[g]``. ``a`` is (groups x m x k, its scales), ``b`` is
    (groups x n x k, its scales), ``d`` is groups x m x n. ``masked_m``: int32 on the GPU.

    ``expected_m``, ``compiled_dims`` and ``disable_ue8m0_cast`` have no effect.
    """
    _check("m_grouped_fp8_gemm_nt_masked", a, b, None, recipe)
    _masked(a[0], b[0], d, masked_m, a[1], b[1])


@op(mat_a="a", mat_b="b", out="d", offs="masked_m")
def m_grouped_bf16_gemm_nt_masked(a: Tensor, b: Tensor, d: Tensor, masked_m: Tensor, expected_m: int = 0,
                                  compiled_dims: str = "nk") -> None:
    """As ``m_grouped_fp8_gemm_nt_masked``, for bf16 matrices without scales."""
    _masked(a, b, d, masked_m)


def _masked(a: Tensor, b: Tensor, d: Tensor, counts: Tensor, *scales: Tensor) -> None:
    for name, x in (("a", a), ("d", d)):
        if x.dim() != 3:
            raise InvalidSize(f"{name} has shape {tuple(x.shape)} and must have three dimensions: groups x m x columns")
        if counts.dim() != 1 or x.shape[0] != counts.shape[0]:
            raise InvalidSize(f"{name} has shape {tuple(x.shape)} and masked_m {tuple(counts.shape)}: they must have one number of groups")
    merged = [_merged_scales(x) for x in scales[:1]]
    _grouped(_merged(a), b, _merged(d), counts, [*merged, *scales[1:]], groups=COUNTS, pitch=max(a.shape[1], 1))


@op(mat_a="a.t()", mat_b="b", out="d", offs="ks_tensor")
def k_grouped_bf16_gemm_tn_contiguous(a: Tensor, b: Tensor, d: Tensor, ks: Optional[Sequence[int]], ks_tensor: Tensor,
                                      c: Optional[Tensor] = None, compiled_dims: str = "mn") -> None:
    """Writes ``(c[g] +) a[rows].t() @ b[rows]`` into ``d[g]``, for the rows of each group. ``a`` is rows x m, ``b`` is rows x n, ``d``
    is groups x m x n in fp32 or bf16. ``ks_tensor``: int32 on the GPU, the rows of each group, which lie behind each other.

    ``ks``, the same numbers on the host, and ``compiled_dims`` have no effect. The ends of the groups are computed by one small kernel
    of torch.
    """
    if is_grad_enabled() and any(x is not None and x.requires_grad for x in (a, b, c)):
        refuse_grad("k_grouped_bf16_gemm_tn_contiguous")
    _check_table("ks_tensor", ks_tensor)
    product_of_groups(a.t(), b, ks_tensor.cumsum(0, dtype=torch.int32), groups=ALONG_K, c=c, out=d)


def _merged(x: Tensor) -> Tensor:
    """Returns groups x m x columns as (groups * m) x columns, without a copy."""
    try:
        return x.view(-1, x.shape[-1])
    except RuntimeError:
        raise InvalidStride(f"a tensor of shape {tuple(x.shape)} and strides {x.stride()} cannot be seen as one matrix of rows: pass "
                            "x.contiguous() (nothing is copied silently)") from None


def _merged_scales(x: Tensor) -> Tensor:
    """Returns groups x m x blocks of scales as a product of groups takes them: merged, or as they are if each group's lie by columns."""
    by_columns = x.dim() == 3 and x.shape[0] > 1 and x.stride(1) == 1 and x.stride(0) != x.shape[1] * x.stride(1)
    return x if by_columns else _merged(x)


@op(input="x")
def per_token_cast_to_fp8(x: Tensor, use_ue8m0: bool = False, gran_k: int = 128) -> Tuple[Tensor, Tensor]:
    """Quantises x by 1x128 blocks. Returns ``(m x k of float8_e4m3fn, m x ceil(k/128) scales)``. Raises ``InvalidArgument`` for
    ``use_ue8m0`` or a ``gran_k`` other than 128."""
    if use_ue8m0 or gran_k != 128:
        raise InvalidArgument(f"use_ue8m0 = {shown(use_ue8m0)}, gran_k = {shown(gran_k)}: scales are fp32, one for each 128 of k")
    return quantize(x, "1x128")


@op(input="x")
def per_block_cast_to_fp8(x: Tensor, use_ue8m0: bool = False, gran_k: int = 128) -> Tuple[Tensor, Tensor]:
    """Quantises x by 128x128 blocks. Returns ``(n x k of float8_e4m3fn, ceil(n/128) x ceil(k/128) scales)``. Raises
    ``InvalidArgument`` for ``use_ue8m0`` or a ``gran_k`` other than 128."""
    if use_ue8m0 or gran_k != 128:
        raise InvalidArgument(f"use_ue8m0 = {shown(use_ue8m0)}, gran_k = {shown(gran_k)}: scales are fp32, one for each 128 of k")
    return quantize(x, "128x128")
