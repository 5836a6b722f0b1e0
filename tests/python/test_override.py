# SPDX-License-Identifier: Apache-2.0
"""Tests of how ``st.override`` is entered, registered and counted, on torch's CPU kernels with a product of our own in sluice's place.
test_override_condition.py has the conditions, gpu_override.py what needs a GPU."""
import importlib
import math
import sys
import threading
import timeit

import pytest

torch = pytest.importorskip("torch")
st = pytest.importorskip("sluice.torch")

from sluice import _binding as binding, errors  # noqa: E402
from sluice.torch import _override_dense as dense, _override_reasons as why, _override_route as route  # noqa: E402

NAMES = {number: name for name, number in binding.FIELDS.items()}
ours = importlib.import_module("sluice.torch.override")
E4M3, E5M2, BF16, FP16, FP32 = torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16, torch.float16, torch.float32


class Stub:
    """Stands for sluice's kernels. ``product`` writes the product plus 100, so that nobody confuses it with torch's."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.raises, self.fits, self.source, self.planned, self.ran = None, True, "record", [], 0

    def product(self, *pairs):
        self.ran += 1
        if self.raises is not None:
            raise self.raises
        call = {NAMES[field]: value for field, value in zip(pairs[::2], pairs[1::2])}
        product = call["mat_a"].float() @ call["mat_b"].float() * call["scale_a"] * call["scale_b"] + 100
        call["out"].copy_(product if call.get("bias") is None else product + call["bias"])

    def plan(self, problem, device):
        self.planned.append(problem)
        return self.source


def on_cpu(fits=lambda *tensors: True, planned_by=lambda *call: "record", **more):
    """Returns the route from torch's CPU kernel of ``_scaled_mm``. ``more`` replaces parts of it."""
    return route.Route("CPU", [dense.CALLS._replace(**more)], fits, planned_by)


stub = Stub()


class override(ours.override):
    """The override of torch's CPU kernels."""

    route = on_cpu(lambda *tensors: stub.fits, stub.plan)


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    stub.reset()
    monkeypatch.setattr(binding, "product", stub.product)
    override.reset_counts()
    yield
    assert override.route.rule is None, "the test left an override on"


