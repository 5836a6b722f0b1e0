# SPDX-License-Identifier: Apache-2.0
"""From Python to the launch, on the fake driver of tests/unit (tools/python_test.sh loads it in the library's place): arrays
on a GPU that is none, their products prepared, launched, refused. Kernels do nothing there, so no result is looked at."""
import ctypes
import math
import textwrap

import pytest

pytest.importorskip("numpy")
tvm_ffi = pytest.importorskip("tvm_ffi")

import sluice  # noqa: E402
from sluice import _binding  # noqa: E402
from sluice._library import lib  # noqa: E402

if not hasattr(lib, "sluice_fake_memory"):
    pytest.skip("SLUICE_LIBRARY is not tests/libsluice_c_fake.so of a build", allow_module_level=True)

lib.sluice_fake_memory.restype, lib.sluice_fake_memory.argtypes = ctypes.c_void_p, [ctypes.c_longlong, ctypes.c_int]
CODES = {"bf16": (4, 16), "fp32": (2, 32), "e4m3": (10, 8)}


class Managed(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


kept = []  # nothing is freed: what a driver has once seen stays known
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class OnGpu:
    """An array of the fake GPU, for whoever asks in DLPack."""

    def __init__(self, dtype, shape, strides=None, device=0, data=None):
        strides = strides or [math.prod(shape[i + 1:]) for i in range(len(shape))]
        self.data = data or lib.sluice_fake_memory(math.prod(shape) * 4 + 4096, device)
        extents, steps = (ctypes.c_int64 * len(shape))(*shape), (ctypes.c_int64 * len(shape))(*strides)
        code, bits = CODES[dtype]
        self.managed = Managed(self.data, 2, device, len(shape), code, bits, 1, extents, steps)
        kept.append((self.managed, extents, steps))

    def __dlpack__(self, **_):
        return new_capsule(ctypes.addressof(self.managed), b"dltensor", None)

    def __dlpack_device__(self):
        return 2, self.managed.device


def on_gpu(dtype, shape, strides=None, **more):
    return tvm_ffi.from_dlpack(OnGpu(dtype, shape, strides, **more))


def weight(dtype, k, n):
    return on_gpu(dtype, (k, n), (1, k))


def launches_of(call):
    before = lib.sluice_fake_launches()
    call()
    return lib.sluice_fake_launches() - before


def mm(a, b, out, *, bias=None, c=None, beta=0.0, activation=0, workspace=None):
    _binding.mm(a, b, out, bias, c, 1.0, beta, activation, False, workspace)


def test_a_product_is_prepared_once_and_launched_each_time():
    a, b, out = on_gpu("bf16", (64, 512)), weight("bf16", 512, 256), on_gpu("bf16", (64, 256))
    before = sluice.holdings().kernels
    assert launches_of(lambda: mm(a, b, out)) == 1
    assert sluice.holdings().kernels == before + 1
    assert launches_of(lambda: [mm(a, b, out) for _ in range(5)]) == 5
    assert sluice.holdings().kernels == before + 1
    sluice.prepare(sluice.problem_of(a, b, out))
    assert sluice.holdings().kernels == before + 1, "the same problem, however it is spelled"


@pytest.mark.parametrize("scales", [((1,), (1,)), ((64, 1), (1, 256)), ((64, 4), (2, 4))])
def test_scaled_products(scales):
    a, b, out = on_gpu("e4m3", (64, 512)), weight("e4m3", 512, 256), on_gpu("bf16", (64, 256))
    sa, sb = on_gpu("fp32", scales[0]), on_gpu("fp32", scales[1])
    assert launches_of(lambda: _binding.scaled_mm(a, b, sa, sb, None, out, True, None, None)) == 1


def test_linear_of_three_dimensions_with_everything():
    x, w, out = on_gpu("bf16", (2, 32, 512)), on_gpu("bf16", (256, 512)), on_gpu("bf16", (2, 32, 256))
    assert launches_of(lambda: _binding.linear(x, w, on_gpu("bf16", (256,)), out, 1, None)) == 1


def test_quantisers_are_one_kernel_or_two_for_a_tensor():
    x, q = on_gpu("bf16", (2, 32, 512)), on_gpu("e4m3", (2, 32, 512))
    assert launches_of(lambda: _binding.quantize(x, q, on_gpu("fp32", (2, 32, 4)), 2, False)) == 1
    assert launches_of(lambda: _binding.quantize(x, q, on_gpu("fp32", (1,)), 0, True)) == 1
    assert launches_of(lambda: _binding.quantize(x, q, on_gpu("fp32", (1,)), 0, False)) == 2
    sluice.verify_workspaces()


def test_split_sums_take_the_streams_workspace_or_the_callers():
    plan = sluice.plan(m=64, n=256, k=4096, schedule="cooperative", tile=(128, 128), cluster=(1, 1), splits=4,
                       combine="last_arriver")
    sluice.prepare(plan)
    a, b, out = on_gpu("bf16", (64, 4096)), weight("bf16", 4096, 256), on_gpu("bf16", (64, 256))
    mine = sluice.Workspace()
    assert launches_of(lambda: mm(a, b, out, workspace=mine.address)) == 1
    assert launches_of(lambda: mm(a, b, out)) == 1
    assert sluice.holdings().workspaces == 1
    small = sluice.Workspace(nbytes=65536)
    with pytest.raises(sluice.WorkspaceError, match="65536"):
        mm(a, b, out, workspace=small.address)
    mine.verify()
    mine.reset()
    sluice.verify_workspaces()
    sluice.reset_workspaces()


def test_two_kernels_of_a_plan_are_compiled_ahead_and_launched():
    plan = sluice.plan(m=64, n=256, k=8192, schedule="cooperative", tile=(128, 128), cluster=(1, 1), splits=4,
                       combine="separate")
    done = sluice.compile(plan)
    assert done.compiled + done.already_there == len(plan.units) == 2
    sluice.prepare(plan)
    assert sluice.compile(plan) == (0, 2, 0)
    a, b, out = on_gpu("bf16", (64, 8192)), weight("bf16", 8192, 256), on_gpu("bf16", (64, 256))
    assert launches_of(lambda: mm(a, b, out)) == 2


def test_products_are_added_in_one_launch():
    a, b, total = on_gpu("bf16", (256, 8192), (1, 256)), on_gpu("bf16", (8192, 512)), on_gpu("fp32", (256, 512))
    for deterministic in (True, False):
        sluice.prepare(sluice.problem_of(a, b, total, update="add", deterministic=deterministic))
        before = sluice.holdings().kernels
        assert launches_of(lambda: _binding.add_mm(a, b, total, not deterministic, None)) == 1
        assert sluice.holdings().kernels == before, "it was prepared"
    no_rows = on_gpu("bf16", (256, 0), (1, 256)), on_gpu("bf16", (0, 512))
    assert launches_of(lambda: _binding.add_mm(*no_rows, total, False, None)) == 0
    with pytest.raises(sluice.InvalidType, match="D is total"):
        _binding.add_mm(a, b, on_gpu("bf16", (256, 512)), False, None)


def test_nothing_is_launched_of_what_is_empty():
    assert launches_of(lambda: mm(on_gpu("bf16", (0, 64)), weight("bf16", 64, 32), on_gpu("bf16", (0, 32)))) == 0


@pytest.mark.parametrize("shape", [(0, 3, 256), (2, 0, 256), (2, 3, 0)])
def test_linear_and_quantisers_of_what_is_empty(shape):
    """Strides as torch has them where an extent is 0."""
    steps = [math.prod(max(extent, 1) for extent in shape[i + 1:]) for i in range(3)]
    x, w = on_gpu("bf16", shape, steps), on_gpu("bf16", (512, shape[2]))
    out = on_gpu("bf16", (*shape[:2], 512))
    assert launches_of(lambda: _binding.linear(x, w, None, out, 0, None)) == (1 if shape[2] == 0 else 0)
    quantised, scales = on_gpu("e4m3", shape, steps), on_gpu("fp32", (*shape[:2], (shape[2] + 127) // 128))
    assert launches_of(lambda: _binding.quantize(x, quantised, scales, 2, False)) == 0


def test_the_graph_example_of_the_manual_prepares_what_it_captures(source_root):
    text = (source_root / "docs/python.md").read_text().partition("## CUDA graphs")[2]
    code = text.partition("```python\n")[2].partition("```")[0]
    prepares, capture, calls = code.partition("with torch.cuda.graph(graph):\n")
    n, k = 768, 640
    before = sluice.holdings().kernels
    exec(prepares, {"sluice": sluice, "n": n, "k": k})
    prepared = sluice.holdings().kernels
    assert prepared == before + 3

    class Ops:  # as sluice.torch calls them, on arrays of the fake GPU
        def quantize(x, granularity):
            q, s = on_gpu("e4m3", x.shape), on_gpu("fp32", (x.shape[0], 1))
            _binding.quantize(x, q, s, sluice.problems.GRANULARITIES.index(granularity), False)
            return q, s

        def scaled_mm(a, b, scale_a, scale_b, out_dtype):
            _binding.scaled_mm(a, b, scale_a, scale_b, None, on_gpu(out_dtype, (a.shape[0], n)), False, None, None)

    class Turned:
        def __init__(self, array):
            self.t = lambda: array

    class Torch:
        bfloat16 = "bf16"

    for m in (1, 16, 64):
        names = {"st": Ops, "torch": Torch, "x": on_gpu("bf16", (m, k)), "w": Turned(weight("e4m3", k, n)),
                 "ws": Turned(on_gpu("fp32", (1, n)))}
        assert launches_of(lambda: exec(textwrap.dedent(calls), names)) == 2
    assert sluice.holdings().kernels == prepared, "a capture would have found them all"


def test_expanded_arrays_are_refused_and_never_read_as_packed():
    x, w, out = on_gpu("bf16", (8, 1, 512), (0, 512, 1)), on_gpu("bf16", (256, 512)), on_gpu("bf16", (8, 1, 256))
    fp8, scales = on_gpu("e4m3", (8, 1, 512)), on_gpu("fp32", (8, 1, 4))
    flat, flat_fp8 = on_gpu("bf16", (8, 512), (0, 1)), on_gpu("e4m3", (8, 512))
    b, d = on_gpu("bf16", (3, 512, 256), (512 * 256, 1, 512)), on_gpu("bf16", (3, 64, 256))
    cases = [
        (lambda: _binding.linear(x, w, None, out, 0, None), "input.contiguous()"),
        (lambda: _binding.linear(on_gpu("bf16", (8, 1, 512)), w, None, on_gpu("bf16", (8, 1, 256), (0, 256, 1)), 0, None),
         "out has shape (8, 256)"),
        (lambda: _binding.quantize(x, fp8, scales, 2, False), "input.contiguous()"),
        (lambda: _binding.quantize(flat, flat_fp8, on_gpu("fp32", (8, 4)), 2, False), "rows 0 elements apart"),
        (lambda: _binding.quantize(on_gpu("bf16", (8, 512)), on_gpu("e4m3", (8, 512), (256, 1)), on_gpu("fp32", (8, 4)), 2,
                                   False), "output.contiguous()"),
        (lambda: mm(on_gpu("bf16", (3, 64, 512), (0, 512, 1)), b, d), "a.contiguous()"),
        (lambda: mm(on_gpu("bf16", (3, 64, 512)), on_gpu("bf16", (3, 512, 256), (0, 1, 512)), d), "b.contiguous()"),
        (lambda: mm(on_gpu("bf16", (3, 64, 512)), b, on_gpu("bf16", (3, 64, 256), (0, 256, 1))), "its own memory"),
    ]
    for call, mention in cases:
        with pytest.raises(sluice.InvalidStride) as caught:
            assert launches_of(call) == 0
        assert mention in str(caught.value)


def test_numbers_of_another_type_are_refused_by_name():
    a, b, out = on_gpu("bf16", (64, 512)), weight("bf16", 512, 256), on_gpu("bf16", (64, 256))

    def call(alpha=1.0, beta=0.0, activation=0, use_fast_accum=False, workspace=None):
        _binding.mm(a, b, out, None, None, alpha, beta, activation, use_fast_accum, workspace)

    for right in (dict(alpha=2), dict(alpha=True), dict(beta=1), dict(activation=True), dict(use_fast_accum=1)):
        assert launches_of(lambda: call(**right)) == 1
    for wrong in (dict(alpha=a), dict(alpha="1"), dict(beta=None), dict(activation=1.0), dict(activation=2**32),
                  dict(use_fast_accum="no"), dict(use_fast_accum=None), dict(workspace=1.5)):
        with pytest.raises(sluice.InvalidArgument, match=f"^{next(iter(wrong))} "):
            assert launches_of(lambda: call(**wrong)) == 0
    with pytest.raises(sluice.InvalidArgument, match="^scale_given "):
        _binding.quantize(a, on_gpu("e4m3", (64, 512)), on_gpu("fp32", (1,)), 0, None)


def test_refusals_name_the_argument_and_launch_nothing():
    a, b, out = on_gpu("bf16", (64, 512)), weight("bf16", 512, 256), on_gpu("bf16", (64, 256))
    over = OnGpu("bf16", (64, 512))
    cases = [
        (lambda: mm(tvm_ffi.from_dlpack(over), b, on_gpu("bf16", (64, 256), data=over.data)), sluice.Aliasing, "D is out"),
        (lambda: mm(on_gpu("bf16", (64, 512), (514, 1)), b, out), sluice.Misaligned, "A is a"),
        (lambda: mm(on_gpu("bf16", (64, 512), data=over.data + 2), b, out), sluice.Misaligned, "16"),
        (lambda: mm(a, on_gpu("bf16", (512, 256), (1, 512), device=1), out), sluice.WrongDevice, "b is in cuda:1"),
        (lambda: mm(a, weight("e4m3", 512, 256), out), sluice.InvalidType, "e4m3"),
    ]
    for call, kind, mention in cases:
        with pytest.raises(kind) as caught:
            assert launches_of(call) == 0
        assert mention in str(caught.value)
    assert launches_of(lambda: mm(a, b, out)) == 1
