# SPDX-License-Identifier: Apache-2.0
"""Tests of products of groups under ``st.override``: torch's ``_grouped_mm`` and ``_scaled_grouped_mm`` on the CPU, with a product of our
own in sluice's place. test_override.py has the mechanism, test_override_group_conditions.py the condition, test_fake_override.py launches.

To see it fail: let ``layout_of_result`` leave out the padding, ``_metadata`` the table, or ``_compute`` pass ENDS for sums over groups.
"""
import importlib

import pytest

torch = pytest.importorskip("torch")
st = pytest.importorskip("sluice.torch")

from sluice import _binding as binding, errors  # noqa: E402
from sluice.torch import _override_dense as dense, _override_groups as groups, _override_reasons as why  # noqa: E402
from sluice.torch import _override_route as route  # noqa: E402
from test_override import operands  # noqa: E402

BF16, FP16, FP32, E4M3 = torch.bfloat16, torch.float16, torch.float32, torch.float8_e4m3fn
NAMES = {number: name for name, number in binding.FIELDS.items()}


def of_torch(a, b, scale_a, scale_b, offs=None, bias=None, scale_result=None, out_dtype=None, fast=False):
    """Stands for torch's kernel of ``_scaled_grouped_mm``, which has none on the CPU: raises torch's errors, and computes rows of
    groups."""
    meta = [None if x is None else x.to("meta") for x in (a, b, scale_a, scale_b, offs, bias, scale_result)]
    made = torch._scaled_grouped_mm(*meta, out_dtype=out_dtype, use_fast_accum=fast)
    out = torch.empty_strided(made.shape, made.stride(), dtype=made.dtype).fill_(7)
    begin = 0
    for g, end in enumerate([] if offs is None else offs.tolist()):
        if a.dim() == 2 and b.dim() == 3:
            out[begin:end] = (a[begin:end].double() @ b[g].double() * scale_a[begin:end, None] * scale_b[g]).to(BF16)
        begin = end
    return out


kernels_of_torch = torch.library.Library("aten", "IMPL")
kernels_of_torch.impl("_scaled_grouped_mm", of_torch, "CPU")


class Stub:
    """Stands for sluice's kernels, as docs/groups.md describes them."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.raises, self.fits, self.seen = None, True, []

    def product(self, *pairs):
        call = {NAMES[field]: value for field, value in zip(pairs[::2], pairs[1::2])}
        self.seen.append(call)
        if self.raises is not None:
            raise self.raises
        out, table = call["out"], call.get("offs")
        if table is None:
            assert (call["alpha"], call["beta"]) == (1.0, 0.0)
            out.copy_((call["a"].double() @ call["b"].double()).to(out.dtype))
            return
        a, b = call["mat_a"], call["mat_b"]
        assert call["group_pitch"] == 1 and not any(call.get(name) is not None for name in ("bias", "c", "scale_d", "row_factors"))
        if call["groups"] == 3:
            assert a.stride(0) == 1 and b.stride(1) == 1, "what is summed over is a row in memory"
        begin = 0
        for g, end in enumerate(table.tolist()):
            end = max(begin, min(end, a.shape[1] if call["groups"] == 3 else a.shape[0]))
            if call["groups"] == 3:
                out[g] = (a[:, begin:end].double() @ b[begin:end].double()).to(out.dtype)
            else:
                factors = 1 if call["scale_a"] is None else call["scale_a"].view(-1, 1)[begin:end] * call["scale_b"][g]
                out[begin:end] = (a[begin:end].double() @ b[g].double() * factors).to(out.dtype)
            begin = end


stub = Stub()


def never(*_):
    raise AssertionError("nothing was measured, so nothing is planned")


class override(importlib.import_module("sluice.torch.override").override):
    """The override of torch's CPU kernels of products of groups."""

    route = route.Route("CPU", [groups.CALLS, groups.SCALED_CALLS], lambda *tensors: stub.fits, never)


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    stub.reset()
    monkeypatch.setattr(binding, "product", stub.product)
    override.reset_counts()
    yield
    assert override.route.rule is None, "the test left an override on"


