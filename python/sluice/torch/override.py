# SPDX-License-Identifier: Apache-2.0
"""``override``: sends torch's own ``_scaled_mm`` to sluice where sluice is right and faster, and to torch's kernel elsewhere.

Three parts, each testable without a GPU. ``why_torch`` is the condition: from the metadata of a call's tensors, the reason why torch
computes it, or None. ``Route`` is the registration: it puts a function in front of the kernels of one dispatch key, keeps one decision
per call's metadata, and counts. ``override`` is what users enter. docs/override.md is its page.

The invariant: a call that torch accepts never raises here, and one that torch refuses raises torch's error, since it goes to torch.
"""
from __future__ import annotations

import math
import threading
import warnings
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from .._arguments import shown
from ..errors import Error, InvalidArgument, NotPrepared, StorageError, ToolchainError, UnsupportedArch
from ..plans import Rows, plan
from ..problems import Problem
from ._entry import checked
from ._library import SCALED_MM

_FP8 = (torch.float8_e4m3fn, torch.float8_e5m2)
_RESULTS = (torch.bfloat16, torch.float16, torch.float32)
_STEP = 16  # elements, and bytes of an fp8 row's pitch: torch's rule for n and k, and TMA's for pitches

# The reasons why torch computes a call, as ``override.counts()`` shows them.
SCALE_RESULT = "scale_result is given"
TYPES = "operands that are not e4m3, or e4m3 and e5m2"
RESULT = "a result that is not bf16, fp16 or fp32"
EMPTY = "an extent of 0"
SIZES = "sizes that do not fit, or n or k no multiple of 16"
LAYOUT = "an operand whose k is not contiguous, or whose pitch is no multiple of 16 bytes"
OUT = "an out of another shape or type, or not row-major"
BIAS = "a bias that is not a vector of n values of the result's type, or beside fp32"
SCALES = "scales that torch or sluice does not take"
DEVICE = "not on one GPU of compute capability 9.0"
ROWS = "outside of the rows given to override"
SLOWER = "torch may be faster: below min_gain on a product of this kind"
UNMEASURED = "no product of this kind was measured"
IN_CAPTURE = "not ready in a capture"


class Counts(NamedTuple):
    """The calls of ``_scaled_mm`` since the start of the process, or since ``override.reset_counts()``, while an override was on."""

    taken: int
    """Calls that sluice computed."""
    passed: Dict[str, int]
    """Calls that torch computed, by reason."""


# ---- condition
def scales_of(m: int, n: int, k: int, scale_a: Tensor, scale_b: Tensor) -> Optional[str]:
    """Returns "tensor", "row" or "block" as torch reads the scales' shapes, in torch's order; None if torch or sluice does not take
    them. Blocks of A lie by columns in torch and by rows in sluice, so both take them for one row of A, or one block of k."""
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
    result = (out_dtype or mat_a.dtype) if out is None else out.dtype
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
    ("tensor", "promoted", "model", 33, math.inf, 1, 0.96),
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


# ---- registration
class Rule(NamedTuple):
    """The arguments of an override, and its decisions: by a call's metadata the reason, or None for a call that sluice takes."""

    min_gain: float
    rows: Tuple[int, float]
    decided: Dict[tuple, Optional[str]]


_NEW = "new"  # no reason has this text
_MOST_DECISIONS = 65536
# After these errors a call of the same metadata is not tried again: it would fail again, after half a second of compiling.
_LASTING = (ToolchainError, StorageError, UnsupportedArch)


