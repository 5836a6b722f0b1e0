# SPDX-License-Identifier: Apache-2.0
"""``_grouped_mm`` and ``_scaled_grouped_mm`` as ``override`` takes them: the condition on a call's metadata, the problem, the product.

torch has four kinds, by the dimensions of mat_a and mat_b (docs/groups.md). Rows of groups are 2D x 3D: rows x k and groups x k x n. Sums
over groups are 2D x 2D: m x rows and rows x n; the gradient of the weights is one. Batches are 3D x 3D, without a table. Groups of
columns are 3D x 2D; torch stores their result by rows, and sluice by columns. Autograd calls both ops again in its backward, below
itself, so the calls of a backward come here, too.
"""
from __future__ import annotations

from typing import Optional, Tuple, Union

import torch
from torch import Tensor

from ..errors import Misaligned
from ..problems import Problem
from ._library import ALONG_K, GROUPED_MM, MM
from ._override_reasons import (COLUMNS, EMPTY, FP8_SUMS, GROUP_BIAS, GROUP_FP8_TYPES, GROUP_LAYOUT, GROUP_RESULT, GROUP_SIZES, GROUP_TYPES,
                                SCALE_RESULT, SCALES, SIZES, TABLE)
from ._override_route import Calls, Judged
from .grouped import ENDS

_ROWS, _SUMS, _BATCHES, _COLUMNS = (2, 3), (2, 2), (3, 3), (3, 2)
_HALVES = (torch.bfloat16, torch.float16)
_BYTES = 16  # torch's rule for pitches and addresses, and TMA's
_STEP = 16  # torch's rule for n and k of fp8 operands
_MOST_GROUPS = 1023  # torch's rule


def kind_of(mat_a: Tensor, mat_b: Tensor) -> Tuple[int, int]:
    return mat_a.dim(), mat_b.dim()


def stored_by(mat: Tensor) -> Optional[str]:
    """Returns "columns" or "rows" as torch reads the strides of a matrix, or of a batch of them, in torch's order. Returns None if torch
    takes neither, as with a pitch that is no multiple of 16 bytes."""
    (rows, columns), (row, column) = mat.shape[-2:], mat.stride()[-2:]
    step = _BYTES // mat.element_size()
    if row == 1 and column >= max(1, rows):
        return "columns" if column % step == 0 else None
    if column == 1 and row >= max(1, columns):
        return "rows" if row % step == 0 else None
    return None