def whole(*shape, dtype=BF16):
    return torch.randint(-3, 4, shape).to(dtype)


def by_columns(*shape, dtype=BF16):
    return whole(*shape[:-2], shape[-1], shape[-2], dtype=dtype).transpose(-2, -1)


def table(*ends):
    return torch.tensor(ends, dtype=torch.int32)


ENDS = (5, 5, 18)


def grouped_calls(dtype=BF16):
    """Returns (name, arguments) of calls that sluice computes; 20 rows, of which two belong to no group."""
    wide = whole(20, 40, dtype=dtype)[:, :32]
    return {"rows": (whole(20, 32, dtype=dtype), whole(3, 32, 24, dtype=dtype), table(*ENDS)),
            "rows, weights by columns": (whole(20, 32, dtype=dtype), by_columns(3, 32, 24, dtype=dtype), table(*ENDS)),
            "rows, a padded result": (wide, by_columns(3, 32, 20, dtype=dtype), table(*ENDS)),
            "one row": (whole(1, 32, dtype=dtype), whole(3, 32, 16, dtype=dtype), table(0, 1, 1)),
            "one group": (whole(20, 32, dtype=dtype), whole(1, 32, 16, dtype=dtype), table(20)),
            "sums": (by_columns(32, 20, dtype=dtype), whole(20, 24, dtype=dtype), table(*ENDS)),
            "sums, a padded result": (by_columns(32, 20, dtype=dtype), whole(20, 24, dtype=dtype)[:, :20], table(*ENDS)),
            "batches": (whole(3, 20, 32, dtype=dtype), whole(3, 32, 24, dtype=dtype)),
            "batches by columns": (by_columns(3, 16, 32, dtype=dtype), by_columns(3, 32, 20, dtype=dtype)),
            "batches of one row": (whole(3, 1, 32, dtype=dtype), whole(3, 32, 24, dtype=dtype))}


def scaled_call(m=20, n=32, k=64, count=3, ends=ENDS):
    return (whole(m, k).to(E4M3), by_columns(count, k, n).to(E4M3), torch.randint(1, 5, (m,)).float(),
            torch.randint(1, 5, (count, n)).float(), table(*ends))


def named_calls():
    return [(f"{name}, {str(dtype)[6:]}", torch._grouped_mm, call) for dtype in (BF16, FP16) for name, call in grouped_calls(dtype).items()] + [
        ("fp8 rows", torch._scaled_grouped_mm, scaled_call()), ("one fp8 row", torch._scaled_grouped_mm, scaled_call(1, ends=(0, 1, 1)))]


def rows_in_groups(made, call):
    """Returns the rows of a result that belong to groups. torch leaves the others undefined, and so does sluice."""
    return made[:int(call[-1][-1])] if made.dim() == 2 else made


@pytest.mark.parametrize("op, call", [case[1:] for case in named_calls()], ids=[case[0] for case in named_calls()])
def test_what_sluice_computes_is_taken_and_is_as_torchs(op, call):
    before = op(*call)
    assert stub.seen == []
    with override(min_gain=0):
        inside = op(*call)
        again = op(*call, out_dtype=call[0].dtype if op is torch._grouped_mm else BF16)
    after = op(*call)
    assert override.counts() == (2, {}) and len(stub.seen) == 2
    for made in (inside, again, after):
        assert (made.dtype, made.shape, made.stride(), made.device) == (before.dtype, before.shape, before.stride(), before.device)
        assert torch.equal(rows_in_groups(made, call), rows_in_groups(before, call))


def test_fast_sums_of_fp8_reach_sluice():
    with override(min_gain=0):
        for fast in (False, True):
            torch._scaled_grouped_mm(*scaled_call(), use_fast_accum=fast)
    assert [call["use_fast_accum"] for call in stub.seen] == [False, True]


