# SPDX-License-Identifier: Apache-2.0
"""Calls from Python down to the launch, on the fake driver of tests/unit, which tools/python_test.sh loads in
place of the real one.

Arrays lie on a fake GPU; their products are prepared, launched or refused. Kernels do nothing there, so no test reads a
result.
"""
import math
import textwrap
import threading
import time

import pytest
import tvm_ffi

import sluice
import binding_calls as binding
from fake_gpu import FORMAT, OnGpu, launches_of, lib, mm, on_gpu, packed_mm, weight
from sluice import _binding


def test_a_range_of_rows_is_prepared_at_once_and_serves_calls():
    sluice.prepare(sluice.Problem(1, 384, 640), m=(1, 48))
    sluice.prepare([sluice.Problem(1, 384, 640, packed=sluice.WeightFormat())], m=range(1, 17))
    w = weight("bf16", 640, 384)
    before = sluice.holdings().kernels
    for m in (1, 2, 47, 48):
        assert launches_of(lambda: mm(on_gpu("bf16", (m, 640)), w, on_gpu("bf16", (m, 384)))) == 1
    assert sluice.holdings().kernels == before + 4  # each m has its own entry
    with pytest.raises(sluice.InvalidSize, match="rows = 0 to 4"):
        sluice.prepare(sluice.Problem(1, 384, 640), m=(0, 4))
    with pytest.raises(sluice.InvalidArgument, match="give its Problem"):
        sluice.prepare(sluice.plan(m=64, n=64, k=64), m=(1, 4))


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
    assert launches_of(lambda: binding.scaled_mm(a, b, sa, sb, None, out, True, None, None)) == 1
    assert launches_of(lambda: binding.scaled_mm(a, b, sa, sb, None, out, True, None, on_gpu("fp32", (64, 256)))) == 1
    assert launches_of(lambda: binding.scaled_mm(a, b, sa, sb, None, out, True, None, out)) == 1, "c may be out itself"
    with pytest.raises(sluice.InvalidSize, match="c has shape"):
        binding.scaled_mm(a, b, sa, sb, None, out, True, None, on_gpu("bf16", (256,)))


@pytest.mark.parametrize("ld", [64, 68])
def test_scales_by_columns(ld):
    a, b, out = on_gpu("e4m3", (64, 512)), weight("e4m3", 512, 256), on_gpu("bf16", (64, 256))
    sa, sb = on_gpu("fp32", (64, 4), (1, ld)), on_gpu("fp32", (2, 4))
    problem = sluice.problem_of(a, b, out, scale_a=sa, scale_b=sb)
    assert problem.scale_a_ld == ld and f"--scale-a-ld {ld}" in problem.flags()
    assert launches_of(lambda: binding.scaled_mm(a, b, sa, sb, None, out, False, None, None)) == 1
    before = sluice.holdings().kernels
    sluice.prepare(problem)
    assert sluice.holdings().kernels == before, "it is the call's"


def test_linear_of_three_dimensions_with_everything():
    x, w, out = on_gpu("bf16", (2, 32, 512)), on_gpu("bf16", (256, 512)), on_gpu("bf16", (2, 32, 256))
    assert launches_of(lambda: binding.linear(x, w, on_gpu("bf16", (256,)), out, 1, None, on_gpu("bf16", (2, 32, 256)))) == 1


def test_quantisers_are_one_kernel_or_two_for_a_tensor():
    x, q = on_gpu("bf16", (2, 32, 512)), on_gpu("e4m3", (2, 32, 512))
    assert launches_of(lambda: binding.quantize(x, q, on_gpu("fp32", (2, 32, 4)), 2, False, 0, None)) == 1
    assert launches_of(lambda: binding.quantize(x, q, on_gpu("fp32", (1,)), 0, True, 0, None)) == 1
    assert launches_of(lambda: binding.quantize(x, q, on_gpu("fp32", (1,)), 0, False, 0, None)) == 2
    gated = on_gpu("bf16", (2, 32, 1024))
    assert launches_of(lambda: binding.quantize(gated, q, on_gpu("fp32", (2, 32, 4)), 2, False, 1, None)) == 1
    with pytest.raises(sluice.InvalidSize, match="half the columns"):
        binding.quantize(x, q, on_gpu("fp32", (2, 32, 4)), 2, False, 1, None)
    with pytest.raises(sluice.InvalidArgument, match="gate = 2"):
        binding.quantize(gated, q, on_gpu("fp32", (2, 32, 4)), 2, False, 2, None)
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
    q, scale = on_gpu("e4m3", (64, 4096)), on_gpu("fp32", (1,))
    assert launches_of(lambda: binding.quantize(a, q, scale, 0, False, 0, mine.address)) == 2
    small = sluice.Workspace(nbytes=65536)
    assert launches_of(lambda: binding.quantize(a, q, scale, 0, False, 0, small.address)) == 2
    tiny = sluice.Workspace(nbytes=4)
    with pytest.raises(sluice.WorkspaceError, match="8 bytes or more, not 4"):
        binding.quantize(a, q, scale, 0, False, 0, tiny.address)
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
    # There is no plan for this k with a second kernel that adds up slices.
    a, b, total = on_gpu("bf16", (256, 1024), (1, 256)), on_gpu("bf16", (1024, 512)), on_gpu("fp32", (256, 512))
    for deterministic in (True, False):
        sluice.prepare(sluice.problem_of(a, b, total, update="add", deterministic=deterministic))
        before = sluice.holdings().kernels
        assert launches_of(lambda: binding.add_mm(a, b, total, not deterministic, None)) == 1
        assert sluice.holdings().kernels == before, "it was prepared"
    no_rows = on_gpu("bf16", (256, 0), (1, 256)), on_gpu("bf16", (0, 512))
    assert launches_of(lambda: binding.add_mm(*no_rows, total, False, None)) == 0
    with pytest.raises(sluice.InvalidType, match="D is total"):
        binding.add_mm(a, b, on_gpu("bf16", (256, 512)), False, None)


