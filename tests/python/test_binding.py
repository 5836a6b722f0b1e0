# SPDX-License-Identifier: Apache-2.0
"""Passes arrays in host memory through tvm-ffi: the problem that they describe, and the errors for invalid
ones."""
import subprocess
import sys

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("tvm_ffi")

import sluice  # noqa: E402
import binding_calls as calls  # noqa: E402
from sluice import _binding  # noqa: E402
from thread_helpers import in_threads  # noqa: E402


def arrays(m=64, n=512, k=256):
    return np.zeros((m, k), np.float16), np.zeros((n, k), np.float16).T, np.zeros((m, n), np.float32)


def test_arrays_become_a_problem():
    a, b, out = arrays()
    assert sluice.problem_of(a, b, out) == sluice.Problem(64, 512, 256, a="fp16", b="fp16", d="fp32", a_ld=256, b_ld=256,
                                                          d_ld=512)


def test_views_keep_their_strides():
    a, b, out = arrays()
    wide = np.zeros((64, 1024), np.float32)
    problem = sluice.problem_of(a[:, :128], b[:128, :], wide[:, 256:768])
    assert (problem.k, problem.a_ld, problem.b_ld, problem.d_ld) == (128, 256, 256, 1024)


def test_sixteen_bit_operands_may_be_column_major():
    a, b, out = arrays()
    problem = sluice.problem_of(np.asfortranarray(a), np.ascontiguousarray(b), out)
    assert (problem.a_major, problem.b_major, problem.a_ld, problem.b_ld) == ("mn", "mn", 64, 512)


def test_a_single_row_of_the_sum_is_seen_as_the_copy_engine_can():
    """The gradient of a weight from one token has k = 1, so only the other index has a stride that matters to
    TMA."""
    grad, x, out = np.zeros((1, 512), np.float16), np.zeros((1, 256), np.float16), np.zeros((512, 256), np.float16)
    problem = sluice.problem_of(grad.T, x, out)
    assert (problem.k, problem.a_major, problem.b_major) == (1, "mn", "mn")
    assert sluice.plan(problem).problem == problem


def test_batches_biases_and_residuals():
    a, b, out = np.zeros((3, 8, 16), np.float16), np.zeros((3, 16, 32), np.float16), np.zeros((3, 8, 32), np.float16)
    problem = sluice.problem_of(a, b, out, c=out, bias=np.zeros(32, np.float32), activation="silu")
    assert (problem.batch, problem.c, problem.bias, problem.activation) == (3, "fp16", "fp32", "silu")
    assert (problem.a_batch_stride, problem.d_batch_stride) == (128, 256)


def test_products_that_are_added_to_out():
    a, b, out = arrays()
    problem = sluice.problem_of(a, b, out, update="add", deterministic=False)
    assert (problem.update, problem.deterministic) == ("add", False)
    assert (sluice.problem_of(a, b, out).update, sluice.problem_of(a, b, out).deterministic) == ("set", True)


def test_scales_by_shape():
    a, b, out = arrays()
    problem = sluice.problem_of(a, b, out, scale_a=np.ones((64, 1), np.float32), scale_b=np.array(2, np.float32))
    assert (problem.scale_a, problem.scale_b) == ("vector", "tensor")


def test_plans_of_arrays():
    assert "fp16" in sluice.explain(sluice.problem_of(*arrays()))


def bad_calls():
    a, b, out = arrays()
    yield "shape of b", lambda: sluice.problem_of(a, b[:100], out), sluice.InvalidSize, "b has shape (100, 512)"
    yield "shape of out", lambda: sluice.problem_of(a, b, out.T), sluice.InvalidSize, "(512, 64) and must have (64, 512)"
    yield "layout of out", lambda: sluice.problem_of(a, b, np.asfortranarray(out)), sluice.InvalidStride, "row-major"
    yield "gaps in a", lambda: sluice.problem_of(np.zeros((64, 512), np.float16)[:, ::2], b, out), sluice.InvalidStride, \
        "a.contiguous()"
    yield "type of a", lambda: sluice.problem_of(a.astype(np.int32), b, out), sluice.InvalidType, "a has an element type"
    yield "type of a scale", lambda: sluice.problem_of(a, b, out, scale_a=np.ones(1, np.float16)), sluice.InvalidType, \
        "scale_a is fp16"
    yield "shape of a scale", lambda: sluice.problem_of(a, b, out, scale_a=np.ones(7, np.float32)), sluice.InvalidSize, \
        "(64, 1)"
    yield "shape of a bias", lambda: sluice.problem_of(a, b, out, bias=np.ones(7, np.float32)), sluice.InvalidSize, "(512,)"
    yield "four dimensions", lambda: sluice.problem_of(a.reshape(1, 1, 64, 256), b, out), sluice.InvalidSize, "matrix"
    yield "no array", lambda: sluice.problem_of(a, 5, out), sluice.InvalidType, "b = 5 must be an array, and is of type int"
    yield "no array for the product", lambda: calls.mm(a, 5, out), \
        sluice.InvalidArgument, "b is"
    yield "nothing", lambda: sluice.problem_of(a, None, out), sluice.InvalidArgument, "b is missing"
    yield "host memory", lambda: calls.mm(a, b, out), sluice.WrongDevice, \
        "a is in host memory"
    yield "an update that is none", lambda: sluice.problem_of(a, b, out, update="plus"), sluice.InvalidArgument, "set, add"
    yield "no pairs", lambda: _binding.product(_binding.A, a, _binding.B), sluice.InternalError, "different versions"
    yield "a field that is none", lambda: _binding.product(len(_binding.FIELDS), a), sluice.InternalError, "different versions"
    yield "no number of a field", lambda: _binding.product("a", a), sluice.InternalError, "different versions"


@pytest.mark.parametrize("call, kind, mention", [row[1:] for row in bad_calls()], ids=[row[0] for row in bad_calls()])
def test_bad_arrays_raise_what_fits_and_name_the_argument(call, kind, mention):
    with pytest.raises(kind) as caught:
        call()
    assert mention in str(caught.value)


def test_messages_belong_to_their_thread():
    a, b, out = arrays()
    wrong = []

    def work(rows):
        for _ in range(200):
            try:
                sluice.problem_of(a, b[:rows], out)
            except sluice.InvalidSize as error:
                if f"({rows}, 512)" not in str(error):
                    wrong.append(str(error))

    in_threads(work, (10, 20, 30, 40))
    assert not wrong


def test_a_process_without_tvm_ffi_is_noticed():
    """Without tvm_ffi, the library cannot find a call's stream. It must then refuse calls instead of using
    another stream."""
    script = """
import ctypes, sys
from sluice._library import lib
class Any(ctypes.Structure):
    _fields_ = [("index", ctypes.c_int32), ("padding", ctypes.c_uint32), ("value", ctypes.c_int64)]
found = Any(0, 0, 7)
assert "tvm_ffi" not in sys.modules
assert lib.__getattr__("__tvm_ffi_host_is_complete")(None, None, 0, ctypes.byref(found)) == 0
assert (found.index, found.value) == (1, 0)
assert lib.__getattr__("__tvm_ffi_product")(None, None, 10, ctypes.byref(found)) == -1
assert b"TVMFFIEnvGetStream" in lib.sluice_error_message(), lib.sluice_error_message()
"""
    subprocess.run([sys.executable, "-c", script], check=True)