def test_torchs_own_function_reaches_the_override():
    call = grouped_calls()["rows"]
    with override(min_gain=0):
        torch.nn.functional.grouped_mm(*call[:2], offs=call[2])
    assert override.counts() == (1, {})


def test_by_default_all_stay_with_torch_since_none_was_measured():
    for given in ({}, {"min_gain": 1e-9}, {"min_gain": 3}):
        override.reset_counts()
        with override(**given):
            for _, op, call in named_calls():
                op(*call)
        assert override.counts() == (0, {why.UNMEASURED: len(named_calls())}) and stub.seen == []


# ---- gradients
def losses(call, forward):
    leaves = [x.detach().clone(memory_format=torch.preserve_format).requires_grad_() for x in call[:2]]
    made = forward(*leaves, *call[2:])
    (rows_in_groups(made, call).float().square().sum() if len(call) > 2 else made.float().square().sum()).backward()
    return [made.detach(), *(leaf.grad for leaf in leaves)]


@pytest.mark.parametrize("name", ["rows", "rows, weights by columns", "batches"])
def test_gradients_are_torchs_and_their_products_are_taken(name):
    def product(a, b, offs=None):
        return torch._grouped_mm(a, b, offs=offs)

    call = grouped_calls()[name]
    before = losses(call, product)
    with override(min_gain=0):
        inside = losses(call, product)
    assert override.counts() == (3, {}), "the product, and those of both gradients"
    wanted = [1, 1, 3] if len(call) > 2 else [0, 0, 0]
    assert [seen.get("groups", 0) for seen in stub.seen][0] == wanted[0] and sorted(seen.get("groups", 0) for seen in stub.seen) == wanted
    for x, y in zip(inside, before):
        assert torch.equal(rows_in_groups(x, call), rows_in_groups(y, call)) and x.stride() == y.stride()


def test_a_compiled_graph_with_a_backward_reaches_the_override_and_leaves_it():
    import torch._inductor.config as config
    call = grouped_calls()["rows"]
    with config.patch(force_disable_caches=True):
        compiled = torch.compile(lambda a, b, offs: torch._grouped_mm(a, b, offs=offs) * 2, fullgraph=True)
        before = losses(call, compiled)
        assert override.counts() == (0, {})
        with override(min_gain=0):
            inside = losses(call, compiled)  # compiled outside
        assert override.counts() == (3, {})
        losses(call, compiled)
    assert override.counts() == (3, {})
    assert all(torch.equal(rows_in_groups(x, call), rows_in_groups(y, call)) for x, y in zip(inside, before))


def test_a_compiled_fp8_product_reaches_the_override():
    import torch._inductor.config as config
    call = scaled_call()
    with config.patch(force_disable_caches=True), override(min_gain=0):
        torch.compile(lambda *all: torch._scaled_grouped_mm(*all, use_fast_accum=True) + 1, fullgraph=True)(*call)
    assert override.counts() == (1, {}) and stub.seen[0]["use_fast_accum"] is True