def operands(m=16, n=32, k=1024, *, scales="tensor", device="cpu"):
    """Returns (mat_a, mat_b, scale_a, scale_b), filled if they have memory."""
    def values(rows):
        return (torch.randn(rows, k) if device == "cpu" else torch.empty(rows, k, device=device)).to(E4M3)

    blocks = -(-k // 128)
    shape_a, shape_b = {"tensor": ((), ()), "row": ((m, 1), (1, n)), "block": ((m, blocks), (blocks, -(-n // 128)))}[scales]
    scale_b = torch.ones(shape_b[::-1], device=device).t() if scales == "block" else torch.ones(shape_b, device=device)
    return values(m), values(n).t(), torch.ones(shape_a, device=device), scale_b


# ---- registration
def torchs_calls():
    """Returns the results of calls that torch computes."""
    torch.manual_seed(0)
    a, b, scale_a, scale_b = operands()
    bias, two = torch.randn(32, dtype=BF16), torch.tensor(2.0)
    into = torch.zeros(16, 32, dtype=BF16)
    return [torch._scaled_mm(a, b, scale_a, scale_b, bias=bias, out_dtype=BF16, scale_result=two),
            torch._scaled_mm(a, b, scale_a * 3, scale_b),
            torch._scaled_mm(a, b, scale_a, scale_b * 2, bias, out_dtype=BF16, scale_result=two, out=into)]


BEFORE = torchs_calls()  # nothing is registered yet


def test_calls_go_to_sluice_inside_and_to_torch_outside():
    call = operands()
    before = torch._scaled_mm(*call, out_dtype=BF16, use_fast_accum=True)
    with override():
        inside = torch._scaled_mm(*call, out_dtype=BF16, use_fast_accum=True)
    after = torch._scaled_mm(*call, out_dtype=BF16, use_fast_accum=True)
    assert torch.equal(before, after) and not torch.equal(before, inside)
    assert (inside.dtype, inside.shape, inside.stride()) == (before.dtype, before.shape, before.stride())
    assert torch.allclose(inside.float() - 100, before.float(), atol=1.0)
    assert override.counts() == (1, {}) and stub.ran == 1


def test_out_is_written_and_returned():
    call, out = operands(), torch.zeros(16, 32, dtype=BF16)
    version = out._version
    with override():
        got = torch._scaled_mm(*call, out_dtype=BF16, use_fast_accum=True, out=out)
    assert got is out and float(out.float().mean()) > 50 and out._version > version
    assert override.counts() == (1, {})


def test_what_torch_refuses_raises_torchs_error():
    a, b, scale_a, scale_b = operands()
    with pytest.raises(RuntimeError) as theirs:
        torch._scaled_mm(a, b[:512], scale_a, scale_b)
    with override(min_gain=0), pytest.raises(RuntimeError) as inside:
        torch._scaled_mm(a, b[:512], scale_a, scale_b)
    assert str(theirs.value) == str(inside.value) and override.counts() == (0, {why.RESULT: 1})


def test_the_rest_goes_to_torch_with_all_its_arguments():
    with override(min_gain=0):
        inside = torchs_calls()
    assert all(torch.equal(x.float(), y.float()) and x.dtype == y.dtype for x, y in zip(BEFORE, inside))
    assert len({float(x.float().sum()) for x in BEFORE}) == len(BEFORE), "a call without one of its arguments would look the same"
    assert stub.ran == 0 and override.counts() == (0, {why.SCALE_RESULT: 2, why.RESULT: 1})


@pytest.mark.parametrize("error, wanted", [
    (errors.NotPrepared("no"), why.IN_CAPTURE), (errors.Misaligned("no"), "sluice refused: misaligned"),
    (errors.ToolchainError("no"), "sluice refused: toolchain"), (RuntimeError("no"), "sluice refused: RuntimeError")])
def test_an_error_of_sluice_sends_the_call_to_torch(error, wanted):
    call, out = operands(), torch.zeros(16, 32, dtype=BF16)
    expected = torch._scaled_mm(*call, out_dtype=BF16, use_fast_accum=True)
    stub.raises = error
    with override():
        assert torch.equal(torch._scaled_mm(*call, out_dtype=BF16, use_fast_accum=True), expected)
        assert torch.equal(torch._scaled_mm(*call, out_dtype=BF16, use_fast_accum=True, out=out), expected)
        assert override.counts() == (0, {wanted: 2})
        stub.raises = None
        again = torch._scaled_mm(*call, out_dtype=BF16, use_fast_accum=True)
    tried_again = not isinstance(error, errors.ToolchainError)  # half a second each
    assert torch.equal(again, expected) != tried_again and stub.ran == 2 + tried_again


def test_a_decision_is_made_once_for_equal_metadata():
    call = operands()
    with override():
        for _ in range(5):
            torch._scaled_mm(*call, out_dtype=BF16, use_fast_accum=True)
        assert len(stub.planned) == 1
        torch._scaled_mm(*operands(17), out_dtype=BF16, use_fast_accum=True)
        torch._scaled_mm(*call, out_dtype=FP32, use_fast_accum=True)
        torch._scaled_mm(*call, torch.zeros(32, dtype=BF16), out_dtype=BF16, use_fast_accum=True)
        torch._scaled_mm(*call, out_dtype=BF16, use_fast_accum=True, out=torch.empty(16, 32, dtype=BF16))
        override.reset_counts()
        with override(min_gain=0.9):
            torch._scaled_mm(*call, out_dtype=BF16, use_fast_accum=True)
            assert override.counts() == (1, {})
            torch._scaled_mm(*call, out_dtype=BF16)
            assert override.counts() == (1, {why.UNMEASURED: 1})
    assert [(p.m, p.d, p.bias, p.accumulate) for p in stub.planned] == [
        (16, "torch.bfloat16", None, "fast"), (17, "torch.bfloat16", None, "fast"), (16, "torch.float32", None, "fast"),
        (16, "torch.bfloat16", "torch.bfloat16", "fast"), (16, "torch.bfloat16", None, "fast"),
        (16, "torch.bfloat16", None, "fast"), (16, "torch.bfloat16", None, "promoted")]


def test_a_change_of_any_metadata_is_seen():
    """A key that leaves one out would send the second call of a pair to sluice."""
    a, b, scale_a, scale_b = operands(16, 32, 256, scales="row")
    odd = torch.empty(16, 264, dtype=E4M3)[:, :256]
    both = dict(mat_a=a.to(E5M2), mat_b=b.to(E5M2))
    pairs = [(dict(mat_a=a.to(E5M2)), both), (dict(mat_b=b.to(E5M2)), both), ({}, dict(mat_a=odd)), ({}, dict(scale_a=scale_a.double())),
             ({}, dict(scale_b=torch.ones(1, 64)[:, ::2])), ({}, dict(scale_a=torch.ones(16, 2)[:, :1])),
             ({}, dict(scale_result=torch.ones(()))),
             (dict(bias=torch.ones(32, dtype=BF16)), dict(bias=torch.ones(32, dtype=FP16))), ({}, dict(out_dtype=E4M3)),
             (dict(bias=torch.ones(32, dtype=BF16)), dict(bias=torch.ones(64, dtype=BF16)[::2]))]
    for good, bad in pairs:
        for out in (None, torch.empty(16, 32, dtype=BF16)):
            call = dict(mat_a=a, mat_b=b, scale_a=scale_a, scale_b=scale_b, bias=None, scale_result=None, out_dtype=BF16,
                        use_fast_accum=False)
            more = {} if out is None else {"out": out}
            with override(min_gain=0):
                override.reset_counts()
                torch.ops.aten._scaled_mm(*{**call, **good}.values(), **more)
                try:
                    torch.ops.aten._scaled_mm(*{**call, **bad}.values(), **more)
                except Exception:  # noqa: BLE001 - torch's own CPU kernel takes less than its GPU kernel
                    pass
            assert override.counts().taken == 1 and sum(override.counts().passed.values()) == 1, (bad, override.counts())


def test_nested_overrides_and_the_last_one_decides():
    call = operands(16, 32, 512, scales="row")
    rule = override(min_gain=0)
    outer = override(min_gain=0)
    with outer:
        torch._scaled_mm(*call, out_dtype=BF16)
        with override(min_gain=2), pytest.raises(RuntimeError):  # torch's CPU kernel has no row scales
            torch._scaled_mm(*call, out_dtype=BF16)
        with rule, rule:
            torch._scaled_mm(*call, out_dtype=BF16)
        torch._scaled_mm(*call, out_dtype=BF16)
    assert override.counts().taken == 3 and sum(override.counts().passed.values()) == 1


def test_leaving_in_another_order_and_after_an_exception():
    first, second = override(min_gain=0), override(min_gain=0)
    first.enable(), second.enable(), first.enable()
    first.disable()
    assert override.route.rule is second._rule
    second.disable()
    assert override.route.rule is first._rule
    first.disable()
    assert override.route.rule is None
    with pytest.raises(ZeroDivisionError), override():
        1 / 0
    assert override.route.rule is None


def test_disable_without_enable_is_refused():
    with pytest.raises(errors.InvalidArgument, match="disable.. without enable"):
        override().disable()
    once = override().enable()
    once.disable()
    with pytest.raises(errors.InvalidArgument, match="once for each"):
        once.disable()


@pytest.mark.parametrize("named, words", [
    (dict(min_gain=-1), "min_gain = -1"), (dict(min_gain=math.nan), "min_gain = nan"), (dict(min_gain="high"), "min_gain"),
    (dict(rows=(5, 2)), r"rows = \(5, 2\)"), (dict(rows=(0, 2)), "rows"), (dict(rows=range(3, 3)), "rows"), (dict(rows=7), "rows = 7"),
    (dict(gain=1), "gain")])
def test_wrong_arguments_are_named(named, words):
    with pytest.raises((errors.InvalidArgument, errors.InvalidType), match=words):
        override(**named)


def test_rows_out_of_the_range_go_to_torch():
    with override(min_gain=0, rows=range(2, 17)):
        for m in (1, 2, 16, 17):
            torch._scaled_mm(*operands(m), out_dtype=BF16)
    assert override.counts() == (2, {why.ROWS: 2})


def test_a_device_that_is_no_hopper_goes_to_torch():
    stub.fits = False
    with override(min_gain=0):
        torch._scaled_mm(*operands(), out_dtype=BF16)
    assert override.counts() == (0, {why.DEVICE: 1}) and ours._on_one_hopper(torch.ones(1)) is False


def test_arguments_that_require_a_gradient_are_taken_without_one():
    a, b, scale_a, scale_b = operands()
    scale_a.requires_grad_()
    outside = torch._scaled_mm(a, b, scale_a, scale_b, out_dtype=BF16)
    with override(min_gain=0):
        inside = torch._scaled_mm(a, b, scale_a, scale_b, out_dtype=BF16)
        weight = torch.nn.Parameter(a.clone(), requires_grad=False)
        torch._scaled_mm(weight, b, scale_a, scale_b, out_dtype=BF16)
    assert override.counts().taken == 2 and inside.requires_grad == outside.requires_grad


def test_threads_count_each_call_once():
    call, wrong, interval = operands(1, 16, 16), operands(1, 16, 16), sys.getswitchinterval()
    each, workers = 300, 6

    def work():
        for i in range(each):
            with override(min_gain=0):
                torch._scaled_mm(*call, out_dtype=BF16)
                torch._scaled_mm(*wrong)

    threads = [threading.Thread(target=work) for _ in range(workers)]
    sys.setswitchinterval(1e-6)
    try:
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    finally:
        sys.setswitchinterval(interval)
    assert override.counts() == (each * workers, {why.RESULT: each * workers})


def test_a_compiled_graph_reaches_the_override_and_leaves_it():
    import torch._inductor.config as config

    def product(a, b, scale_a, scale_b):
        return torch._scaled_mm(a, b, scale_a, scale_b, out_dtype=BF16, use_fast_accum=True) + 1

    call = operands()
    with config.patch(force_disable_caches=True):
        compiled = torch.compile(product, fullgraph=True)
        before = compiled(*call)
        assert override.counts() == (0, {})
        with override():
            inside = compiled(*call)  # compiled outside
            assert override.counts() == (1, {})
        assert torch.equal(compiled(*call), before)
    assert torch.allclose(inside.float() - 100, before.float(), atol=1.0)


def test_a_wrapper_in_cpp_goes_past_the_override():
    """docs/override.md says so; if this fails, the page is wrong."""
    import torch._inductor.config as config
    call = operands(16, 32, 512)
    with config.patch(force_disable_caches=True, cpp_wrapper=True), override(min_gain=0):
        compiled = torch.compile(lambda *all: torch._scaled_mm(*all, out_dtype=BF16) + 1)
        try:
            compiled(*call)
        except Exception as error:  # noqa: BLE001
            pytest.skip(f"no C++ compiler for Inductor: {error}")
    assert override.counts().taken == 0


def test_eager_calls_cost_little():
    """Most of a call is the dispatcher's way to a function of Python, which a bare op takes too. The bare op is timed beside it, so the
    bound holds on busy machines: 1.18 times were measured, and 3 us more per call would fail."""
    library = torch.library.Library("sluice_test_cost", "DEF")
    library.define("bare(Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, *, ScalarType? out_dtype=None, bool use_fast_accum=False, "
                   "Tensor(a!) out) -> Tensor(a!)")
    library.impl("bare", lambda *call, out=None, **named: out, "CPU")
    bare, call, out = torch.ops.sluice_test_cost.bare, operands(16, 32, 1024), torch.empty(16, 32, dtype=BF16)
    quick = type("quick", (ours.override,), {"route": on_cpu(compute=lambda *call, out=None, **named: out)})
    named, ratios = {"out_dtype": BF16, "use_fast_accum": True, "out": out}, []

    def us(function):
        return min(timeit.repeat(lambda: function(*call, **named), number=1000, repeat=5)) * 1e3

    with quick():
        for _ in range(4):
            ratios.append(us(torch._scaled_mm) / us(bare))
    assert quick.counts().taken > 2000 and min(ratios) < 1.4, ratios


def test_the_route_of_the_package_is_that_of_the_gpu(monkeypatch):
    assert ours.override.route.key == "CUDA" and ours.override.counts() == (0, {})
    assert [name for op in ours.override.route.ops for name in op.names] == [
        "_scaled_mm", "_scaled_mm.out", "_grouped_mm", "_scaled_grouped_mm"]
    monkeypatch.undo()
    with pytest.raises(errors.Error):  # the last part of a call: without a GPU it raises, and nothing is written
        dense.CALLS.compute(*operands(), out_dtype=BF16)


@pytest.mark.parametrize("source, fast, m, scales, wanted", [
    ("record", True, 4096, "tensor", None), ("model", True, 16, "tensor", None), ("model", True, 64, "tensor", "SLOWER"),
    ("model", True, 512, "tensor", "SLOWER"), ("record", False, 16, "tensor", "UNMEASURED"), ("model", False, 64, "tensor", "SLOWER"),
    ("model", True, 16, "row", None), ("model", True, 4096, "row", "UNMEASURED"), ("record", False, 4096, "row", None)])
def test_the_plan_decides_what_is_taken(source, fast, m, scales, wanted):
    stub.source = source
    call = operands(m, 16, 1024, scales=scales)
    with override():
        try:
            torch._scaled_mm(*call, out_dtype=BF16, use_fast_accum=fast)
        except RuntimeError:
            pass  # torch's CPU kernel has no row scales
    assert override.counts() == ((1, {}) if wanted is None else (0, {getattr(why, wanted): 1}))


# ---- torchao, and the script for a GPU
def test_torchaos_layers_are_taken_eager_and_compiled(monkeypatch):
    pytest.importorskip("torchao")
    from torchao.quantization import Float8DynamicActivationFloat8WeightConfig, PerRow, PerTensor, quant_api, quantize_
    monkeypatch.setattr(quant_api, "_check_hardware_support", lambda granularity: None)
    for granularity in (PerRow(), PerTensor()):
        model = torch.nn.Sequential(torch.nn.Linear(1024, 128), torch.nn.Linear(128, 64, bias=False)).bfloat16()
        quantize_(model, Float8DynamicActivationFloat8WeightConfig(granularity=granularity))
        torch._dynamo.reset()
        for layers in (model, torch.compile(model)):
            for rows in (1, 28):
                override.reset_counts()
                with override(min_gain=0), torch.no_grad():
                    layers(torch.randn(rows, 1024, dtype=BF16))
                assert override.counts() == (2, {})


def in_fp64(a, b, x, y, bias=None, scale_result=None, out_dtype=None, fast=False, *, out=None):
    made = (a.double() @ b.double() * x * y + (0 if bias is None else bias)).to(out_dtype or out.dtype)
    return made if out is None else out.copy_(made)


def test_the_script_for_a_gpu_finds_a_right_and_a_wrong_product(monkeypatch):
    gpu = importlib.import_module("gpu_override")
    monkeypatch.setattr(gpu, "failures", [])
    cases = [(m, 32, 256, "tensor", result, bias, fast, (E4M3, E4M3)) for m in (1, 16) for result, bias in ((BF16, True), (FP32, False))
             for fast in (False, True)]
    exact = type("exact", (ours.override,), {"route": on_cpu(compute=in_fp64)})
    gpu.check_results(exact, "cpu", cases)
    gpu.check_passed(exact, "cpu")
    assert [what for what in gpu.failures if "torch's bits" not in what] == []
    gpu.check_results(override, "cpu", cases[:1])  # 100 too much
    assert any("elements are wrong" in what for what in gpu.failures)
    row, block = gpu.operands(3, 48, 200, "row", "cpu"), gpu.operands(1, 200, 200, "block", "cpu")
    assert gpu.wanted(*row, "row").shape == (3, 48) and gpu.wanted(*block, "block").shape == (1, 200)
    assert len(gpu.races()) > 20 and len(gpu.gpu_cases()) > 60
    prepared: list = []
    monkeypatch.setattr(gpu.sluice, "prepare", prepared.extend)
    gpu.prepare_all()
    [problem.check() for problem in prepared]
    assert len(prepared) == len(gpu.races()) + len(gpu.gpu_cases())
