# SPDX-License-Identifier: Apache-2.0
"""mm, linear, scaled_mm and DeepGEMM's signature on the GPU, against fp64; bad calls; dispatcher and compiler."""
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

import sluice  # noqa: E402
import sluice.torch as st  # noqa: E402
from gpu_helpers import BF16, E4M3, E5M2, FP16, FP32, exactly, needs_gpu, powers, real, spread, whole  # noqa: E402

pytestmark = needs_gpu
SIZES = [(1, 128, 256), (16, 512, 1024), (77, 264, 520), (300, 1032, 2048)]


def of_major(matrix, major):
    return matrix if major == "row" else matrix.t().contiguous().t()


@pytest.mark.parametrize("m, n, k", SIZES)
@pytest.mark.parametrize("dtype", [BF16, FP16])
@pytest.mark.parametrize("a_major", ["row", "column"])
@pytest.mark.parametrize("b_major", ["row", "column"])
def test_mm_of_any_layout(m, n, k, dtype, a_major, b_major):
    if a_major == "column" and m % 8:
        m = m // 8 * 8 + 8  # TMA requires multiples of 16 bytes
    a, b = whole(m, k, dtype=dtype), whole(k, n, dtype=dtype, seed=1)
    a, b = of_major(a, a_major), of_major(b, b_major)
    for out_dtype in (dtype, FP32):
        exactly(st.mm(a, b, out_dtype=out_dtype), a.double() @ b.double(), out_dtype)


def test_mm_with_everything():
    a, b, c, bias = whole(96, 256), whole(256, 384, seed=1), whole(96, 384, seed=2), whole(384, seed=3, dtype=FP32)
    expected = torch.relu(2.0 * (a.double() @ b.double()) + 3.0 * c.double() + bias.double())
    exactly(st.mm(a, b, bias=bias, c=c, alpha=2.0, beta=3.0, activation="relu"), expected)
    total = whole(96, 384, dtype=FP32, seed=5)
    before = total.double()
    assert st.mm(a, b, c=total, out=total) is total
    exactly(total, before + a.double() @ b.double())


def test_batches():
    a, b = whole(3, 64, 128), whole(3, 128, 256, seed=1)
    exactly(st.mm(a, b), a.double() @ b.double())
    exactly(st.mm(a, b.transpose(1, 2).contiguous().transpose(1, 2)), a.double() @ b.double())


def test_views_into_larger_buffers():
    wide_a, wide_out = whole(64, 1024), torch.full((64, 2048), 7.0, device="cuda", dtype=BF16)
    b = whole(512, 512, seed=1)
    a, out = wide_a[:, 256:768], wide_out[:, 512:1024]
    st.mm(a, b, out=out)
    exactly(out, a.double() @ b.double())
    assert (wide_out[:, :512] == 7).all() and (wide_out[:, 1024:] == 7).all()


def test_empty_ones():
    assert st.mm(whole(0, 64), whole(64, 32)).shape == (0, 32)
    assert (st.mm(whole(16, 0), whole(0, 32)) == 0).all()
    assert st.linear(whole(0, 64), whole(32, 64)).shape == (0, 32)


@pytest.mark.parametrize("shape", [(256,), (7, 256), (2, 3, 256), (2, 1, 3, 256)])
def test_linear_of_any_rank(shape):
    x, w, bias = whole(*shape), whole(512, 256, seed=1), whole(512, seed=2)
    exactly(st.linear(x, w, bias), torch.nn.functional.linear(x.double(), w.double(), bias.double()))
    exactly(st.linear(x, w, activation="relu"), torch.relu(x.double() @ w.double().t()))
    c = whole(*shape[:-1], 512, seed=3)
    exactly(st.linear(x, w, bias, c=c, activation="relu"), torch.relu(x.double() @ w.double().t() + c.double() + bias.double()))


