# SPDX-License-Identifier: Apache-2.0
"""``_scaled_mm`` as ``override`` takes it: the condition on a call's metadata, the table of measured speeds, the problem, the product."""
from __future__ import annotations

import math
from typing import Optional, Tuple, Union

import torch
from torch import Tensor

from ..problems import Problem
from ._library import SCALED_MM
from ._override_reasons import BIAS, EMPTY, LAYOUT, OUT, RESULT, SCALE_RESULT, SCALES, SIZES, TYPES
from ._override_route import Calls, Judged

_FP8 = (torch.float8_e4m3fn, torch.float8_e5m2)
_RESULTS = (torch.bfloat16, torch.float16, torch.float32)
_STEP = 16  # elements, and bytes of an fp8 row's pitch: torch's rule for n and k, and TMA's for pitches


# ---- condition
def scales_of(m: int, n: int, k: int, scale_a: Tensor, scale_b: Tensor) -> Optional[str]:
    """Returns "tensor", "row" or "block" as torch reads the scales' shapes, in torch's order; None if torch or sluice does not take
    them. Blocks of A lie by columns in torch, which is taken where it is the same as by rows: for one row of A, or one block of k."""
    if scale_a.dtype is not torch.float32 or scale_b.dtype is not torch.float32:
        return None
    if scale_a.numel() == 1 and scale_b.numel() == 1:
        return "tensor"
    if scale_a.dim() != 2 or scale_b.dim() != 2 or not scale_a.is_contiguous():
        return None
    if scale_a.shape == (m, 1) and scale_b.shape == (1, n):
        return "row" if scale_b.is_contiguous() else None
    blocks = -(-k // 128)
    if scale_a.shape == (m, blocks) and scale_b.shape == (blocks, -(-n // 128)) and (m == 1 or blocks == 1):
        return "block" if scale_b.t().is_contiguous() else None
    return None


def why_torch(mat_a: Tensor, mat_b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Optional[Tensor], scale_result: Optional[Tensor],
              out_dtype: Optional[torch.dtype], out: Optional[Tensor] = None) -> Optional[str]:
    """Returns the reason why sluice leaves a call to torch; None if sluice computes the same. Reads metadata only: no data, no device,
    no addresses. What torch would refuse has a reason, too."""
    if scale_result is not None:
        return SCALE_RESULT
    if mat_a.dtype not in _FP8 or mat_b.dtype not in _FP8 or (mat_a.dtype is torch.float8_e5m2 and mat_b.dtype is torch.float8_e5m2):
        return TYPES
    result = _result_type(mat_a, out_dtype, out)
    if result not in _RESULTS:
        return RESULT
    if mat_a.dim() != 2 or mat_b.dim() != 2 or mat_a.shape[1] != mat_b.shape[0]:
        return SIZES
    (m, k), n = mat_a.shape, mat_b.shape[1]
    if m == 0 or n == 0 or k == 0:
        return EMPTY
    if k % _STEP or n % _STEP:
        return SIZES
    row, column = mat_a.stride()
    inner, outer = mat_b.stride()
    if column != 1 or row < k or (m > 1 and row % _STEP) or inner != 1 or outer < k or outer % _STEP:
        return LAYOUT
    if out is not None and (out.shape != (m, n) or out_dtype not in (None, result) or out.stride(1) != 1 or out.stride(0) < n):
        return OUT
    if bias is not None and (bias.dtype is not result or result is torch.float32 or bias.shape != (n,) or bias.stride(0) != 1):
        return BIAS
    return SCALES if scales_of(m, n, k, scale_a, scale_b) is None else None


def _result_type(mat_a: Tensor, out_dtype: Optional[torch.dtype], out: Optional[Tensor]) -> torch.dtype:
    return out.dtype if out is not None else out_dtype or mat_a.dtype


# ---- speed
# Each line holds the least measured ratio of torch's time and sluice's for a kind of product. A kind is the scales, the sums ("fast" is
# use_fast_accum), how the plan was chosen, the least and largest m, and the least k. test_override_condition.py reckons the ratios from
# bench/results. products.csv has cuBLASLt's first algorithm, which torch takes, row_torch.csv and override.json (gpu_override.py) have
# torch itself.
MEASURED: Tuple[Tuple[str, str, str, int, float, int, float], ...] = (
    ("tensor", "fast", "record", 1, 64, 1, 0.99),
    ("tensor", "fast", "record", 65, math.inf, 1, 0.98),
    ("tensor", "fast", "model", 1, 16, 1, 1.15),
    ("tensor", "fast", "model", 17, 128, 2048, 0.99),
    ("tensor", "fast", "model", 17, 128, 1, 0.92),
    ("tensor", "fast", "model", 129, math.inf, 1, 0.96),
    ("tensor", "promoted", "record", 513, math.inf, 1, 0.94),
    ("tensor", "promoted", "model", 1, 16, 2048, 1.10),
    ("tensor", "promoted", "model", 33, math.inf, 1, 0.92),
    ("row", "promoted", "record", 1, math.inf, 1024, 1.02),
    ("row", "promoted", "model", 1, math.inf, 1024, 1.0),
    ("row", "promoted", "model", 1, math.inf, 1, 0.90),
    ("row", "fast", "record", 1, 64, 1024, 1.45),
    ("row", "fast", "record", 65, math.inf, 1024, 0.98),
    ("row", "fast", "model", 1, 64, 1024, 1.20),
)


def measured_gain(scales: str, fast: bool, planned_by: str, m: int, k: int) -> Optional[float]:
    """Returns the first ratio of ``MEASURED`` that covers a product; None if none does."""
    kind = (scales, "fast" if fast else "promoted", planned_by)
    return next((gain for *of, low, high, least_k, gain in MEASURED if tuple(of) == kind and low <= m <= high and k >= least_k), None)


def problem_of_call(mat_a: Tensor, mat_b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Optional[Tensor], result: torch.dtype,
                    use_fast_accum: bool) -> Problem:
    """Returns the problem of a call that ``why_torch`` lets pass."""
    (m, k), n = mat_a.shape, mat_b.shape[1]
    of_b = {"tensor": "tensor", "row": "vector", "block": "block"}[scales_of(m, n, k, scale_a, scale_b) or "tensor"]
    of_a = "tensor" if m == 1 and of_b == "vector" else of_b  # one row has one scale
    row, outer = mat_a.stride(0), mat_b.stride(1)
    return Problem(m, n, k, a=str(mat_a.dtype), b=str(mat_b.dtype), d=str(result), a_ld=0 if m == 1 or row == k else row,
                   b_ld=0 if outer == k else outer, scale_a=of_a, scale_b=of_b, bias=None if bias is None else str(bias.dtype),
                   accumulate="fast" if use_fast_accum and of_b != "block" else "promoted")


# ---- the calls, as torch's dispatcher passes them
def _metadata(mat_a: Tensor, mat_b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Optional[Tensor] = None,
              scale_result: Optional[Tensor] = None, out_dtype: Optional[torch.dtype] = None, use_fast_accum: bool = False, *,
              out: Optional[Tensor] = None) -> tuple:
    return ("_scaled_mm", mat_a.shape, mat_a.stride(), mat_a.dtype, mat_a.get_device(), mat_b.shape, mat_b.stride(), mat_b.dtype,
            mat_b.get_device(), scale_a.shape, scale_a.stride(), scale_a.dtype, scale_a.get_device(), scale_b.shape, scale_b.stride(),
            scale_b.dtype, scale_b.get_device(), None if bias is None else (bias.shape, bias.stride(), bias.dtype, bias.get_device()),
            scale_result is None, out_dtype, use_fast_accum,
            None if out is None else (out.shape, out.stride(), out.dtype, out.get_device()))


def _judge(mat_a: Tensor, mat_b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Optional[Tensor] = None,
           scale_result: Optional[Tensor] = None, out_dtype: Optional[torch.dtype] = None, use_fast_accum: bool = False, *,
           out: Optional[Tensor] = None) -> Union[str, Judged]:
    reason = why_torch(mat_a, mat_b, scale_a, scale_b, bias, scale_result, out_dtype, out)
    if reason is not None:
        return reason
    (m, k), n = mat_a.shape, mat_b.shape[1]
    scales = scales_of(m, n, k, scale_a, scale_b) or ""
    problem = problem_of_call(mat_a, mat_b, scale_a, scale_b, bias, _result_type(mat_a, out_dtype, out), use_fast_accum)
    return Judged(tuple(x for x in (mat_a, mat_b, scale_a, scale_b, bias, out) if x is not None), m, problem,
                  lambda planned_by: measured_gain(scales, use_fast_accum, planned_by, m, k))


def _compute(mat_a: Tensor, mat_b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Optional[Tensor] = None,
             scale_result: Optional[Tensor] = None, out_dtype: Optional[torch.dtype] = None, use_fast_accum: bool = False, *,
             out: Optional[Tensor] = None) -> Tensor:
    result = mat_a.new_empty((mat_a.shape[0], mat_b.shape[1]), dtype=out_dtype) if out is None else out
    SCALED_MM.into(result, mat_a, mat_b, scale_a, scale_b, use_fast_accum, bias, None, None, False, None, 0)
    return result


CALLS = Calls(("_scaled_mm", "_scaled_mm.out"), _metadata, _judge, _compute)