class Route:
    """Puts sluice in front of the kernels of ``_scaled_mm`` and ``_scaled_mm.out`` for one dispatch key of torch.

    ``run(out, mat_a, mat_b, scale_a, scale_b, use_fast_accum, bias)`` computes a call. ``fits(*tensors)`` returns whether a device can.
    ``planned_by(problem, device)`` returns "record" or "model". Tests give others than the defaults.

    torch's table of kernels may not change while another thread reads it. So the functions stay registered from the first ``enter``
    on; while no rule is on, they pass every call to torch.
    """

    def __init__(self, key: str, run: Callable[..., None], fits: Callable[..., bool], planned_by: Callable[[Problem, int], str]) -> None:
        self.key, self.run, self.fits, self.planned_by = key, run, fits, planned_by
        self.rule: Optional[Rule] = None
        self._stack: List[Tuple[object, Rule]] = []
        self._lock = threading.Lock()
        self._taken = 0
        self._passed: Dict[str, int] = {}
        self._library: Optional[torch.library.Library] = None

    def enter(self, owner: object, rule: Rule) -> None:
        """Turns a rule on. The rule that was turned on last decides."""
        with self._lock:
            if self._library is None:
                self._library = self._register()
            self._stack.append((owner, rule))
            self.rule = rule

    def leave(self, owner: object) -> None:
        """Turns the last rule of ``owner`` off. Raises ``InvalidArgument`` if it has none."""
        with self._lock:
            at = next((i for i in reversed(range(len(self._stack))) if self._stack[i][0] is owner), None)
            if at is None:
                raise InvalidArgument("override: disable() without enable(): it is not on; call enable() before, and once for each "
                                      "disable()")
            del self._stack[at]
            self.rule = self._stack[-1][1] if self._stack else None

    def counts(self) -> Counts:
        with self._lock:
            return Counts(self._taken, dict(self._passed))

    def reset_counts(self) -> None:
        with self._lock:
            self._taken, self._passed = 0, {}

    def _take(self) -> None:
        with self._lock:
            self._taken += 1

    def _pass(self, reason: str) -> None:
        with self._lock:
            self._passed[reason] = self._passed.get(reason, 0) + 1

    def _decide(self, rule: Rule, key: tuple, *call: Any) -> Optional[str]:
        """Returns the reason of a call of new metadata, and keeps it."""
        try:
            reason = self._reason(rule, *call)
        except Exception as error:  # noqa: BLE001 - whatever it is, torch may accept the call
            reason = _reason_of(error)
        if len(rule.decided) >= _MOST_DECISIONS:
            rule.decided.clear()
        rule.decided[key] = reason
        return reason

    def _reason(self, rule: Rule, mat_a: Tensor, mat_b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Optional[Tensor],
                  scale_result: Optional[Tensor], out_dtype: Optional[torch.dtype], use_fast_accum: bool,
                out: Optional[Tensor]) -> Optional[str]:
        reason = why_torch(mat_a, mat_b, scale_a, scale_b, bias, scale_result, out_dtype, out)
        if reason is not None:
            return reason
        if not self.fits(*(tensor for tensor in (mat_a, mat_b, scale_a, scale_b, bias, out) if tensor is not None)):
            return DEVICE
        (m, k), n = mat_a.shape, mat_b.shape[1]
        if not rule.rows[0] <= m <= rule.rows[1]:
            return ROWS
        result = out.dtype if out is not None else out_dtype or mat_a.dtype
        problem = problem_of_call(mat_a, mat_b, scale_a, scale_b, bias, result, use_fast_accum)
        problem.check()
        if rule.min_gain == 0:
            return None
        planned_by = self.planned_by(problem, mat_a.get_device())
        gain = measured_gain(scales_of(m, n, k, scale_a, scale_b) or "", use_fast_accum, planned_by, m, k)
        if gain is None:
            return UNMEASURED
        return None if gain >= rule.min_gain else SLOWER

    def _failed(self, rule: Rule, key: tuple, error: Exception) -> str:
        """Returns the reason of a call that sluice did not run."""
        reason = _reason_of(error)
        if isinstance(error, _LASTING):
            rule.decided[key] = reason
        return reason

    def _register(self) -> torch.library.Library:
        if not hasattr(torch.library, "get_kernel"):
            raise InvalidArgument("override needs a PyTorch whose own kernels can be called (torch.library.get_kernel, as 2.11 has), and "
                                  f"this is {torch.__version__}: call st.scaled_mm instead")
        original = torch.library.get_kernel("aten::_scaled_mm", self.key).call_boxed
        original_out = torch.library.get_kernel("aten::_scaled_mm.out", self.key).call_boxed
        keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, self.key))
        library = torch.library.Library("aten", "IMPL")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of each kernel that is replaced
            library.impl("_scaled_mm", _kernel(self, original, keys), self.key, allow_override=True)
            library.impl("_scaled_mm.out", _kernel(self, original_out, keys), self.key, allow_override=True)
        return library


def _reason_of(error: Exception) -> str:
    if isinstance(error, NotPrepared):
        return IN_CAPTURE
    return f"sluice refused: {error.code if isinstance(error, Error) else type(error).__name__}"


def _metadata(mat_a: Tensor, mat_b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Optional[Tensor], scale_result: Optional[Tensor],
              out_dtype: Optional[torch.dtype], use_fast_accum: bool) -> tuple:
    """Returns all that ``Route._reason`` reads of a call without out."""
    return (mat_a.shape, mat_a.stride(), mat_a.dtype, mat_a.get_device(), mat_b.shape, mat_b.stride(), mat_b.dtype, mat_b.get_device(),
            scale_a.shape, scale_a.stride(), scale_a.dtype, scale_a.get_device(), scale_b.shape, scale_b.stride(), scale_b.dtype,
            scale_b.get_device(), None if bias is None else (bias.shape, bias.stride(), bias.dtype, bias.get_device()),
            scale_result is None, out_dtype, use_fast_accum)