# ---- what stays with torch
WRONG = {
    "no table": (torch._grouped_mm, lambda: grouped_calls()["rows"][:2], {}, why.TABLE),
    "a table of batches": (torch._grouped_mm, lambda: (*grouped_calls()["batches"], table(1, 2, 3)), {}, why.TABLE),
    "a table of 64 bits": (torch._grouped_mm, lambda: (*grouped_calls()["rows"][:2], table(*ENDS).long()), {}, why.TABLE),
    "a short table": (torch._grouped_mm, lambda: (*grouped_calls()["rows"][:2], table(5, 18)), {}, why.TABLE),
    "a bias": (torch._grouped_mm, lambda: grouped_calls()["rows"], {"bias": torch.ones(3, 24, dtype=BF16)}, why.GROUP_BIAS),
    "an fp32 result": (torch._grouped_mm, lambda: grouped_calls()["rows"], {"out_dtype": FP32}, why.GROUP_RESULT),
    "another k": (torch._grouped_mm, lambda: (whole(20, 24), *grouped_calls()["rows"][1:]), {}, why.GROUP_SIZES),
    "a vector": (torch._grouped_mm, lambda: (whole(32), *grouped_calls()["rows"][1:]), {}, why.GROUP_SIZES),
    "an odd pitch": (torch._grouped_mm, lambda: (whole(20, 36)[:, :32], *grouped_calls()["rows"][1:]), {}, why.GROUP_LAYOUT),
    "a broadcast": (torch._grouped_mm, lambda: (whole(1, 32).expand(20, 32), *grouped_calls()["rows"][1:]), {}, why.GROUP_LAYOUT),
    "fp8 weights by rows": (torch._scaled_grouped_mm, lambda: (scaled_call()[0], scaled_call()[1].contiguous(), *scaled_call()[2:]), {},
                            why.GROUP_LAYOUT),
    "fp8 without a table": (torch._scaled_grouped_mm, lambda: scaled_call()[:4], {}, why.TABLE),
    "scales of columns": (torch._scaled_grouped_mm, lambda: (*scaled_call()[:3], torch.ones(3, 31), table(*ENDS)), {}, why.SCALES),
    "scales of 16 bits": (torch._scaled_grouped_mm, lambda: (*scaled_call()[:2], torch.ones(20).half(), *scaled_call()[3:]), {}, why.SCALES),
    "an fp8 bias": (torch._scaled_grouped_mm, scaled_call, {"bias": torch.ones(3, 32, dtype=BF16)}, why.GROUP_BIAS),
    "scale_result": (torch._scaled_grouped_mm, scaled_call, {"scale_result": torch.ones(())}, why.SCALE_RESULT),
    "an fp8 result": (torch._scaled_grouped_mm, scaled_call, {"out_dtype": E4M3}, why.GROUP_RESULT),
    "bf16 with scales": (torch._scaled_grouped_mm, lambda: (whole(20, 64), *scaled_call()[1:]), {}, why.GROUP_FP8_TYPES),
}


@pytest.mark.parametrize("op, call, named, reason", list(WRONG.values()), ids=list(WRONG))
def test_a_wrong_call_raises_torchs_own_error(op, call, named, reason):
    call = call()
    with pytest.raises(RuntimeError) as theirs:
        op(*call, **named)
    with override(min_gain=0), pytest.raises(type(theirs.value)) as inside:
        op(*call, **named)
    assert str(inside.value) == str(theirs.value) and override.counts() == (0, {reason: 1}) and stub.seen == []


ELSEWHERE = {
    "columns": (lambda: (whole(3, 16, 32), whole(32, 24), table(8, 8, 16)), why.COLUMNS),
    "fp32": (lambda: grouped_calls(FP32)["rows"], why.GROUP_TYPES),
    "no rows": (lambda: (whole(20, 32)[:0], whole(3, 32, 24), table(0, 0, 0)), why.EMPTY),
    "rows by columns": (lambda: (by_columns(24, 32), whole(3, 32, 24), table(5, 5, 18)), why.GROUP_LAYOUT),
    "sums by rows": (lambda: (whole(32, 24), whole(24, 16), table(8, 8, 16)), why.GROUP_LAYOUT),
    "one matrix for all": (lambda: (whole(20, 32), whole(1, 32, 24).expand(3, 32, 24), table(*ENDS)), why.GROUP_LAYOUT),
    "sums of unequal length": (lambda: (by_columns(32, 24), whole(20, 16), table(8, 8, 16)), why.GROUP_SIZES),
    "1024 groups": (lambda: (whole(1024, 16, dtype=FP16), whole(1, 16, 16, dtype=FP16).repeat(1024, 1, 1),
                             torch.arange(1, 1025, dtype=torch.int32)), why.GROUP_SIZES),
    "every other number": (lambda: (whole(20, 32), whole(3, 32, 24), table(5, 0, 5, 0, 18, 0)[::2]), why.TABLE),
}