def layout_of_result(mat_a: Tensor, mat_b: Tensor, offs: Optional[Tensor]) -> Tuple[tuple, tuple]:
    """Returns the shape and the strides of torch's result: rows begin at multiples of 16 bytes."""
    m, n = mat_a.shape[-2], mat_b.shape[-1]
    pitch = -(-n // 8) * 8  # all results have 16 bits
    if mat_a.dim() != mat_b.dim():
        return (m, n), (pitch, 1)
    return (mat_a.shape[0] if offs is None else offs.shape[0], m, n), (m * pitch, pitch, 1)


def _result(mat_a: Tensor, mat_b: Tensor, offs: Optional[Tensor], dtype: torch.dtype) -> Tensor:
    shape, strides = layout_of_result(mat_a, mat_b, offs)
    return torch.empty_strided(shape, strides, dtype=dtype, device=mat_a.device)


# ---- condition
def _why_matrices(mat_a: Tensor, mat_b: Tensor, offs: Optional[Tensor], bias: Optional[Tensor]) -> Optional[str]:
    """Returns the reason that the sizes, strides and the table of a call give, whatever its types are."""
    kind = kind_of(mat_a, mat_b)
    if bias is not None:
        return GROUP_BIAS
    if kind not in (_ROWS, _SUMS, _BATCHES, _COLUMNS):
        return GROUP_SIZES
    if 0 in mat_a.shape or 0 in mat_b.shape or (offs is not None and offs.numel() == 0):
        return EMPTY
    # torch does not compare the rows of a sum over groups; sluice does.
    if mat_a.shape[-1] != mat_b.shape[-2] or (kind == _BATCHES and mat_a.shape[0] != mat_b.shape[0]):
        return GROUP_SIZES
    if (offs is None) != (kind == _BATCHES):
        return TABLE
    if offs is not None:
        groups = {_ROWS: mat_b.shape[0], _COLUMNS: mat_a.shape[0]}.get(kind)
        if offs.dim() != 1 or offs.dtype is not torch.int32 or not offs.is_contiguous() or groups not in (None, offs.shape[0]):
            return TABLE
    if (mat_a.shape[0] if offs is None else offs.shape[0]) > _MOST_GROUPS:
        return GROUP_SIZES
    if kind == _COLUMNS:
        return COLUMNS
    of_a, of_b = stored_by(mat_a), stored_by(mat_b)
    step = _BYTES // mat_b.element_size() if kind == _ROWS else 1  # TMA loads the matrices of groups
    if of_a is None or of_b is None or not _steps(mat_a, step) or not _steps(mat_b, step):
        return GROUP_LAYOUT
    # A row that is grouped, or summed over, must be one in memory.
    wanted = {_ROWS: of_a == "rows", _SUMS: (of_a, of_b) == ("columns", "rows")}
    return None if wanted.get(kind, True) else GROUP_LAYOUT


def _steps(mat: Tensor, step: int) -> bool:
    """Returns whether a batch goes from matrix to matrix by a multiple of ``step`` elements. torch also takes one matrix for all."""
    return mat.dim() == 2 or mat.shape[0] == 1 or (mat.stride(0) > 0 and mat.stride(0) % step == 0)


def why_torch(mat_a: Tensor, mat_b: Tensor, offs: Optional[Tensor], bias: Optional[Tensor],
              out_dtype: Optional[torch.dtype]) -> Optional[str]:
    """Returns the reason why sluice leaves a call of ``_grouped_mm`` to torch; None if sluice computes the same. Reads metadata only: no
    data, no device, no addresses. What torch would refuse has a reason, too."""
    if mat_a.dtype not in _HALVES or mat_b.dtype is not mat_a.dtype:
        return GROUP_TYPES
    if out_dtype not in (None, mat_a.dtype):
        return GROUP_RESULT
    return _why_matrices(mat_a, mat_b, offs, bias)


def why_torch_scaled(mat_a: Tensor, mat_b: Tensor, scale_a: Tensor, scale_b: Tensor, offs: Optional[Tensor], bias: Optional[Tensor],
                     scale_result: Optional[Tensor], out_dtype: Optional[torch.dtype]) -> Optional[str]:
    """Returns the reason of a call of ``_scaled_grouped_mm``, as ``why_torch``. Scales are fp32, (rows,) and (groups, n)."""
    if scale_result is not None:
        return SCALE_RESULT
    if mat_a.dtype is not torch.float8_e4m3fn or mat_b.dtype is not torch.float8_e4m3fn:
        return GROUP_FP8_TYPES
    if out_dtype not in (None, torch.bfloat16):
        return GROUP_RESULT
    if kind_of(mat_a, mat_b) in (_SUMS, _BATCHES):
        return FP8_SUMS  # each group has its own scales of rows there
    reason = _why_matrices(mat_a, mat_b, offs, bias)
    if reason is not None:
        return reason
    if stored_by(mat_b) != "columns":
        return GROUP_LAYOUT
    if mat_a.shape[1] % _STEP or mat_b.shape[2] % _STEP:
        return SIZES
    if scale_a.dtype is not torch.float32 or scale_b.dtype is not torch.float32:
        return SCALES
    wanted = ((mat_a.shape[0],), (mat_b.shape[0], mat_b.shape[2]))
    contiguous = scale_a.is_contiguous() and scale_b.is_contiguous()
    return None if (scale_a.shape, scale_b.shape) == wanted and contiguous else SCALES


# ---- problem
def _side(name: str, mat: Tensor) -> dict:
    """Returns the fields of mat_a or mat_b in a ``Problem``."""
    rows, columns = mat.shape[-2:]
    by_rows = stored_by(mat) == "rows"
    outer, pitch = (rows, mat.stride(-2)) if by_rows else (columns, mat.stride(-1))
    k_contiguous = by_rows == (name == "a") or rows == columns == 1
    return {name: str(mat.dtype), f"{name}_major": "k" if k_contiguous else "mn", f"{name}_ld": 0 if outer == 1 else pitch,
            f"{name}_batch_stride": mat.stride(0) if mat.dim() == 3 and mat.shape[0] > 1 else 0}


def problem_of_groups(mat_a: Tensor, mat_b: Tensor, offs: Optional[Tensor], *, scaled: bool = False,
                      use_fast_accum: bool = False) -> Problem:
    """Returns the problem of a call that ``why_torch`` or ``why_torch_scaled`` lets pass."""
    shape, strides = layout_of_result(mat_a, mat_b, offs)
    m, n = shape[-2:]
    kind = kind_of(mat_a, mat_b)
    batch = mat_b.shape[0] if mat_b.dim() == 3 else shape[0]
    scale_a = "none" if not scaled else "tensor" if m == 1 else "vector"  # one row has one scale
    return Problem(m, n, mat_a.shape[-1], batch, d=str(torch.bfloat16 if scaled else mat_a.dtype), d_ld=0 if m == 1 else strides[-2],
                   d_batch_stride=strides[0] if len(shape) == 3 and shape[0] > 1 else 0, scale_a=scale_a,
                   scale_b="vector" if scaled else "none", accumulate="fast" if use_fast_accum else "promoted",
                   groups={_ROWS: "ends", _SUMS: "along_k"}.get(kind, "none"), **_side("a", mat_a), **_side("b", mat_b))


def _judged(mat_a: Tensor, mat_b: Tensor, problem: Problem, *others: Optional[Tensor]) -> Judged:
    """Returns the call. Its rows are those of all groups, which a sum over groups has along k. No product of groups was measured."""
    rows = mat_a.shape[-1] if kind_of(mat_a, mat_b) == _SUMS else mat_a.shape[-2]
    return Judged((mat_a, mat_b, *(x for x in others if x is not None)), rows, problem)


# ---- the calls of _grouped_mm, as torch's dispatcher passes them
def _metadata(mat_a: Tensor, mat_b: Tensor, offs: Optional[Tensor] = None, bias: Optional[Tensor] = None,
              out_dtype: Optional[torch.dtype] = None) -> tuple:
    return ("_grouped_mm", mat_a.shape, mat_a.stride(), mat_a.dtype, mat_a.get_device(), mat_b.shape, mat_b.stride(), mat_b.dtype,
            mat_b.get_device(), None if offs is None else (offs.shape, offs.stride(), offs.dtype, offs.get_device()), bias is None,
            out_dtype)


def _judge(mat_a: Tensor, mat_b: Tensor, offs: Optional[Tensor] = None, bias: Optional[Tensor] = None,
           out_dtype: Optional[torch.dtype] = None) -> Union[str, Judged]:
    return (why_torch(mat_a, mat_b, offs, bias, out_dtype)
            or _judged(mat_a, mat_b, problem_of_groups(mat_a, mat_b, offs), offs))


def _compute(mat_a: Tensor, mat_b: Tensor, offs: Optional[Tensor] = None, bias: Optional[Tensor] = None,
             out_dtype: Optional[torch.dtype] = None) -> Tensor:
    if offs is None and (mat_a.data_ptr() | mat_b.data_ptr()) % _BYTES:  # sluice takes such batches, and torch refuses them
        raise Misaligned("mat_a or mat_b begins at no multiple of 16 bytes, which torch wants: copy it")
    result = _result(mat_a, mat_b, offs, mat_a.dtype)
    if offs is None:
        MM.into(result, mat_a, mat_b, 1.0, 0.0, False, None, None, None, False, None, 0)
    else:
        GROUPED_MM.into(result, mat_a, mat_b, offs, ALONG_K if mat_b.dim() == 2 else ENDS, 1, None, None, None, False, None, None, None,
                        False, None, 0)
    return result


# ---- the calls of _scaled_grouped_mm
def _metadata_scaled(mat_a: Tensor, mat_b: Tensor, scale_a: Tensor, scale_b: Tensor, offs: Optional[Tensor] = None,
                     bias: Optional[Tensor] = None, scale_result: Optional[Tensor] = None, out_dtype: Optional[torch.dtype] = None,
                     use_fast_accum: bool = False) -> tuple:
    return ("_scaled_grouped_mm", _metadata(mat_a, mat_b, offs, bias, out_dtype), scale_a.shape, scale_a.stride(), scale_a.dtype,
            scale_a.get_device(), scale_b.shape, scale_b.stride(), scale_b.dtype, scale_b.get_device(), scale_result is None,
            use_fast_accum)


def _judge_scaled(mat_a: Tensor, mat_b: Tensor, scale_a: Tensor, scale_b: Tensor, offs: Optional[Tensor] = None,
                  bias: Optional[Tensor] = None, scale_result: Optional[Tensor] = None, out_dtype: Optional[torch.dtype] = None,
                  use_fast_accum: bool = False) -> Union[str, Judged]:
    reason = why_torch_scaled(mat_a, mat_b, scale_a, scale_b, offs, bias, scale_result, out_dtype)
    if reason is not None:
        return reason
    problem = problem_of_groups(mat_a, mat_b, offs, scaled=True, use_fast_accum=use_fast_accum)
    return _judged(mat_a, mat_b, problem, scale_a, scale_b, offs)


def _compute_scaled(mat_a: Tensor, mat_b: Tensor, scale_a: Tensor, scale_b: Tensor, offs: Optional[Tensor] = None,
                    bias: Optional[Tensor] = None, scale_result: Optional[Tensor] = None, out_dtype: Optional[torch.dtype] = None,
                    use_fast_accum: bool = False) -> Tensor:
    result = _result(mat_a, mat_b, offs, torch.bfloat16)
    GROUPED_MM.into(result, mat_a, mat_b, offs, ENDS, 1, scale_a, scale_b, None, use_fast_accum, None, None, None, False, None, 0)
    return result


CALLS = Calls(("_grouped_mm",), _metadata, _judge, _compute)
SCALED_CALLS = Calls(("_scaled_grouped_mm",), _metadata_scaled, _judge_scaled, _compute_scaled)