def test_gated_products_and_scales_of_d():
    a, b = on_gpu("bf16", (64, 512)), weight("bf16", 512, 256)
    half = on_gpu("bf16", (64, 128))
    assert launches_of(lambda: mm(a, b, half, activation=3, gated=True)) == 1
    sluice.prepare(sluice.Problem(64, 256, 512, activation="silu", gated=True))
    with pytest.raises(sluice.InvalidSize, match=r"out has shape \(64, 256\) and must have \(64, 128\): half of the columns of b"):
        mm(a, b, on_gpu("bf16", (64, 256)), gated=True)
    x, w, out = on_gpu("bf16", (2, 32, 512)), on_gpu("bf16", (256, 512)), on_gpu("bf16", (2, 32, 128))
    assert launches_of(lambda: binding.linear(x, w, None, out, 3, None, None, gated=True)) == 1
    fp8, fp8_b, one, q = on_gpu("e4m3", (64, 512)), weight("e4m3", 512, 256), on_gpu("fp32", (1,)), on_gpu("e4m3", (64, 256))
    assert launches_of(lambda: binding.scaled_mm(fp8, fp8_b, one, one, None, q, False, None, None, scale_d=one)) == 1
    with pytest.raises(sluice.InvalidType, match="scale_d"):
        mm(a, b, on_gpu("bf16", (64, 256)), scale_d=one)
    with pytest.raises(sluice.InvalidSize, match="scale_d has shape"):
        binding.scaled_mm(fp8, fp8_b, one, one, None, q, False, None, None, scale_d=on_gpu("fp32", (2,)))
    with pytest.raises(sluice.InvalidArgument, match="gamma is given and the weights are not packed"):
        mm(a, b, on_gpu("bf16", (64, 256)), gamma=on_gpu("bf16", (512,)))


def norm(x, gamma, output, **more):
    _binding.norm(_binding.INPUT, x, _binding.GAMMA, gamma, _binding.OUTPUT, output, *binding.fields(more))


def test_norms_with_what_stands_around_them():
    x, gamma, y, q = on_gpu("bf16", (2, 32, 512)), on_gpu("bf16", (512,)), on_gpu("bf16", (2, 32, 512)), on_gpu("e4m3", (2, 32, 512))
    residual, total = on_gpu("bf16", (2, 32, 512)), on_gpu("bf16", (2, 32, 512))
    sluice.prepare_norms("bf16")
    assert launches_of(lambda: norm(x, gamma, y, epsilon=1e-6)) == 1
    assert launches_of(lambda: norm(x, gamma, y, residual=residual, sum=total)) == 1
    assert launches_of(lambda: norm(x, gamma, y, residual=residual, sum=residual)) == 1, "the sum may lie over the residual"
    for granularity, shape in ((0, (1,)), (1, (2, 32, 1)), (2, (2, 32, 4))):
        assert launches_of(lambda: norm(x, gamma, q, scales=on_gpu("fp32", shape), granularity=granularity)) == 1
    cases = [
        (lambda: norm(x, on_gpu("bf16", (511,)), y), sluice.InvalidSize, "gamma has shape (511,) and must have (512,)"),
        (lambda: norm(x, on_gpu("fp32", (512,)), y), sluice.InvalidType, "gamma is fp32 and must be bf16 as input is"),
        (lambda: norm(on_gpu("fp32", (4, 512)), gamma, y), sluice.InvalidSize, "output is (2, 32, 512) and input (4, 512)"),
        (lambda: norm(on_gpu("fp32", (4, 512)), gamma, on_gpu("fp32", (4, 512))), sluice.InvalidType, "input is fp32"),
        (lambda: norm(x, gamma, q), sluice.InvalidArgument, "scales is missing"),
        (lambda: norm(x, gamma, q, scales=on_gpu("fp32", (3,)), granularity=1), sluice.InvalidSize, "must have 64 values"),
        (lambda: norm(x, gamma, y, scales=on_gpu("fp32", (1,))), sluice.InvalidArgument, "only an e4m3 output has scales"),
        (lambda: norm(x, gamma, q, scales=on_gpu("fp32", (1, 4)), granularity=3), sluice.InvalidArgument, "row or row_block"),
        (lambda: norm(x, gamma, y, residual=on_gpu("bf16", (2, 32, 256))), sluice.InvalidSize, "residual has shape"),
        (lambda: norm(x, gamma, y, epsilon=-1.0), sluice.InvalidArgument, "epsilon"),
        (lambda: norm(x, None, y), sluice.InvalidArgument, "gamma is missing"),
    ]
    for call, kind, mention in cases:
        with pytest.raises(kind) as caught:
            assert launches_of(call) == 0
        assert mention in str(caught.value)


