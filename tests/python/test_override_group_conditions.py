# SPDX-License-Identifier: Apache-2.0
"""Tests of which products of groups ``st.override`` takes: its condition on tensors without memory, beside torch's own checks and
sluice's, and the problem that it asks about. Needs no GPU.

To see it fail: let ``stored_by`` ignore the pitch, ``_side`` swap k and mn, or ``_why_matrices`` let any kind of layout pass.
"""
import ctypes
import random

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sluice.torch")

import sluice  # noqa: E402
from sluice._library import lib, new_call  # noqa: E402
from sluice.torch import _fakes, _override_groups as groups, _override_reasons as why  # noqa: E402
from sluice.torch._library import ALONG_K, GROUPED_MM, MM  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

BF16, FP16, FP32, E4M3, E5M2 = torch.bfloat16, torch.float16, torch.float32, torch.float8_e4m3fn, torch.float8_e5m2


def described(tensors, kind, fast):
    """Returns the problem as the library reads it from the arrays of a call. Raises what the call would raise."""
    call = new_call()
    call.problem.groups, call.problem.group_pitch = {"rows": groups.ENDS, "sums": ALONG_K}.get(kind, 0), 1
    call.problem.accumulate = int(fast)
    for name, tensor in tensors.items():
        if tensor is not None:
            _fakes._add(call, _fakes._PLACES.get(name, name), name, _fakes._array(name, tensor))
    lib.sluice_describe(ctypes.byref(call))
    return sluice.Problem.from_struct(call.problem)


