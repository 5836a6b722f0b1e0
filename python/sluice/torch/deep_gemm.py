# SPDX-License-Identifier: Apache-2.0
"""DeepGEMM's signatures, computed by sluice: ``import sluice.torch.deep_gemm as deep_gemm``.

Only block-scaled FP8 is supported: fp32 scales per 1x128 of A and per 128x128 of B. Scales of A are row-major, as the cast
functions of this module write them. Scales that were transposed for DeepGEMM's TMA loads raise an error that names the remedy.
"""
from __future__ import annotations

from typing import Optional, Sequence, Tuple

from torch import Tensor, is_grad_enabled

from .._arguments import shown
from ..errors import InvalidArgument
from ._entry import op
from .autograd import refuse_grad
from .functional import scaled_mm
from .quantize import quantize


@op(mat_a="a[0]", mat_b="b[0]", scale_a="a[1]", scale_b="b[1]", out="d")
def fp8_gemm_nt(a: Tuple[Tensor, Tensor], b: Tuple[Tensor, Tensor], d: Tensor, c: Optional[Tensor] = None,
                recipe: Optional[Sequence[int]] = None, compiled_dims: str = "nk",
                disable_ue8m0_cast: bool = False) -> None:
    """Writes ``a @ b.t() (+ c)`` into ``d``. ``a`` is (m x k, its scales), ``b`` is (n x k, its scales), ``d`` is bf16 or fp32.

    ``compiled_dims`` and ``disable_ue8m0_cast`` are DeepGEMM's and have no effect: kernels here take all sizes at run time,
    and scales stay fp32. Raises ``InvalidArgument`` for a ``recipe`` other than (1, 128, 128), and for an argument that
    requires a gradient.
    """
    if recipe is not None and not (isinstance(recipe, (tuple, list)) and tuple(recipe) == (1, 128, 128)):
        raise InvalidArgument(f"recipe = {shown(recipe)} must be (1, 128, 128) or None")
    for name, pair in (("a", a), ("b", b)):
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2):
            raise InvalidArgument(f"{name} = {shown(pair)} must be two tensors: the matrix and its scales")
    if is_grad_enabled() and any(x is not None and x.requires_grad for x in (*a, *b, c)):
        refuse_grad("fp8_gemm_nt")
    scaled_mm(a[0], b[0].t(), a[1], b[1], use_fast_accum=True, c=c, out=d)


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