@pytest.mark.parametrize("call, reason", list(ELSEWHERE.values()), ids=list(ELSEWHERE))
def test_the_rest_of_what_torch_takes_goes_to_torch(call, reason):
    call = call()
    before = torch._grouped_mm(*call)
    with override(min_gain=0):
        inside = torch._grouped_mm(*call)
    assert override.counts() == (0, {reason: 1}) and stub.seen == [] and inside.stride() == before.stride()
    used = int(call[2].max())
    wanted = (slice(None), slice(used)) if reason is why.COLUMNS else slice(used if before.dim() == 2 else None)
    assert torch.equal(inside[wanted], before[wanted])


def test_fp8_sums_and_batches_go_to_torch():
    a, b = whole(32, 32).to(E4M3), by_columns(32, 32).to(E4M3)
    with override(min_gain=0):
        torch._scaled_grouped_mm(a, b, torch.ones(96), torch.ones(96), table(16, 16, 32))
        torch._scaled_grouped_mm(a[None], b[None], torch.ones(1, 32), torch.ones(1, 32))
    assert override.counts() == (0, {why.FP8_SUMS: 2})


def test_rows_are_those_of_all_groups():
    calls = grouped_calls()
    with override(min_gain=0, rows=(2, 20)):
        for name in ("rows", "sums", "batches", "one row", "batches of one row"):
            torch._grouped_mm(*calls[name])
        torch._scaled_grouped_mm(*scaled_call(21))
    assert override.counts() == (3, {why.ROWS: 3})


def test_a_device_that_is_no_hopper_goes_to_torch():
    stub.fits = False
    with override(min_gain=0):
        for _, op, call in named_calls():
            op(*call)
    assert override.counts() == (0, {why.DEVICE: len(named_calls())})


def test_all_tensors_of_a_call_are_asked_for_their_device(monkeypatch):
    asked = []
    monkeypatch.setattr(override.route, "fits", lambda *tensors: asked.append(len(tensors)))
    with override(min_gain=0):
        for op, call in ((torch._grouped_mm, grouped_calls()["rows"]), (torch._grouped_mm, grouped_calls()["batches"]),
                         (torch._scaled_grouped_mm, scaled_call())):
            op(*call)
    assert asked == [3, 2, 5]


@pytest.mark.parametrize("error, wanted", [
    (errors.NotPrepared("no"), why.IN_CAPTURE), (errors.Misaligned("no"), "sluice refused: misaligned"),
    (errors.ToolchainError("no"), "sluice refused: toolchain"), (RuntimeError("no"), "sluice refused: RuntimeError")])
def test_an_error_of_sluice_sends_the_call_to_torch(error, wanted):
    for op, call in ((torch._grouped_mm, grouped_calls()["sums"]), (torch._scaled_grouped_mm, scaled_call())):
        override.reset_counts()
        expected = op(*call)
        stub.raises = error
        with override(min_gain=0):
            assert torch.equal(rows_in_groups(op(*call), call), rows_in_groups(expected, call))
            assert override.counts() == (0, {wanted: 1})
            stub.raises = None
            op(*call)
        assert override.counts().taken == (not isinstance(error, errors.ToolchainError)), "not tried again: half a second each"


def test_batches_at_an_odd_address_go_to_torch():
    """torch refuses them on a GPU, and sluice would compute them."""
    a, b = grouped_calls()["batches"]
    odd = whole(3 * 20 * 32 + 1)[1:].view(3, 20, 32)
    with override(min_gain=0):
        torch._grouped_mm(odd, b)
        torch._grouped_mm(a, b)
    assert override.counts() == (1, {"sluice refused: misaligned": 1})