class Drawn:
    """A call of random metadata on a GPU that is not there; about a third are wrong in some way."""

    def __init__(self, pick):
        self.pick = pick
        self.scaled = pick.random() < 0.4
        dtype = E4M3 if self.scaled else BF16
        step = 16 // dtype.itemsize
        self.kind = self.maybe("rows", "sums", "batches", "columns") if self.scaled else pick.choice(
            ("rows", "rows", "sums", "sums", "batches", "columns"))
        count, m = pick.choice((1, 2, 5)), pick.choice((1, 2, 7, 16, 33))
        n, k = (self.maybe(pick.choice((8, 16, 32, 48)), 1, 5, 0) for _ in range(2))
        if self.scaled:
            n, k = self.maybe(16 * pick.randint(1, 3), 8), self.maybe(16 * pick.randint(1, 3), 8)
        shape_a, shape_b = {"rows": ((m, k), (count, k, n)), "sums": ((m, k), (k, n)), "batches": ((count, m, k), (count, k, n)),
                            "columns": ((count, m, k), (k, n))}[self.kind]
        usual_a, usual_b = {"rows": ("rows", None), "sums": ("columns", "rows")}.get(self.kind, (None, None))
        if self.scaled:
            usual_a, usual_b = "rows", "columns"
        self.a = self.matrix(self.maybe(shape_a, (*shape_a[:-1], shape_a[-1] + step)), dtype, self.maybe(usual_a, None))
        self.b = self.matrix(shape_b, self.maybe(dtype, E5M2, FP32), self.maybe(usual_b, None))
        of_table = self.empty(self.maybe(count, count + 1, 0), dtype=self.maybe(torch.int32, torch.int64))
        self.offs = self.maybe(None if self.kind == "batches" else of_table, None, of_table, self.empty(2 * count, dtype=torch.int32)[::2])
        self.scales = self.maybe((self.empty(m), self.empty(count, n)), (self.empty(m, 1), self.empty(count, n)),
                                 (self.empty(2 * m)[::2], self.empty(count, n)), (self.empty(m), self.empty(count, n + 8)[:, :n]),
                                 (self.empty(m), self.empty(n)), (self.empty(m, dtype=FP16), self.empty(count, n)))
        self.bias = self.maybe(None, self.empty(count, n, dtype=BF16))
        self.out_dtype = self.maybe(None, BF16, FP32, FP16)
        self.fast = self.scaled and pick.random() < 0.5

    def maybe(self, value, *others):
        return self.pick.choice(others) if self.pick.random() < 0.05 and others else value

    @staticmethod
    def empty(*shape, dtype=FP32):
        return torch.empty(shape, dtype=dtype, device="cuda")

    def matrix(self, shape, dtype, by):
        """Returns a matrix, or a batch, by rows or columns; ``by`` None: any. Its pitch is padded to torch's rule, mostly."""
        by_columns = by == "columns" if by else self.pick.random() < 0.5
        rows, columns = shape[-2:][::-1] if by_columns else shape[-2:]
        step = 16 // dtype.itemsize
        pitch = self.maybe(max(-(-columns // step) * step + self.pick.choice((0, 0, step)), 1), columns + 4, columns)
        each = self.maybe(rows * pitch, rows * pitch + step, rows * pitch + 3, 0, pitch)
        made = torch.empty_strided((*shape[:-2], rows, columns), (each, pitch, 1)[-len(shape):], dtype=dtype, device="cuda")
        return made.transpose(-2, -1) if by_columns else made

    def of_torch(self):
        """Returns torch's result. Raises if torch's meta kernel refuses the call, or its CUDA kernel would."""
        if self.scaled:
            if self.a.shape[-1] % 16 or self.b.shape[-2] % 16 or self.b.shape[-1] % 16:
                raise RuntimeError("divisible by 16")
            return torch._scaled_grouped_mm(self.a, self.b, *self.scales, self.offs, self.bias, None, self.out_dtype, self.fast)
        return torch._grouped_mm(self.a, self.b, self.offs, self.bias, self.out_dtype)

    def reason(self):
        if self.scaled:
            return groups.why_torch_scaled(self.a, self.b, *self.scales, self.offs, self.bias, None, self.out_dtype)
        return groups.why_torch(self.a, self.b, self.offs, self.bias, self.out_dtype)

    def arrays(self, out):
        scale_a, scale_b = self.scales if self.scaled else (None, None)
        return {"a": self.a, "b": self.b, "out": out, "offs": self.offs, "scale_a": scale_a, "scale_b": scale_b}

    def check(self, out):
        """Raises what sluice's op would raise."""
        scale_a, scale_b = self.scales if self.scaled else (None, None)
        if self.offs is None:
            MM.out(self.a, self.b, 1.0, 0.0, False, None, None, None, False, None, 0, out)
        else:
            GROUPED_MM.out(self.a, self.b, self.offs, groups.ENDS if self.b.dim() == 3 else ALONG_K, 1, scale_a, scale_b, None, self.fast,
                           None, None, None, False, None, 0, out)

    def __repr__(self):
        return f"{self.kind} {self.scaled} " + " ".join(f"{None if x is None else (tuple(x.shape), x.stride(), x.dtype)}" for x in (
            self.a, self.b, self.offs, *self.scales)) + f" {self.bias is not None} {self.out_dtype}"


def raises(call, *arguments):
    try:
        call(*arguments)
    except Exception:  # noqa: BLE001 - which error it is does not matter
        return True
    return False


def test_what_is_let_pass_is_accepted_by_torch_and_by_sluice_with_equal_results():
    pick, passed = random.Random(50), {}
    with FakeTensorMode():
        for _ in range(2000):
            call = Drawn(pick)
            if call.reason() is not None:
                continue
            passed[call.kind, call.scaled] = passed.get((call.kind, call.scaled), 0) + 1
            theirs = call.of_torch()  # raises if torch would refuse
            mine = groups._result(call.a, call.b, call.offs, BF16)
            assert (mine.shape, mine.stride(), mine.dtype, mine.device) == (theirs.shape, theirs.stride(), theirs.dtype, theirs.device), call
            problem = groups.problem_of_groups(call.a, call.b, call.offs, scaled=call.scaled, use_fast_accum=call.fast)
            if raises(problem.check):
                assert call.kind == "sums" and call.a.shape[1] == 1, call  # one row is k-major and mn-major, and sluice reads k-major
                continue
            call.check(mine)  # raises if sluice would refuse
            assert sluice.Problem.from_struct(problem.struct()) == described(call.arrays(mine), call.kind, call.fast), call
    assert set(passed) == {("rows", False), ("sums", False), ("batches", False), ("rows", True)} and min(passed.values()) > 40, passed


def test_what_is_not_let_pass_is_refused_by_torch_or_by_sluice():
    """Nothing stays with torch that both compute, except what the page names."""
    pick, seen = random.Random(51), set()
    with FakeTensorMode():
        for _ in range(2000):
            call = Drawn(pick)
            reason = call.reason()
            if reason in (None, why.COLUMNS, why.FP8_SUMS, why.EMPTY):
                continue
            seen.add(reason)
            if raises(call.of_torch):
                continue
            out = groups._result(call.a, call.b, call.offs, BF16)
            assert raises(call.check, out) or raises(described, call.arrays(out), call.kind, call.fast), (reason, call)
    assert seen >= {why.GROUP_TYPES, why.GROUP_FP8_TYPES, why.GROUP_SIZES, why.GROUP_RESULT, why.GROUP_BIAS, why.GROUP_LAYOUT, why.TABLE,
                    why.SIZES, why.SCALES}, seen


def on_meta(*shape, dtype=BF16):
    return torch.empty(shape, dtype=dtype, device="meta")


TABLE = on_meta(4, dtype=torch.int32)


def test_both_16_bit_types_are_let_pass_and_no_other():
    for dtype, wanted in ((BF16, None), (FP16, None), (FP32, why.GROUP_TYPES), (E4M3, why.GROUP_TYPES)):
        assert groups.why_torch(on_meta(16, 32, dtype=dtype), on_meta(4, 32, 16, dtype=dtype), TABLE, None, None) == wanted
    assert groups.why_torch(on_meta(16, 32, dtype=FP16), on_meta(4, 32, 16), TABLE, None, None) == why.GROUP_TYPES
    for out_dtype, wanted in ((FP16, None), (BF16, why.GROUP_RESULT)):
        call = on_meta(16, 32, dtype=FP16), on_meta(4, 32, 16, dtype=FP16), TABLE, None, out_dtype
        assert groups.why_torch(*call) == wanted


def test_the_number_of_groups_is_torchs_limit():
    for count, wanted in ((1023, None), (1024, why.GROUP_SIZES)):
        table, fp8 = on_meta(count, dtype=torch.int32), on_meta(count, 16, 32, dtype=E4M3).transpose(-2, -1)
        assert groups.why_torch(on_meta(16, 32), on_meta(count, 32, 16), table, None, None) == wanted
        assert groups.why_torch(on_meta(32, 16).t(), on_meta(32, 16), table, None, None) == wanted
        assert groups.why_torch(on_meta(count, 16, 32), on_meta(count, 32, 16), None, None, None) == wanted
        scales = on_meta(16, dtype=FP32), on_meta(count, 16, dtype=FP32)
        assert groups.why_torch_scaled(on_meta(16, 32, dtype=E4M3), fp8, *scales, table, None, None, None) == wanted


def test_a_problem_can_be_prepared_and_planned():
    problem = groups.problem_of_groups(on_meta(64, 512), on_meta(4, 256, 512).transpose(-2, -1), TABLE)
    assert (problem.m, problem.n, problem.k, problem.batch, problem.groups, problem.b_major) == (64, 256, 512, 4, "ends", "k")
    assert "4 groups by ends" in sluice.plan(problem, gpu="h200").text
    sums = groups.problem_of_groups(on_meta(64, 512).t(), on_meta(64, 256), TABLE)
    assert (sums.m, sums.n, sums.k, sums.batch, sums.groups) == (512, 256, 64, 4, "along_k")
    assert sluice.plan(sums, gpu="h200").source in ("model", "record")