def _kernel(route: Route, original: Callable[..., Any], keys: Any) -> Callable[..., Tensor]:
    """Returns the kernel of ``_scaled_mm``, and with ``out`` of ``_scaled_mm.out``, which compiled graphs call. Its body has few calls,
    since every eager product pays for them."""
    run = route.run

    def scaled_mm(mat_a, mat_b, scale_a, scale_b, bias=None, scale_result=None, out_dtype=None,  # type: ignore[no-untyped-def]
                  use_fast_accum=False, *, out=None):
        rule = route.rule
        if rule is not None:
            key = _metadata(mat_a, mat_b, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum)
            if out is not None:
                key = (*key, out.shape, out.stride(), out.dtype, out.get_device())
            reason = rule.decided.get(key, _NEW)
            if reason is _NEW:
                reason = route._decide(rule, key, mat_a, mat_b, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum, out)
            if reason is None:
                try:
                    result = mat_a.new_empty((mat_a.shape[0], mat_b.shape[1]), dtype=out_dtype) if out is None else out
                    run(result, mat_a, mat_b, scale_a, scale_b, use_fast_accum, bias)
                    route._take()
                    return result
                except Exception as error:  # noqa: BLE001 - whatever it is, torch may accept the call
                    reason = route._failed(rule, key, error)
            route._pass(reason)
        into = {} if out is None else {"out": out}
        return original(keys, mat_a, mat_b, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum, **into)

    return scaled_mm


def _run(out: Tensor, mat_a: Tensor, mat_b: Tensor, scale_a: Tensor, scale_b: Tensor, use_fast_accum: bool, bias: Optional[Tensor]) -> None:
    SCALED_MM.into(out, mat_a, mat_b, scale_a, scale_b, use_fast_accum, bias, None, None, False, None, 0)


def _on_one_hopper(*tensors: Tensor) -> bool:
    device = tensors[0].device
    return all(tensor.is_cuda and tensor.device == device for tensor in tensors) and torch.cuda.get_device_capability(device) == (9, 0)


# ---- what users enter
class override:  # noqa: N801 - it is entered like torch.no_grad
    """Sends ``torch._scaled_mm`` on Hopper GPUs to sluice, where sluice computes the same and was measured to be no slower. All else
    goes to torch, as before. It holds for all threads of the process, in eager calls, compiled graphs and CUDA graphs.

    >>> with st.override():
    ...     y = model(x)            # torchao's fp8 layers, or any code that calls torch._scaled_mm
    >>> st.override().enable()      # until disable(), or the end of the process
    >>> print(st.override.counts())

    - ``min_gain``: a call is taken if on no measured product of its kind torch's time divided by sluice's was below this. By default
      sluice lost at most 2 % on any. 1.0: only kinds on which it never lost. 0: all that it can compute.
    - ``rows``: the least and the largest m that are taken, like ``(1, 64)``; None: all. A new m may compile a kernel, for half a second;
      ``sluice.prepare(problem, m=(1, 64))`` does that before.

    Overrides may be nested; the last one entered decides. Results have sluice's bits (docs/numerics.md), so they may differ from torch's
    within the products' bounds. Raises ``InvalidArgument`` for a ``min_gain`` below 0 and for ``rows`` that are no range, and under a
    PyTorch before 2.11.
    """

    route = Route("CUDA", _run, _on_one_hopper, lambda problem, device: plan(problem, device=device).source)

    @checked
    def __init__(self, *, min_gain: float = 0.98, rows: Optional[Rows] = None) -> None:
        if not min_gain >= 0:
            raise InvalidArgument(f"override: min_gain = {shown(min_gain)} must be at least 0: 0 takes all that sluice can compute")
        bounds = (1, math.inf) if rows is None else (rows[0], rows[-1]) if len(rows) else (1, 0)
        if not 0 < bounds[0] <= bounds[1]:
            raise InvalidArgument(f"override: rows = {shown(rows)} must be the least and the largest m, like (1, 64)")
        self._rule = Rule(float(min_gain), bounds, {})

    def enable(self) -> "override":
        """Turns the override on, once more if it is on already. Returns itself."""
        self.route.enter(self, self._rule)
        return self

    def disable(self) -> None:
        """Turns off what one ``enable`` turned on. Raises ``InvalidArgument`` if none is left. From the last one on, calls go straight
        to torch; each eager one costs about 2 us more than before the first ``enable``."""
        self.route.leave(self)

    def __enter__(self) -> "override":
        return self.enable()

    def __exit__(self, *_: object) -> None:
        self.disable()

    @classmethod
    def counts(cls) -> Counts:
        """Returns how many calls were taken, and how many torch computed, by reason. A replay of a CUDA graph is no call."""
        return cls.route.counts()

    @classmethod
    def reset_counts(cls) -> None:
        """Sets all counts to 0."""
        cls.route.reset_counts()