# ---- decisions
def test_a_change_of_any_metadata_is_seen():
    """A key that leaves one out would send the second call of a pair to sluice."""
    a, b, ends = grouped_calls()["rows"]
    x, w, scale_a, scale_b, _ = scaled_call()
    of_groups, of_fp8 = dict(self=a, mat2=b, offs=ends), dict(self=x, mat2=w, scale_a=scale_a, scale_b=scale_b, offs=ends)
    pairs = [(of_groups, change) for change in (
        dict(self=by_columns(20, 32)), dict(self=whole(24, 32).t()[:20]), dict(self=a.half()), dict(mat2=b.half()), dict(self=whole(20, 24)),
        dict(mat2=whole(3, 32, 28)[..., :24]), dict(mat2=whole(1, 32, 24).expand(3, 32, 24)), dict(mat2=whole(2, 32, 24)), dict(offs=None),
        dict(offs=ends.long()), dict(offs=table(5, 18)), dict(offs=table(5, 0, 5, 0, 18, 0)[::2]), dict(out_dtype=FP32),
        dict(bias=torch.ones(3, 24, dtype=BF16)))]
    pairs += [(of_fp8, change) for change in (
        dict(self=x.to(torch.float8_e5m2)), dict(mat2=w.contiguous()), dict(scale_a=scale_a.double()), dict(scale_a=torch.ones(40)[::2]),
        dict(scale_a=scale_a[:, None]), dict(scale_b=scale_b.double()), dict(scale_b=torch.ones(3, 64)[:, ::2]), dict(scale_b=scale_b[:2]),
        dict(scale_result=torch.ones(())), dict(offs=table(5, 18)), dict(out_dtype=E4M3), dict(bias=torch.ones(3, 32, dtype=BF16)))]
    for call, change in pairs:
        op = torch.ops.aten._grouped_mm if call is of_groups else torch.ops.aten._scaled_grouped_mm
        override.reset_counts()
        with override(min_gain=0):
            op(**call)
            try:
                op(**{**call, **change})
            except RuntimeError:
                pass
        assert override.counts().taken == 1 and sum(override.counts().passed.values()) == 1, (change, override.counts())


def test_other_numbers_in_the_table_are_no_new_decision():
    call = grouped_calls()["rows"]
    rule = override(min_gain=0)
    with rule:
        for ends in ((1, 2, 3), (0, 0, 0), (20, 20, 20), (9, 5, 40)):
            torch._grouped_mm(*call[:2], table(*ends))
    assert override.counts() == (4, {}) and len(rule._rule.decided) == 1


def test_fast_sums_are_a_decision_of_their_own():
    rule = override(min_gain=0)
    with rule:
        [torch._scaled_grouped_mm(*scaled_call(), use_fast_accum=fast) for fast in (True, False, True)]
    assert len(rule._rule.decided) == 2 and override.counts() == (3, {})


def test_one_override_has_dense_products_and_those_of_groups():
    ops = [dense.CALLS, groups.CALLS, groups.SCALED_CALLS]
    both = type("both", (override,), {"route": route.Route("CPU", ops, lambda *tensors: True, never)})
    call = grouped_calls()["rows"]
    with both(min_gain=0):
        torch._scaled_mm(*operands())
        torch._grouped_mm(*call)
        torch._scaled_grouped_mm(*scaled_call())
        with both(min_gain=1):
            torch._grouped_mm(*call)
    assert both.counts() == (2, {why.RESULT: 1, why.UNMEASURED: 1}) and override.counts() == (0, {})


def test_an_op_that_torch_has_no_kernel_of_is_left_alone():
    ops = [groups.CALLS._replace(names=("_no_such_op", "_grouped_mm"))]
    one = type("one", (override,), {"route": route.Route("CPU", ops, lambda *tensors: True, never)})
    with one(min_gain=0):
        torch._grouped_mm(*grouped_calls()["rows"])
    assert one.counts() == (1, {})