@pytest.mark.parametrize("activation", ["gelu", "silu"])
def test_activations(activation):
    x, w = real(64, 256), real(512, 256, seed=1)
    expected = getattr(torch.nn.functional, activation)(x.double() @ w.double().t())
    assert torch.allclose(st.linear(x, w, activation=activation).double(), expected, rtol=2**-7, atol=2**-7)


@pytest.mark.parametrize("m, n, k", [(1, 128, 256), (16, 512, 1024), (77, 272, 528), (300, 1024, 2048)])
@pytest.mark.parametrize("scales", ["tensor", "row", "mixed", "block", "block as torch"])
@pytest.mark.parametrize("fast", [True, False])
def test_scaled_mm(m, n, k, scales, fast):
    a, w, bias = whole(m, k, dtype=E4M3), whole(n, k, dtype=E4M3, seed=1), whole(n, seed=2)
    blocks = (-(-n // 128), -(-k // 128))
    if scales == "tensor":
        sa, sb = powers(1).reshape(()), powers(1, seed=3)
    elif scales == "row":
        sa, sb = powers(m, 1), powers(1, n, seed=3)
    elif scales == "mixed":
        sa, sb = powers(1), powers(1, n, seed=3)
    else:
        sa, sb = powers(m, blocks[1]), powers(*blocks, seed=3)
    if "block" in scales:
        x, y = a.double() * spread(sa, m, k).double(), w.double() * spread(sb, n, k).double()
        expected = x @ y.t()
    else:
        expected = (a.double() @ w.double().t()) * sa.double() * sb.double()
    given = sb.contiguous().t() if scales == "block as torch" else sb
    for out_dtype in (BF16, FP32):
        exactly(st.scaled_mm(a, w.t(), sa, given, out_dtype=out_dtype, use_fast_accum=fast), expected, out_dtype)
    exactly(st.scaled_mm(a, w.t(), sa, given, bias, out_dtype=BF16, use_fast_accum=fast), expected + bias.double())
    for c in (whole(m, n, seed=4), whole(m, n, dtype=FP32, seed=5)):
        exactly(st.scaled_mm(a, w.t(), sa, given, bias, c=c, out_dtype=BF16, use_fast_accum=fast),
                expected + bias.double() + c.double())
    into = whole(m, n, seed=6)
    wanted = expected + into.double()
    exactly(st.scaled_mm(a, w.t(), sa, given, c=into, out=into, use_fast_accum=fast), wanted)


def test_scaled_mm_is_torchs_on_real_data():
    a, w = real(512, 2048).to(E4M3), real(1024, 2048, seed=1).to(E4M3)
    sa, sb = torch.tensor(0.5, device="cuda"), torch.tensor(0.25, device="cuda")
    ours = st.scaled_mm(a, w.t(), sa, sb, out_dtype=BF16)
    theirs = torch._scaled_mm(a, w.t(), sa, sb, out_dtype=BF16)
    assert torch.allclose(ours.float(), theirs.float(), rtol=2**-6, atol=2**-4)


def test_deep_gemms_signature():
    a, b = real(192, 1024), real(640, 1024, seed=1)
    qa, qb = st.deep_gemm.per_token_cast_to_fp8(a), st.deep_gemm.per_block_cast_to_fp8(b)
    for dtype, c in ((BF16, None), (FP32, real(192, 640, dtype=FP32, seed=2))):
        d = torch.empty(192, 640, device="cuda", dtype=dtype)
        st.deep_gemm.fp8_gemm_nt(qa, qb, d, c=c)
        x = qa[0].double() * spread(qa[1], 192, 1024).double()
        y = qb[0].double() * spread(qb[1], 640, 1024).double()
        expected = x @ y.t() + (0 if c is None else c.double())
        bound = (136 * 2.0**-13) * (x.abs() @ y.abs().t()) + expected.abs() * 2.0**-8
        assert ((d.double() - expected).abs() <= bound).all()


def test_plans_with_choices_are_used():
    problem = sluice.Problem(96, 512, 4096)
    a, w = whole(96, 4096), whole(512, 4096, seed=1)
    split = sluice.plan(problem, schedule="cooperative", tile=(128, 128), cluster=(1, 1), splits=4)
    assert split.workspace_bytes > 0
    sluice.prepare(split)
    for _ in range(3):
        exactly(st.mm(a, w.t()), a.double() @ w.double().t())
    sluice.verify_workspaces()
    mine = sluice.Workspace()
    exactly(st.mm(a, w.t(), workspace=mine), a.double() @ w.double().t())
    mine.verify()


RACED = """
import sluice, sluice.torch as st
from gpu_helpers import exactly, whole
plan = sluice.race(m=96, n=1000, k=4096)
assert plan.source == "record" and 1 < plan.estimate_us < 1000
print(plan.config)
sluice.prepare(plan)
a, w = whole(96, 4096), whole(1000, 4096, seed=1)
exactly(st.mm(a, w.t()), a.double() @ w.double().t())
"""


def test_a_race_is_won_once_and_used_from_then_on(tmp_path):
    environment = {**os.environ, "SLUICE_RECORDS_DIR": str(tmp_path)}
    first, second = (subprocess.run([sys.executable, "-c", RACED], cwd=os.path.dirname(__file__), env=environment, check=True,
                                    capture_output=True, text=True).stdout for _ in range(2))
    assert first == second and list(tmp_path.iterdir())


@pytest.mark.parametrize("dtype", [BF16, FP16])
def test_any_stride_and_address_of_16_bit_operands_is_taken(dtype):
    w = whole(515, 257, dtype=dtype, seed=1)
    for a in (whole(64, 260, dtype=dtype)[:, 1:258], whole(64, 257, dtype=dtype), whole(257, 67, dtype=dtype)[:, 2:66].t()):
        exactly(st.mm(a, w.t()), a.double() @ w.double().t())
        wide = whole(67, 523, dtype=dtype, seed=2)
        kept, out = wide.clone(), wide[1:65, 3:518]
        st.mm(a, w.t(), out=out)
        exactly(out, a.double() @ w.double().t())
        kept[1:65, 3:518] = out
        assert torch.equal(kept, wide), "nothing beside out is written"


def bad_calls():
    a, w = whole(64, 256), whole(512, 256)
    buffer = whole(64, 1024)
    e = whole(64, 256, dtype=E4M3)
    one = torch.ones((), device="cuda")
    return [
        ("device", lambda: st.mm(a, w.t().cpu()), sluice.WrongDevice, "b is in host memory"),
        ("scale's device", lambda: st.scaled_mm(e, e.t(), one.cpu(), one, out_dtype=BF16), sluice.WrongDevice, "scale_a"),
        ("overlap", lambda: st.mm(buffer[:, :512], whole(512, 512), out=buffer[:, 256:768]), sluice.Aliasing, "out (0x"),
        ("in place", lambda: st.mm(whole(64, 64), a[:, :64].t(), out=a[:, :64]), sluice.Aliasing, "overlaps"),
        ("types", lambda: st.mm(a, w.t().half()), sluice.InvalidType, "bf16"),
        ("fp8 into e5m2", lambda: st.mm(e, e.t(), out_dtype=E5M2), sluice.InvalidType, "e5m2"),
        ("fp8 rows of 264", lambda: st.scaled_mm(whole(64, 264, dtype=E4M3)[:, :256], e.t(), one, one, out_dtype=BF16),
         sluice.Misaligned, "16"),
        ("misaligned fp8", lambda: st.scaled_mm(whole(64, 272, dtype=E4M3)[:, 8:264], e.t(), one, one, out_dtype=BF16),
         sluice.Misaligned, "16"),
        ("expanded out", lambda: st.mm(a, w.t(), out=whole(1, 512).expand(64, 512)), sluice.InvalidStride, "row-major"),
        ("expanded a", lambda: st.mm(whole(1, 256).expand(64, 256), w.t()), sluice.InvalidStride, "a has"),
        ("scales by columns", lambda: st.scaled_mm(e, e.t(), powers(2, 64).t(), powers(1, 2), out_dtype=BF16),
         sluice.InvalidSize, "scale_a.contiguous()"),
        ("quantised overlap", lambda: st.quantize(a, "row", out=a.view(E4M3)[:, :256]), sluice.Aliasing, "overlaps"),
    ]


@pytest.mark.parametrize("index", range(12))
def test_bad_calls_raise_what_fits_and_name_the_argument(index):
    name, call, kind, mention = bad_calls()[index]
    with pytest.raises(kind) as caught:
        call()
    assert mention in str(caught.value), name
    # A right call still works.
    exactly(st.mm(whole(64, 64), whole(64, 64)), whole(64, 64).double() @ whole(64, 64).double())


def ops():
    a, w, bias, out = whole(64, 256), whole(512, 256), whole(512), torch.zeros(64, 512, device="cuda", dtype=BF16)
    e, f, one = a.to(E4M3), w.to(E4M3).t(), torch.ones((), device="cuda")
    return [
        (torch.ops.sluice.mm, (a, w.t(), 1.0, 0.0, False, bias, None, None, False, None, 0, BF16)),
        (torch.ops.sluice.mm_out, (a, w.t(), 1.0, 0.0, False, None, None, "relu", False, None, 0, out)),
        (torch.ops.sluice.add_mm_, (whole(64, 512, dtype=FP32), a, w.t(), True, 0)),
        (torch.ops.sluice.linear, (a, w, bias, None, None, False, None, 0, BF16)),
        (torch.ops.sluice.linear_out, (a, w, None, None, None, False, None, 0, out)),
        (torch.ops.sluice.linear, (a, w, bias, out, None, False, None, 0, BF16)),
        (torch.ops.sluice.scaled_mm, (e, f, one, one, True, None, None, None, False, None, 0, BF16)),
        (torch.ops.sluice.scaled_mm_out, (e, f, one, one, False, bias, None, None, False, None, 0, out)),
        (torch.ops.sluice.scaled_mm, (e, f, one, one, True, None, out, None, False, None, 0, BF16)),
        (torch.ops.sluice.quantize, (a, "1x128", 0)),
        (torch.ops.sluice.quantize, (a, "tensor", 0)),
        (torch.ops.sluice.silu_mul_quantize, (a, "row", 0)),
        (torch.ops.sluice.silu_mul, (a,)),
        (torch.ops.sluice.rms_norm, (a, a[0], a, 1e-5)),
        (torch.ops.sluice.quantize_static, (a, one)),
    ]


@pytest.mark.parametrize("index", range(13))
def test_opcheck(index):
    op, arguments = ops()[index]
    tests = ["test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"]
    if any(isinstance(x, torch.Tensor) and x.dtype == E4M3 for x in arguments):
        tests.remove("test_schema")  # torch 2.11 multiplies the inputs there, which it cannot do in float8
    torch.library.opcheck(op.default, arguments, test_utils=tests)


@pytest.mark.parametrize("recipe", [None, "tensor", "row", "block"])
def test_a_layer_adds_a_residual_in_its_product(recipe):
    layer = st.nn.Linear.from_linear(torch.nn.Linear(256, 512, dtype=BF16, device="cuda"), recipe)
    x, residual = real(2, 24, 256), real(2, 24, 512, seed=1)
    with torch.no_grad():
        apart, together = layer(x).double() + residual.double(), layer(x, residual).double()
        compiled = torch.compile(layer, fullgraph=True)(x, residual).double()
    assert ((together - apart).abs() <= 2.0**-8 * (apart.abs() + layer(x).double().abs())).all()
    assert torch.equal(compiled, together)


@pytest.mark.parametrize("granularity", ["tensor", "row", "1x128", "128x128"])
@pytest.mark.parametrize("rows, columns", [(1, 64), (33, 1000), (64, 14336), (5, 20000)])
def test_gated_quantisers(granularity, rows, columns):
    gate_up = real(rows, 2 * columns)
    gate, up = gate_up.double().chunk(2, -1)
    value = torch.nn.functional.silu(gate) * up
    quantized, scales = st.silu_mul_quantize(gate_up, granularity)
    wanted = st.quantize_reference(value.float(), granularity)[1]
    assert torch.allclose(scales, wanted, rtol=2.0**-18), "of the value that was not rounded to bf16 before"
    if granularity == "128x128":
        scale = spread(scales, rows, columns)
    else:
        scale = scales if scales.numel() in (1, rows) else scales.repeat_interleave(128, 1)[:, :columns]
    error = (quantized.double() * scale.double() - value).abs()
    assert (error <= value.abs() * (2.0**-4 + 2.0**-18) + scale.double() * 2.0**-10 * 1.001).all(), "half a step of e4m3"
    exact = gate_up.clone()
    exact[:, :columns] = (whole(rows, columns, seed=3) * 16 + 96).abs()  # so large that silu(x) is x
    wanted = st.quantize_reference(exact[:, :columns].float() * exact[:, columns:].float(), granularity)
    for got, want in zip(st.silu_mul_quantize(exact, granularity), wanted):
        assert torch.equal(got.float(), want.float())


@pytest.mark.parametrize("recipe", ["tensor", "row", "block"])
def test_a_gated_feed_forward(recipe):
    layer = st.nn.Linear.from_linear(torch.nn.Linear(512, 256, dtype=BF16, device="cuda"), recipe)
    gate_up, residual = real(2, 24, 1024), real(2, 24, 256, seed=1)
    with torch.no_grad():
        got = layer.of_quantized(*st.silu_mul_quantize(gate_up, layer.granularity), BF16, residual).double()
        gate, up = gate_up.float().chunk(2, -1)
        wanted = layer((torch.nn.functional.silu(gate) * up).to(BF16)).double() + residual.double()
    assert (got - wanted).norm() <= 0.02 * wanted.norm()


@pytest.mark.parametrize("recipe", ["tensor", "row", "block", "int4", "int8"])
def test_a_loaded_model_gives_the_bits_of_the_saved_one(recipe):
    def model():
        return torch.nn.Sequential(torch.nn.Linear(256, 512, dtype=BF16), torch.nn.GELU(), torch.nn.Linear(512, 256, dtype=BF16)).cuda()

    first = st.nn.convert_(model(), recipe=recipe)
    again = st.nn.load_(model(), {name: tensor.cpu() for name, tensor in first.state_dict().items()})
    x = real(17, 256)
    with torch.no_grad():
        assert torch.equal(again(x), first(x))


def test_compiled_with_dynamic_rows_and_no_recompile():
    model = torch.nn.Sequential(torch.nn.Linear(256, 512, dtype=BF16), torch.nn.GELU(), torch.nn.Linear(512, 256, dtype=BF16))
    model = st.nn.convert_(model.cuda(), recipe="block")
    compiled = torch.compile(model, fullgraph=True, dynamic=True)
    with torch.no_grad():
        compiled(real(48, 256))
        with torch._dynamo.config.patch(error_on_recompile=True):
            for rows in (3, 17, 64, 300):
                x = real(rows, 256, seed=rows)
                assert torch.allclose(compiled(x).float(), model(x).float(), rtol=2**-5, atol=2**-5)


def test_compiled_out_forms():
    a, w = whole(64, 256), whole(512, 256)

    @torch.compile(fullgraph=True)
    def into(x, y, out):
        st.mm(x * 1, y, out=out)
        return out + 1

    out = torch.zeros(64, 512, device="cuda", dtype=BF16)
    result = into(a, w.t(), out)
    exactly(out, a.double() @ w.double().t())
    assert torch.equal(result, out + 1)