def test_a_gate_without_a_quantiser():
    x, y = on_gpu("bf16", (2, 32, 1024)), on_gpu("bf16", (2, 32, 512))
    assert launches_of(lambda: binding.quantize(x, y, None, 0, False, 1, None)) == 1
    with pytest.raises(sluice.InvalidType, match="output is fp16 and must be bf16 as input is"):
        binding.quantize(x, on_gpu("fp16", (2, 32, 512)), None, 0, False, 1, None)


def test_nothing_is_launched_of_what_is_empty():
    assert launches_of(lambda: mm(on_gpu("bf16", (0, 64)), weight("bf16", 64, 32), on_gpu("bf16", (0, 32)))) == 0


@pytest.mark.parametrize("shape", [(0, 3, 256), (2, 0, 256), (2, 3, 0)])
def test_linear_and_quantisers_of_what_is_empty(shape):
    """If an extent is 0, the array has torch's strides."""
    steps = [math.prod(max(extent, 1) for extent in shape[i + 1:]) for i in range(3)]
    x, w = on_gpu("bf16", shape, steps), on_gpu("bf16", (512, shape[2]))
    out = on_gpu("bf16", (*shape[:2], 512))
    assert launches_of(lambda: binding.linear(x, w, None, out, 0, None, None)) == (1 if shape[2] == 0 else 0)
    quantised, scales = on_gpu("e4m3", shape, steps), on_gpu("fp32", (*shape[:2], (shape[2] + 127) // 128))
    assert launches_of(lambda: binding.quantize(x, quantised, scales, 2, False, 0, None)) == 0


def test_the_graph_example_of_the_manual_prepares_what_it_captures(source_root):
    text = (source_root / "docs/python.md").read_text().partition("## CUDA graphs")[2]
    code = text.partition("```python\n")[2].partition("```")[0]
    prepares, capture, calls = code.partition("with torch.cuda.graph(graph):\n")
    n, k = 768, 640
    before = sluice.holdings().kernels
    exec(prepares, {"sluice": sluice, "n": n, "k": k})
    prepared = sluice.holdings().kernels
    assert prepared == before + 3

    class Ops:  # the functions that sluice.torch calls, on arrays of the fake GPU
        def quantize(x, granularity):
            q, s = on_gpu("e4m3", x.shape), on_gpu("fp32", (x.shape[0], 1))
            binding.quantize(x, q, s, sluice._names.GRANULARITIES.index(granularity), False, 0, None)
            return q, s

        def scaled_mm(a, b, scale_a, scale_b, out_dtype):
            binding.scaled_mm(a, b, scale_a, scale_b, None, on_gpu(out_dtype, (a.shape[0], n)), False, None, None)

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
        (lambda: binding.linear(x, w, None, out, 0, None, None), "input.contiguous()"),
        (lambda: binding.linear(on_gpu("bf16", (8, 1, 512)), w, None, on_gpu("bf16", (8, 1, 256), (0, 256, 1)), 0, None, None),
         "out has shape (8, 256)"),
        (lambda: binding.quantize(x, fp8, scales, 2, False, 0, None), "input.contiguous()"),
        (lambda: binding.quantize(flat, flat_fp8, on_gpu("fp32", (8, 4)), 2, False, 0, None), "strides (0, 1)"),
        (lambda: binding.quantize(on_gpu("bf16", (8, 512)), on_gpu("e4m3", (8, 512), (256, 1)), on_gpu("fp32", (8, 4)), 2,
                                   False, 0, None), "output.contiguous()"),
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
        binding.mm(a, b, out, None, None, alpha, beta, activation, use_fast_accum, workspace)

    for right in (dict(alpha=2), dict(alpha=True), dict(beta=1), dict(activation=True), dict(use_fast_accum=1)):
        assert launches_of(lambda: call(**right)) == 1
    for wrong in (dict(alpha=a), dict(alpha="1"), dict(beta=None), dict(activation=1.0), dict(activation=2**32),
                  dict(use_fast_accum="no"), dict(use_fast_accum=None), dict(workspace=1.5)):
        with pytest.raises(sluice.InvalidArgument, match=f"^{next(iter(wrong))} "):
            assert launches_of(lambda: call(**wrong)) == 0
    with pytest.raises(sluice.InvalidArgument, match="^scale_given "):
        binding.quantize(a, on_gpu("e4m3", (64, 512)), on_gpu("fp32", (1,)), 0, None, 0, None)


def test_refusals_name_the_argument_and_launch_nothing():
    a, b, out = on_gpu("bf16", (64, 512)), weight("bf16", 512, 256), on_gpu("bf16", (64, 256))
    over = OnGpu("bf16", (64, 512))
    cases = [
        (lambda: mm(tvm_ffi.from_dlpack(over), b, on_gpu("bf16", (64, 256), data=over.data)), sluice.Aliasing, "out (0x"),
        (lambda: mm(on_gpu("bf16", (64, 512), data=over.data + 1), b, out), sluice.Misaligned, "a = 0x"),
        (lambda: mm(a, on_gpu("bf16", (512, 256), (1, 512), device=1), out), sluice.WrongDevice, "b is in cuda:1"),
        (lambda: mm(a, weight("e4m3", 512, 256), out), sluice.InvalidType, "e4m3"),
        (lambda: binding.quantize(on_gpu("bf16", (2, 8, 64)), on_gpu("e4m3", (4, 4, 64)), on_gpu("fp32", (16, 1)), 1, False, 0, None),
         sluice.InvalidSize, "output is (4, 4, 64) and input (2, 8, 64)"),
    ]
    for call, kind, mention in cases:
        with pytest.raises(kind) as caught:
            assert launches_of(call) == 0
        assert mention in str(caught.value)
    assert launches_of(lambda: mm(a, b, out)) == 1


def calls_of_each_kind(device):
    """Returns one call of each function that launches, by name. Each call has been made once already."""
    def at(dtype, shape, strides=None):
        return on_gpu(dtype, shape, strides, device=device)

    a, b, out, total = at("bf16", (64, 512)), at("bf16", (512, 256), (1, 512)), at("bf16", (64, 256)), at("fp32", (64, 256))
    fp8, fp8_b, one, q = at("e4m3", (64, 512)), at("e4m3", (512, 256), (1, 512)), at("fp32", (1,)), at("e4m3", (64, 512))
    weights, blob = at("bf16", (256, 512)), at("uint8", (FORMAT.numbers(256, 512).blob_bytes,))
    calls = {
        "mm": lambda: mm(a, b, out),
        "linear": lambda: binding.linear(a, weights, None, out, 0, None, None),
        "scaled_mm": lambda: binding.scaled_mm(fp8, fp8_b, one, one, None, out, True, None, None),
        "add_mm": lambda: binding.add_mm(a, b, total, False, None),
        "quantize": lambda: binding.quantize(a, q, one, 0, False, 0, None),
        "packed_mm": lambda: packed_mm(a, blob, out, 256, 512),
    }
    for call in calls.values():
        call()
    return calls


def test_other_threads_run_while_a_launch_waits_for_room():
    """A launch into a full queue blocks. It must release the interpreter's lock, because another thread may
    have to empty the queue."""
    stuck, free = calls_of_each_kind(0), calls_of_each_kind(1)
    for name, call in stuck.items():
        lib.sluice_fake_block(0)
        thread = threading.Thread(target=call)
        thread.start()
        while lib.sluice_fake_blocked() == 0:
            time.sleep(0.001)
        assert launches_of(free[name]) > 0, "another device's launches go on"
        assert lib.sluice_fake_blocked() == 1
        assert lib.sluice_fake_unblock() == 1, f"{name} kept the interpreter for as long as it was blocked"
        thread.join()


def test_other_threads_run_while_a_first_call_compiles():
    a, b, out = on_gpu("fp16", (72, 512)), weight("fp16", 512, 264), on_gpu("fp16", (72, 264))
    thread, ticks = threading.Thread(target=lambda: mm(a, b, out, bias=on_gpu("fp16", (264,)), activation=2)), 0
    start = time.monotonic()
    thread.start()
    while thread.is_alive():
        time.sleep(0.001)
        ticks += 1
    if time.monotonic() - start < 0.1:
        pytest.skip("it was in the cache")
    assert ticks > 20, "the compiler kept the interpreter"
